// Package system is the seam between the public API and what opens a store: package once drives a [Backend], packages such as embedded make one.
package system

import (
	"context"
	"net/http"

	"github.com/effectively-once/once/internal/lease"
	"github.com/effectively-once/once/internal/record"
)

// A Backend is a store with the queues, destinations and listeners around it.
//
// Start is called at most once, and before Run and Handler. Tokens and Close may be called at any time, Close once and last. Run and the engine may be used
// concurrently.
type Backend interface {
	// Start makes the engine. The streams are those declared in code; they add to the ones that the backend has from its own configuration, and complete
	// those of the same name. It fails where a stream can't work, for example where a destination does not exist.
	Start(streams []Stream) (Engine, error)
	// Run receives, processes, publishes and sweeps until the context ends, drains, and gives nil; any other error means that it could not go on.
	Run(ctx context.Context) error
	// Handler serves the HTTP front door.
	Handler() http.Handler
	// Tokens is where decorators and middleware keep their tokens.
	Tokens() lease.Store
	// Close gives everything back that opening took. It waits for nothing: Run has returned before.
	Close() error
}

// An Engine is what a started system does for its callers; *dedup.Engine is one.
type Engine interface {
	Process(ctx context.Context, messages []record.Message) []record.Outcome
	Call(ctx context.Context, m record.Message) record.Outcome
}

// A Stream is what code declared of a stream. A zero field means what the backend's configuration says, and the default where it says nothing.
type Stream struct {
	record.Stream      // a nil Handler forwards to Destinations
	Ordered       bool // the code says so; without it and Unordered it says nothing
	Destinations  []string
}
