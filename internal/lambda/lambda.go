package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/effectively-once/once/internal/api"
	"github.com/effectively-once/once/internal/apigw"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/forward"
	"github.com/effectively-once/once/internal/process"
	"github.com/effectively-once/once/internal/publish"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// A System is the engine on its AWS ports.
type System struct {
	settings Settings
	log      *slog.Logger
	queues   *queues
	engine   *dedup.Engine
}

// Open makes a system. A nil log discards.
func Open(settings Settings, clients Clients, log *slog.Logger) (*System, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &System{settings: settings, log: log, queues: newQueues(clients.SQS, settings.Queues)}
	store, err := dynamostore.New(clients.DynamoDB, settings.Tables, dynamostore.Options{})
	if err != nil {
		return nil, err
	}
	streams := s.streams()
	senders, err := s.openDestinations(streams)
	if err != nil {
		return nil, err
	}
	s.engine, err = dedup.New(dedup.Config{Streams: streams, Store: store, Queues: s.queues, Senders: senders, Sequenced: s.sequenced(), Log: log})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// streams gives the configured streams, each with the built-in handler.
func (s *System) streams() []record.Stream {
	var out []record.Stream
	for _, name := range s.settings.Config.StreamNames() {
		c := s.settings.Config.Streams[name]
		stream := c.Settings(name)
		stream.Events, stream.Stateless, stream.Handler = c.Destinations, true, forward.To(c.Destinations)
		s.queues.byNumber[name] = stream.Admission == record.BySequence
		out = append(out, stream)
	}
	return out
}

// sequenced names the destinations that are streams of this system.
func (s *System) sequenced() map[string]bool {
	out := map[string]bool{}
	for name, d := range s.settings.Config.Destinations {
		out[name] = d.Stream != ""
	}
	return out
}

// answerMargin is how long before the function's deadline a request is answered, if with an error.
const answerMargin = time.Second

// Ingest is the handler of the function behind API Gateway, or behind a function URL.
func (s *System) Ingest() func(ctx context.Context, event json.RawMessage) (any, error) {
	front := api.New(api.Options{Engine: s.engine, Queue: s.queues, Principal: apigw.Principal, RequestID: apigw.RequestID, Log: s.log})
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

// Process is the handler of the function behind the ingress queues.
func (s *System) Process() func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return process.New(s.engine, s.decode, s.queues.Defer, process.Options{Log: s.log}).Handle
}

// Publish is the handler of the function behind the publish queues.
func (s *System) Publish() func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return publish.New(s.engine, s.log).Handle
}

// decode reads a message off an ingress queue.
func (s *System) decode(m events.SQSMessage) (record.Message, error) {
	decoded, origin, err := wire.FromSQS(m, wire.Defaults{Trusted: s.settings.Trusted})
	if err == nil && origin == wire.FromMessageID {
		s.log.Warn("message without an identity of its own: a redrive would make it a new one; send once-id", "stream", decoded.Stream)
	}
	return decoded, err
}

// Start opens the system of the environment and serves one of its handlers, for ever. What hinders it is logged, and reported to Lambda as the failure of the start.
func Start[H any](handler func(*System) H) {
	log := lambdacontext.NewLogger()
	system, err := openFromEnvironment(context.Background(), log)
	if err != nil {
		log.Error("function does not start", "error", err)
		os.Exit(1)
	}
	lambda.Start(handler(system))
}

func openFromEnvironment(ctx context.Context, log *slog.Logger) (*System, error) {
	settings, settingsErr := ReadSettings(os.Getenv)
	clients, err := NewClients(ctx)
	if err := errors.Join(settingsErr, err); err != nil {
		return nil, err
	}
	system, err := Open(settings, clients, log)
	if err != nil {
		return nil, fmt.Errorf("open system: %w", err)
	}
	return system, nil
}
