package lambda

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/lease"
	"github.com/effectively-once/once/internal/system"
)

// A Backend runs a program with handlers of its own as one of the functions.
type Backend struct {
	function Function
	settings Settings
	clients  Clients
	log      *slog.Logger
	store    *dynamostore.Store
	system   *System
}

var _ system.Backend = (*Backend)(nil)

// NewBackend reads the environment of a function. A nil log discards.
func NewBackend(ctx context.Context, function Function, log *slog.Logger) (*Backend, error) {
	settings, clients, err := readEnvironment(ctx)
	if err != nil {
		return nil, err
	}
	store, err := newStore(Ingest, settings, clients) // with replies: those that the tokens of decorators keep
	if err != nil {
		return nil, err
	}
	return &Backend{function: function, settings: settings, clients: clients, log: log, store: store}, nil
}

// Start makes the engine. See [system.Backend].
func (b *Backend) Start(streams []system.Stream) (system.Engine, error) {
	s, err := Open(b.function, b.settings, b.clients, b.log, streams...)
	if err != nil {
		return nil, err
	}
	b.system = s
	return s.pipeline.Engine, nil
}

// Run serves the function's events. It ends with the process, as Lambda wants it.
func (b *Backend) Run(ctx context.Context) error {
	lambda.StartWithOptions(b.system.Handler(), lambda.WithContext(ctx))
	return errors.New("serve function: the Lambda runtime has ended")
}

// Handler serves the HTTP front door. See [system.Backend].
func (b *Backend) Handler() http.Handler { return b.system.frontDoor() }

// Tokens is where decorators and middleware keep their tokens.
func (b *Backend) Tokens() lease.Store { return b.store }

// Close gives nothing back: clients hold nothing but idle connections.
func (b *Backend) Close() error { return nil }
