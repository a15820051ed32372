package pipeline

import (
	"net/http"

	"github.com/effectively-once/once/internal/record"
)

// A Watch observes a system from the edges of its engine: it gets the engine's events, and wraps
// the ports that the engine calls. *telemetry.Telemetry is one.
type Watch interface {
	// Observe gets each event. It must not block.
	Observe(record.Event)
	Queues(record.Queues) record.Queues
	Handler(record.Handler) record.Handler
	Batch(record.BatchHandler) record.BatchHandler
	Sender(name, kind string, s record.Sender) record.Sender
	// HTTP wraps the HTTP API.
	HTTP(http.Handler) http.Handler
}

// Unwatched is a watch that does nothing.
type Unwatched struct{}

var _ Watch = Unwatched{}

// Observe does nothing.
func (Unwatched) Observe(record.Event) {}

// Queues returns its argument, as do the following methods.
func (Unwatched) Queues(q record.Queues) record.Queues { return q }

// Handler is like Queues.
func (Unwatched) Handler(h record.Handler) record.Handler { return h }

// Batch is like Queues.
func (Unwatched) Batch(h record.BatchHandler) record.BatchHandler { return h }

// Sender is like Queues.
func (Unwatched) Sender(_, _ string, s record.Sender) record.Sender { return s }

// HTTP is like Queues.
func (Unwatched) HTTP(h http.Handler) http.Handler { return h }
