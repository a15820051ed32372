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
)

// A System is the engine on its AWS ports.
type System struct {
	pipeline *pipeline.Pipeline
	log      *slog.Logger
}

// Open makes a system. A nil log discards.
func Open(settings Settings, clients Clients, log *slog.Logger) (*System, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	store, err := dynamostore.New(clients.DynamoDB, settings.Tables, dynamostore.Options{})
	if err != nil {
		return nil, err
	}
	p, err := pipeline.New(pipeline.Config{
		Config: settings.Config, Store: store, Ports: ports(clients.SQS, settings.Queues), Open: openDestination, Trusted: settings.Trusted, Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &System{pipeline: p, log: log}, nil
}

// answerMargin is how long before the function's deadline a request is answered, if with an error.
const answerMargin = time.Second

// Ingest is the handler of the function behind API Gateway, or behind a function URL.
func (s *System) Ingest() func(ctx context.Context, event json.RawMessage) (any, error) {
	front := api.New(api.Options{Engine: s.pipeline.Engine, Queue: s.pipeline.Queues, Principal: apigw.Principal, RequestID: apigw.RequestID, Log: s.log})
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
	return s.pipeline.Process().Handle
}

// Publish is the handler of the function behind the publish queues.
func (s *System) Publish() func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
	return s.pipeline.Publish().Handle
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
