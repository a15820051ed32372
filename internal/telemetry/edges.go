package telemetry

import (
	"context"
	"errors"

	"github.com/effectively-once/once/internal/record"
)

// Queues returns inner, and counts the messages that are dead-lettered.
func (t *Telemetry) Queues(inner record.Queues) record.Queues { return countedQueues{inner, t} }

type countedQueues struct {
	record.Queues
	telemetry *Telemetry
}

// DeadLetter counts letters after they are accepted. A failed one is repeated, and counted then.
func (q countedQueues) DeadLetter(ctx context.Context, refused []record.Refused) error {
	err := q.Queues.DeadLetter(ctx, refused)
	for i, failed := range record.ErrorsOf(err, len(refused)) {
		if failed != nil {
			continue
		}
		stream := refused[i].Message.Stream
		if d := refused[i].Delivery; d != nil {
			stream = d.Stream
		}
		q.telemetry.Observe(record.Event{Name: eventDeadLettered, Stream: stream, Count: 1})
	}
	return err
}

// failures returns inner, counts its runs that end with an error or a panic, and measures all runs.
func (t *Telemetry) failures(inner record.Handler) record.Handler {
	return func(ctx context.Context, a *record.Attempt, m record.Message) error {
		failed, began := true, t.options.Now()
		defer func() {
			t.options.Ran(m.Stream, t.options.Now().Sub(began))
			if failed {
				t.Observe(record.Event{Name: record.EventHandlerFailed, Stream: m.Stream, Count: 1})
			}
		}()
		err := inner(ctx, a, m)
		_, rejected := errors.AsType[*record.RejectError](err)
		failed = err != nil && !rejected
		return err
	}
}
