// Package system is the seam between the public API and what opens a store: package once drives a
// [Backend] and guards handlers by a store of tokens; packages such as embedded and oncesql make
// them.
package system

import (
	"context"
	"net/http"

	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/record"
)

// New returns the *once.System on a backend. Package once sets it, because this package can't
// import once.
var New func(Backend) any //nolint:gochecknoglobals // set before main, and never again

// NewTokens returns the *once.Tokens of a store. Package once sets it, as New.
var NewTokens func(lease.Store) any //nolint:gochecknoglobals // set before main, and never again

// A Backend is a store with the queues, destinations and listeners around it.
//
// Start is called at most once, and before Run and Handler. Tokens and Close may be called at any
// time, Close once and last. Run and the engine may be used concurrently.
type Backend interface {
	// Start makes the engine. The streams are those declared in code; they are added to the streams
	// of the backend's own configuration, and complete the ones of the same name. It returns an
	// error if a stream can't work, for example if a destination does not exist.
	Start(streams []Stream) (Engine, error)
	// Run receives, processes, publishes and sweeps until the context ends, drains, and returns
	// nil; if it can't continue, it returns another error.
	Run(ctx context.Context) error
	// Handler serves the HTTP API.
	Handler() http.Handler
	// Tokens returns the store of the tokens of decorators and middleware.
	Tokens() lease.Store
	// Close releases everything that opening took. It waits for nothing: Run has returned before.
	Close() error
}

// An Engine has the methods of a started system for its callers; *dedup.Engine is one.
type Engine interface {
	Process(ctx context.Context, messages []record.Message) []record.Outcome
	Call(ctx context.Context, m record.Message) record.Outcome
}

// A Stream is a stream as code declares it. If a field is zero, the backend's configuration
// decides, and if that has no value either, the default.
type Stream struct {
	record.Stream      // a nil Handler forwards to Destinations
	Ordered       bool // set by code; if neither it nor Unordered is set, code leaves it open
	Destinations  []string
}
