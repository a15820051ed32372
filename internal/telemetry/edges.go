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

// DeadLetter counts letters after they are accepted. A failed call is repeated, and counted then.
func (q countedQueues) DeadLetter(ctx context.Context, refused []record.Refused) error {
	if err := q.Queues.DeadLetter(ctx, refused); err != nil {
		return err
	}
	for i := range refused {
		stream := refused[i].Message.Stream
		if d := refused[i].Delivery; d != nil {
			stream = d.Stream
		}
		q.telemetry.Observe(record.Event{Name: eventDeadLettered, Stream: stream, Count: 1})
	}
	return nil
}
