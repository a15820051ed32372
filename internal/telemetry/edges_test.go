package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/wire"
)

// letters takes dead letters, or does not.
type letters struct {
	record.Queues
	err error
}

func (l *letters) DeadLetter(context.Context, []record.Refused) error { return l.err }

func TestWhatReachesADeadLetterQueueIsCountedOnce(t *testing.T) {
	tm, out := opened(t, telemetry.Options{})
	inner := &letters{err: errors.New("lost answer")}
	queues := tm.Queues(inner)
	refused := []record.Refused{{Message: record.Message{Stream: "orders"}}, {Message: record.Message{Stream: "orders"}}, {Delivery: &record.Delivery{Stream: "payments"}}}
	if err := queues.DeadLetter(t.Context(), refused); err == nil {
		t.Error("no error")
	}
	inner.err = nil
	if err := queues.DeadLetter(t.Context(), refused); err != nil {
		t.Error(err)
	}
	tm.Flush(t.Context(), nil)
	got := map[string]float64{}
	for _, d := range documents(t, out.String()) {
		got[d.root["stream"].(string)] = d.values()["DeadLettered"]
	}
	if diff := cmp.Diff(map[string]float64{"orders": 2, "payments": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// received makes the event of one trigger.
func received(arn string, trigger queue.Message, sent, first time.Duration) events.SQSEvent {
	event := wire.Event(arn, []queue.Delivery{{Message: trigger, ID: "m", Sent: moment().Add(-sent)}})
	event.Records[0].Attributes["ApproximateFirstReceiveTimestamp"] = fmt.Sprint(moment().Add(-first).UnixMilli())
	return event
}

func TestPendingAgeIsTheAgeOfTheTriggerOfWhatIsPending(t *testing.T) {
	trigger := wire.ToTrigger(record.GroupKey{Stream: "orders", Group: "g"})
	again := wire.ToRedelivery("shop", record.Delivery{Identity: "orders/g/1", Stream: "orders", Group: "g", Number: 1})
	const fifo, standard = "arn:aws:sqs:eu-central-1:1:publish.fifo", "arn:aws:sqs:eu-central-1:1:publish"
	for name, c := range map[string]struct {
		event  events.SQSEvent
		failed bool
		age    float64
	}{
		"published":                           {received(fifo, trigger, 90*time.Second, time.Second), false, 90},
		"failed":                              {received(fifo, trigger, 90*time.Second, time.Second), true, 90},
		"sent ahead, and nothing was pending": {received(standard, trigger, 15*time.Minute, 0), false, 0},
		"sent ahead, and failed":              {received(standard, trigger, 17*time.Minute, 2*time.Minute), true, 120},
		"out of the dead-letter queue":        {received(fifo, again, time.Hour, time.Hour), true, 0},
		"no trigger":                          {received(fifo, queue.Message{Body: "x"}, time.Hour, time.Hour), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tm, out := opened(t, telemetry.Options{})
			publish := tm.Triggers(func(context.Context, events.SQSEvent) (events.SQSEventResponse, error) {
				var r events.SQSEventResponse
				if c.failed {
					r.BatchItemFailures = []events.SQSBatchItemFailure{{ItemIdentifier: "m"}}
				}
				return r, nil
			})
			response, err := publish(t.Context(), c.event)
			if err != nil || (len(response.BatchItemFailures) == 1) != c.failed {
				t.Errorf("%+v, %v", response, err)
			}
			tm.Flush(t.Context(), nil)
			docs := documents(t, out.String())
			switch {
			case c.age == 0 && len(docs) > 0, c.age > 0 && (len(docs) != 1 || docs[0].values()["PendingAge"] != c.age):
				t.Errorf("lines %s", out)
			}
		})
	}
}
