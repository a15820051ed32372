package deployed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/blob/s3blob"
	onceconfig "github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/claimcheck"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// SystemOptions configure a System. Zero fields take the defaults in their comments.
type SystemOptions struct {
	// Config is the configuration that was deployed. If it is nil, it is read from the functions
	// when it is needed: see [Stack.Configuration].
	Config *onceconfig.Config
	// Principal scopes the ids of messages. If it is nil, the caller's own is tried, as the API
	// authenticates it by IAM, and then none, as for messages that came by SQS.
	Principal *string
	// Redriven is called from time to time with the counts of a redrive so far. Optional.
	Redriven func(admin.RedriveInfo)
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

// A System has the methods for a stack that a data folder has for itself.
type System struct {
	stack   *Stack
	options SystemOptions
	store   *dynamostore.Store
	dead    []deadQueue
	bodies  claimcheck.Bodies

	mu    sync.Mutex
	parts *parts // nil until they are needed
}

// parts are the parts of a System that depend on its configuration.
type parts struct {
	config *onceconfig.Config
	engine *dedup.Engine
	queues *pipeline.Queues
}

var _ admin.Admin = (*System)(nil)

// System returns the system of the stack. It makes no call.
func (s *Stack) System(o SystemOptions) (*System, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Redriven == nil {
		o.Redriven = func(admin.RedriveInfo) {}
	}
	tables := dynamostore.Tables{Groups: s.Outputs.GroupsTable, Tokens: s.Outputs.TokensTable}
	store, err := dynamostore.New(s.dynamodb, tables, dynamostore.Options{Now: o.Now, Claims: s3blob.NewClaims(s3.NewFromConfig(s.config), s.Outputs.Bucket)})
	if err != nil {
		return nil, err
	}
	bucket := s3.NewFromConfig(s.config)
	system := &System{stack: s, options: o, store: store, bodies: s3blob.NewBodies(bucket, s.Outputs.Bucket)}
	for _, p := range s.Outputs.dead() {
		system.dead = append(system.dead, deadQueue{p.name, sqsqueue.New(s.sqs, p.url)})
	}
	return system, nil
}

// configured returns the parts that depend on the configuration. The first call reads it from the
// functions if the options have none.
func (s *System) configured(ctx context.Context) (*parts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts != nil {
		return s.parts, nil
	}
	c := s.options.Config
	if c == nil {
		var err error
		if c, err = s.stack.Configuration(ctx); err != nil {
			return nil, err
		}
	}
	p, err := pipeline.New(pipeline.Config{
		Config: withoutHandlers(c), Declared: elsewhere(c), Store: s.store, Ports: s.stack.ports().closed(), Large: true, Now: s.options.Now, Log: s.options.Log,
		Open: func(string, onceconfig.Destination, pipeline.Open) (record.Sender, error) { return nowhere{}, nil },
	})
	if err != nil {
		return nil, err
	}
	s.parts = &parts{c, p.Engine, p.Queues.Over(pipeline.Ports(s.stack.ports()))}
	return s.parts, nil
}

// Close implements the command line's interface of a folder. It does nothing.
func (s *System) Close() error { return nil }

// ports are the queues of a stack.
type ports pipeline.Ports

func (s *Stack) ports() ports {
	port := func(url string) queue.Queue { return sqsqueue.New(s.sqs, url) }
	return ports{
		Ingress: port(s.Outputs.IngressQueueURL), IngressFIFO: port(s.Outputs.IngressFIFOQueueURL),
		Publish: port(s.Outputs.PublishQueueURL), PublishFIFO: port(s.Outputs.PublishFIFOQueueURL),
		Dead: port(s.Outputs.DeadQueueURL), DeadPublish: port(s.Outputs.DeadPublishQueueURL),
	}
}

// closed returns ports that can send only triggers. The engine also returns messages and puts them
// on dead-letter queues; if the caller sent these, they would lose their principal, because only
// the functions are trusted senders.
func (p ports) closed() pipeline.Ports {
	return pipeline.Ports{
		Publish: p.Publish, PublishFIFO: p.PublishFIFO,
		Ingress: shut{p.Ingress}, IngressFIFO: shut{p.IngressFIFO}, Dead: shut{p.Dead}, DeadPublish: shut{p.DeadPublish},
	}
}

// A shut queue takes nothing.
type shut struct{ queue.Queue }

func (s shut) Send(_ context.Context, messages []queue.Message) []queue.SendResult {
	out := make([]queue.SendResult, len(messages))
	for i := range out {
		out[i].Err = fmt.Errorf("send to %s: %w", s.Name(), errElsewhere)
	}
	return out
}

// errElsewhere reports that a step is left to the deployed functions: they have the handlers, the
// destinations and their secrets.
var errElsewhere = errors.New("only the deployed functions do this")

// elsewhere declares every stream with a handler that does not run. The built-in one may differ
// from the deployed one, and a message is processed one time only.
func elsewhere(c *onceconfig.Config) []system.Stream {
	var out []system.Stream
	for _, name := range c.StreamNames() {
		refuse := func(context.Context, *record.Attempt, record.Message) error {
			return fmt.Errorf("run handler of stream %s: %w", name, errElsewhere)
		}
		out = append(out, system.Stream{Stream: record.Stream{Name: name, Handler: refuse}})
	}
	return out
}

// withoutHandlers returns a copy of a configuration without its handlers: [elsewhere] declares
// their streams like all others.
func withoutHandlers(c *onceconfig.Config) *onceconfig.Config {
	out := *c
	out.Handlers = nil
	return &out
}

// nowhere sends nothing.
type nowhere struct{}

func (nowhere) Send(_ context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	for i := range errs {
		errs[i] = fmt.Errorf("send effect: %w", errElsewhere)
	}
	return errs
}
