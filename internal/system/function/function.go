package function

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/aws/lambdaconfig"
	"github.com/effectively-once/once/internal/blob/s3blob"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/apigw"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/schedule"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/follow"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/system/function/tasks"
	"github.com/effectively-once/once/internal/system/pipeline"
	"github.com/effectively-once/once/internal/telemetry"
)

// A Function is one of the three functions of a deployment.
type Function string

// The functions.
const (
	Ingest  Function = "ingest"  // behind API Gateway, or behind a function URL
	Process Function = "process" // behind the ingress queues
	Publish Function = "publish" // behind the publish queues
)

// A System is the engine on its AWS ports, for one function.
type System struct {
	function  Function
	name      string // of the system; may be empty
	pipeline  *pipeline.Pipeline
	store     *dynamostore.Store
	sessions  *session.Sessions
	schedules *schedule.Schedules // nil if the function does not sweep
	keeper    *delay.Keeper
	watch     *telemetry.Telemetry
	bucket    bool // there is one, for blobs, claims and bodies
	bodies    bodies
	queues    environment.Queues
	allow     func(r *http.Request, route, stream string) error // nil: the API decides who may do what
	sqs       *sqs.Client
	pauser    func(queue string) pauser // nil if the functions do not know the queue
	log       *slog.Logger
	now       func() time.Time
}

// Open makes the system of one function, with the configured streams and the streams declared in
// code. It makes no call. If log is nil, nothing is logged.
func Open(function Function, settings environment.Settings, clients Clients, log *slog.Logger, declared ...system.Stream) (*System, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	watch, err := newWatch(settings, declared, log)
	if err != nil {
		return nil, err
	}
	return open(function, settings, clients, watch, log, declared)
}

// open makes a system with existing clients and telemetry.
func open(function Function, settings environment.Settings, clients Clients, watch *telemetry.Telemetry, log *slog.Logger, declared []system.Stream) (*System, error) {
	if err := pipeline.CheckDirect(settings.Config, declared); err != nil {
		return nil, err
	}
	if function == Process {
		if err := pipeline.CheckRegistered(settings.Config, declared); err != nil {
			return nil, err
		}
	}
	store, err := newStore(function, settings, clients)
	if err != nil {
		return nil, err
	}
	cfg := pipeline.Config{
		Config: settings.Config, Declared: declared, Store: store, Ports: clients.ports(settings), Open: clients.destination, OpenHandler: clients.handlers(function), Sign: clients.sign, Secret: clients.secrets().Source,
		Trusted: settings.Trusted, Sources: settings.Queues.ByQueue(), Partitions: partitions, Watch: watch, Log: log,
	}
	if settings.Bucket != "" {
		cfg.Blobs, cfg.Large = s3blob.New(clients.S3, settings.Bucket), true
	}
	p, err := pipeline.New(cfg)
	if err != nil {
		return nil, err
	}
	if function == Process {
		for _, name := range settings.Queues.WithoutQueue(settings.Config) {
			log.Warn("source has no queue: nothing can be sent to it; deploy a template that is made for this configuration", "ingress", name)
		}
	}
	schedules, err := newSchedules(function, p, store)
	if err != nil {
		return nil, err
	}
	return &System{
		schedules: schedules, function: function, name: settings.Config.Name, pipeline: p, store: store, watch: watch, bucket: settings.Bucket != "", bodies: clients.bodies(settings), queues: settings.Queues, allow: apigw.Allow(settings.Config.Server), sqs: clients.SQS,
		pauser: sqsPauser(clients.SQS, settings.Queues), log: log, now: time.Now,
		// Several instances serve them, so each renewal of a lease is a write.
		sessions: p.Sessions(store, p.Queues, session.Config{}),
		keeper:   delay.NewKeeper(clients.delays(settings), p.Queues.Move, delay.Options{Batch: moveBatch, Ahead: moveAhead, Log: log}),
	}, nil
}

// newSchedules returns the schedules of the function that sweeps, and nil for others.
func newSchedules(function Function, p *pipeline.Pipeline, store *dynamostore.Store) (*schedule.Schedules, error) {
	if function != Process {
		return nil, nil //nolint:nilnil // no schedules are no error
	}
	return p.Schedules(store, p.Engine, p.Queues)
}

// newStore returns the store of a function. Behind a queue there is no caller that waits for a
// reply: the replies of duplicates are not read there, which saves their cost.
func newStore(function Function, settings environment.Settings, clients Clients) (*dynamostore.Store, error) {
	var o dynamostore.Options
	if function == Process {
		o.Replies = dynamostore.LeaveReplies
	}
	if settings.Bucket != "" {
		o.Claims = s3blob.NewClaims(clients.S3, settings.Bucket)
	}
	return dynamostore.New(clients.DynamoDB, settings.Tables, o)
}

// answerMargin is the time before the function's deadline at which a request is answered, if
// necessary with an error.
const answerMargin = time.Second

// A Handler serves the events of one function.
type Handler func(ctx context.Context, event json.RawMessage) (any, error)

// Handler returns the handler of the system's function. It reports at the end of each call. Tasks
// may be sent to the functions behind queues: a sweep to process if a stream has a handler in code,
// because a sweep runs handlers; a redrive to the function that serves the dead-letter queue.
func (s *System) Handler() Handler { return telemetry.Invoke(s.watch, s.serve()) }

func (s *System) serve() Handler {
	switch s.function {
	case Process:
		return s.orTask(s.pipeline.Messages())
	case Publish:
		return s.orTask(s.pipeline.Publish().Handle)
	default:
		return s.ingest()
	}
}

func (s *System) ingest() Handler {
	front := s.frontDoor()
	return apigw.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if deadline, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline.Add(-answerMargin))
			defer cancel()
		}
		front.ServeHTTP(w, r.WithContext(ctx))
	}))
}

func (s *System) frontDoor() http.Handler {
	return s.watch.HTTP(api.New(api.Options{
		Direct: s.direct(), Engine: s.pipeline.Engine, System: s.name, Queue: s.pipeline.Queues, Streams: s.knownTo, Principal: apigw.Principal, Allow: s.allow, RequestID: apigw.RequestID, Observe: s.watch.Observe, Log: s.log,
		Logs: follow.NewLogs(s.store, follow.Poller{}), Sessions: s.sessions, LogWait: logWait,
	}))
}

// partitions is how many logs a stream with a pool has, if its configuration does not say so. Each
// takes about 1,000 write units a second.
const partitions = 8

// logWait is the longest that a reader of a log can wait for entries. A function costs money while
// it waits, and so does each look into the store.
const logWait = 5 * time.Second

// knownTo lists the streams for callers that the API authenticated, and none for others.
func (s *System) knownTo(r *http.Request) []string {
	if principal, err := apigw.Principal(r); err != nil || principal == "" {
		return nil
	}
	return s.pipeline.Engine.StreamNames()
}

// orTask returns a handler of tasks, and of batches of messages.
func (s *System) orTask(handle queue.Handler) Handler {
	return func(ctx context.Context, event json.RawMessage) (any, error) {
		task, ok, err := tasks.Read(event)
		switch {
		case err != nil:
			return nil, err
		case ok:
			return s.do(ctx, task)
		}
		return s.serveBatch(ctx, event, handle)
	}
}

// Start opens the system of the environment and serves the events of one function, forever. If it
// can't start, it logs the error, and reports it to Lambda as the failure of the start.
func Start(function Function) {
	log := NewLog()
	s, err := openFromEnvironment(function, log)
	if err != nil {
		log.Error("function does not start", "error", err)
		os.Exit(1)
	}
	lambda.Start(s.Handler())
}

func openFromEnvironment(function Function, log *slog.Logger) (*System, error) {
	settings, settingsErr := environment.Read(os.Getenv)
	cfg, err := lambdaconfig.Load(os.Getenv)
	if err != nil {
		err = fmt.Errorf("read AWS settings: %w", err)
	}
	if err := errors.Join(settingsErr, err); err != nil {
		return nil, err
	}
	s, err := Open(function, settings, NewClients(cfg), log)
	if err != nil {
		return nil, fmt.Errorf("open system: %w", err)
	}
	return s, nil
}
