package function

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// A Backend runs a program with handlers of its own as one of the functions.
type Backend struct {
	function Function
	settings environment.Settings
	clients  Clients
	log      *slog.Logger
	store    *dynamostore.Store
	front    *System // serves callers, who wait for replies
	behind   *System // serves the function's events
}

var _ system.Backend = (*Backend)(nil)

// NewBackend reads the environment of a function. A nil log discards.
func NewBackend(cfg aws.Config, function Function, log *slog.Logger) (*Backend, error) {
	settings, err := environment.Read(os.Getenv)
	if err != nil {
		return nil, err
	}
	return newBackend(function, settings, NewClients(cfg), log)
}

func newBackend(function Function, settings environment.Settings, clients Clients, log *slog.Logger) (*Backend, error) {
	// with replies: the tokens of decorators keep them
	store, err := newStore(Ingest, settings, clients)
	if err != nil {
		return nil, err
	}
	return &Backend{function: function, settings: settings, clients: clients, log: log, store: store}, nil
}

// Start makes two engines: one answers duplicates with their replies, for any function; the other,
// for the function's own events, may not read replies. The streams have to be in the configuration,
// because the other functions know only that. See [system.Backend].
func (b *Backend) Start(streams []system.Stream) (system.Engine, error) {
	if err := pipeline.Configured(b.settings.Config, streams); err != nil {
		return nil, err
	}
	front, err := Open(Ingest, b.settings, b.clients, b.log, streams...)
	if err != nil {
		return nil, err
	}
	behind := front
	if b.function != Ingest {
		if behind, err = open(b.function, b.settings, b.clients, front.watch, front.log, streams); err != nil {
			return nil, err
		}
	}
	b.front, b.behind = front, behind
	return front.pipeline.Engine, nil
}

// Run serves the function's events. It ends with the process, as Lambda requires.
func (b *Backend) Run(ctx context.Context) error {
	lambda.StartWithOptions(b.behind.Handler(), lambda.WithContext(ctx))
	return errors.New("serve function: the Lambda runtime has ended")
}

// Handler serves the HTTP API. See [system.Backend].
func (b *Backend) Handler() http.Handler { return b.front.frontDoor() }

// Tokens returns the store of the tokens of decorators and middleware.
func (b *Backend) Tokens() lease.Store { return b.store }

// Close does nothing: clients hold only idle connections.
func (b *Backend) Close() error { return nil }
