package telemetry

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// Queues counts what goes to the dead-letter queues.
func (t *Telemetry) Queues(inner record.Queues) record.Queues { return countedQueues{inner, t} }

type countedQueues struct {
	record.Queues
	telemetry *Telemetry
}

// DeadLetter counts what has arrived; what has not is sent again, and counted then.
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

// A Function is the handler of a function behind queues.
type Function = func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)

// Triggers tells the age of what the publish function had to publish, when it has tried: how long ago its trigger was sent, which was right after the commit.
//
// On a standard queue triggers are sent before the commit, with a delay, and mostly find nothing. There only those count that failed, from when they were first received.
func (t *Telemetry) Triggers(publish Function) Function {
	return func(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
		response, err := publish(ctx, event)
		for i := range event.Records {
			m := &event.Records[i]
			failed := err != nil || slices.ContainsFunc(response.BatchItemFailures, func(f events.SQSBatchItemFailure) bool { return f.ItemIdentifier == m.MessageId })
			t.triggered(m, failed)
		}
		return response, err
	}
}

func (t *Telemetry) triggered(m *events.SQSMessage, failed bool) {
	since := "SentTimestamp"
	if !strings.HasSuffix(m.EventSourceARN, ".fifo") {
		if !failed {
			return
		}
		since = "ApproximateFirstReceiveTimestamp"
	}
	at, err := strconv.ParseInt(m.Attributes[since], 10, 64)
	trigger, invalid := wire.FromTrigger(*m)
	if err != nil || invalid != nil || trigger.Delivery != nil { // an effect out of the dead-letter queue is as old as whoever redrives it wants
		return
	}
	t.Observe(record.Event{Name: record.EventPending, Stream: trigger.Group.Stream, Count: 1, Age: t.options.Now().Sub(time.UnixMilli(at))})
}
