package telemetry

import (
	"context"

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
