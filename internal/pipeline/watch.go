package pipeline

import (
	"context"
	"net/http"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/record"
)

// A Watch observes a system from the edges of its engine: it is told what happened, and stands around what the engine calls. *telemetry.Telemetry is one.
type Watch interface {
	// Observe is told what happened. It must not block.
	Observe(record.Event)
	Queues(record.Queues) record.Queues
	Handler(record.Handler) record.Handler
	Sender(name, kind string, s record.Sender) record.Sender
	// Triggers and HTTP are for whoever receives: the publish function, and the front door.
	Triggers(Function) Function
	HTTP(http.Handler) http.Handler
}

// A Function is the handler of a function behind queues.
type Function = func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)

// Unwatched is the watch of nobody.
type Unwatched struct{}

var _ Watch = Unwatched{}

// Observe does nothing.
func (Unwatched) Observe(record.Event) {}

// Queues gives what it was given, as the following do.
func (Unwatched) Queues(q record.Queues) record.Queues { return q }

// Handler is like Queues.
func (Unwatched) Handler(h record.Handler) record.Handler { return h }

// Sender is like Queues.
func (Unwatched) Sender(_, _ string, s record.Sender) record.Sender { return s }

// Triggers is like Queues.
func (Unwatched) Triggers(f Function) Function { return f }

// HTTP is like Queues.
func (Unwatched) HTTP(h http.Handler) http.Handler { return h }
