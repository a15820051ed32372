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
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/pipeline"
	"github.com/effectively-once/once/internal/system"
)

// A System is the engine on its AWS ports.
type System struct {
	pipeline *pipeline.Pipeline
	store    *dynamostore.Store
	log      *slog.Logger
}

// Open makes a system of the configured streams and of those that are declared in code. A nil log discards.
func Open(settings Settings, clients Clients, log *slog.Logger, declared ...system.Stream) (*System, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	store, err := dynamostore.New(clients.DynamoDB, settings.Tables, dynamostore.Options{})
	if err != nil {
		return nil, err
	}
	p, err := pipeline.New(pipeline.Config{
		Config: settings.Config, Declared: declared, Store: store, Ports: ports(clients.SQS, settings.Queues), Open: openDestination, Trusted: settings.Trusted, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &System{pipeline: p, store: store, log: log}, nil
}

// answerMargin is how long before the function's deadline a request is answered, if with an error.
const answerMargin = time.Second

// A Handler serves the events of one function.
type Handler func(ctx context.Context, event json.RawMessage) (any, error)

// Ingest is the handler of the function behind API Gateway, or behind a function URL.
func (s *System) Ingest() Handler {
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
	return api.New(api.Options{Engine: s.pipeline.Engine, Queue: s.pipeline.Queues, Principal: apigw.Principal, RequestID: apigw.RequestID, Log: s.log})
}

// Process is the handler of the function behind the ingress queues. It serves the schedule of the sweep too.
func (s *System) Process() Handler { return s.orSweep(s.pipeline.Process().Handle) }

// Publish is the handler of the function behind the publish queues. It serves the schedule of the sweep too, where no stream has a handler in code: a sweep runs handlers.
func (s *System) Publish() Handler { return s.orSweep(s.pipeline.Publish().Handle) }

// orSweep tells the schedule's events from batches of messages.
func (s *System) orSweep(batch func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)) Handler {
	return func(ctx context.Context, event json.RawMessage) (any, error) {
		var task Task
		if err := json.Unmarshal(event, &task); err == nil && task.Once != "" {
			return s.do(ctx, task)
		}
		var messages events.SQSEvent
		if err := json.Unmarshal(event, &messages); err != nil {
			return nil, fmt.Errorf("read event: %w", err)
		}
		return batch(ctx, messages)
	}
}

// Start opens the system of the environment and serves one of its handlers, for ever. What hinders it is logged, and reported to Lambda as the failure of the start.
func Start(handler func(*System) Handler) {
	log := lambdacontext.NewLogger()
	s, err := openFromEnvironment(context.Background(), log)
	if err != nil {
		log.Error("function does not start", "error", err)
		os.Exit(1)
	}
	lambda.Start(handler(s))
}

func openFromEnvironment(ctx context.Context, log *slog.Logger) (*System, error) {
	settings, clients, err := readEnvironment(ctx)
	if err != nil {
		return nil, err
	}
	s, err := Open(settings, clients, log)
	if err != nil {
		return nil, fmt.Errorf("open system: %w", err)
	}
	return s, nil
}

func readEnvironment(ctx context.Context) (Settings, Clients, error) {
	settings, settingsErr := ReadSettings(os.Getenv)
	clients, err := NewClients(ctx)
	return settings, clients, errors.Join(settingsErr, err)
}
