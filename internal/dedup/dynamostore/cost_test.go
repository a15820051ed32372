package dynamostore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/internal/testkit/capacity"
)

// sink accepts everything, and records the groups to publish.
type sink struct{ triggered []record.GroupKey }

func (s *sink) Trigger(_ context.Context, groups []record.GroupKey, _ time.Duration) error {
	s.triggered = append(s.triggered, groups...)
	return nil
}
func (s *sink) Return(context.Context, []record.Message) error     { return nil }
func (s *sink) DeadLetter(context.Context, []record.Refused) error { return nil }
func (*sink) Delay(context.Context, []record.Delayed) error        { return nil }
func (s *sink) Send(_ context.Context, deliveries []record.Delivery) []error {
	return make([]error, len(deliveries))
}

// handler changes the state of the group, and sends to a destination if the test sets one.
func handler(to ...string) record.Handler {
	return func(_ context.Context, a *record.Attempt, m record.Message) error {
		a.State = append([]byte("state after "), m.Body...)
		if len(to) > 0 {
			a.Send(record.Effect{To: to, ContentType: "application/json", Body: append([]byte("sent "), m.Body...)})
		}
		return nil
	}
}

// reply changes the state, and replies with half a KB.
func reply(_ context.Context, a *record.Attempt, m record.Message) error {
	a.State = append([]byte("state after "), m.Body...)
	a.Reply(record.Reply{Status: 200, Body: make([]byte, 512)})
	return nil
}

// batch returns n messages, in one group or in n.
func batch(stream string, n int, together bool) []record.Message {
	out := make([]record.Message, n)
	for i := range out {
		m := record.Message{Stream: stream, ID: fmt.Sprint("id-", i), Group: fmt.Sprint("group-", i), Body: []byte(fmt.Sprintf(`{"order":%d,"cents":12345}`, i)), Accepted: time.Now()}
		if together {
			m.Group = "group"
		}
		if strings.HasPrefix(stream, "own") {
			m.Group = ""
		}
		if strings.HasPrefix(stream, "numbered") {
			m.ID, m.Source, m.Sequence = "", "sender", uint64(i+1)
			if !together {
				m.Sequence = 1
			}
		}
		out[i] = m
	}
	return out
}

// This test holds the figures of docs: requests of the process function, and write units including
// those of the publish function.
func TestTheCostOfAMessageInUnits(t *testing.T) {
	var meter capacity.Meter
	options := connect(t).Options()
	meter.Attach(&options)
	client := dynamodb.New(options)
	for _, c := range []struct {
		stream      string
		n           int
		together    bool
		writes      float64 // per message, at most
		requests    float64 // of processing a message, at most
		repetitions float64 // requests of a duplicate, at most
	}{
		{"key", 1, false, 2, 4, 2},
		{"key", 10, false, 2, 1.5, 0.2},
		{"key-effects", 1, false, 3, 4, 2},
		{"own", 1, false, 1, 3, 2},
		{"own-effects", 1, false, 2, 3, 2},
		{"own-reply", 1, false, 1, 3, 2},
		{"own-issued", 1, false, 2, 5, 2},
		{"own", 10, false, 1, 1.2, 0.2},
		{"own-effects", 10, false, 2, 1.2, 0.2},
		{"numbered", 1, false, 1, 2, 2},
		{"numbered", 10, true, 0.2, 0.4, 0.2},
		{"numbered-effects", 10, true, 0.2, 0.4, 0.2},
		{"numbered-forwards", 10, true, 0.2, 0.4, 0.2},
	} {
		t.Run(fmt.Sprintf("%s, %d at once", c.stream, c.n), func(t *testing.T) {
			queues := &sink{}
			engine, err := dedup.New(dedup.Config{
				Streams: []record.Stream{
					{Name: "key", Handler: handler()},
					{Name: "key-effects", Handler: handler("sink")},
					{Name: "own", Handler: handler()},
					{Name: "own-effects", Handler: handler("sink")},
					{Name: "own-reply", Handler: reply},
					{Name: "own-issued", Handler: handler()},
					{Name: "numbered", Admission: record.BySequence, Handler: handler()},
					{Name: "numbered-effects", Admission: record.BySequence, Handler: handler("sink")},
					{Name: "numbered-forwards", Admission: record.BySequence, Handler: dedup.ForwardTo([]string{"sink"})},
				},
				Store: open(t, client, awstest.Tables(t, client), time.Now), Queues: queues, Senders: map[string]record.Sender{"sink": queues},
				KeepDone: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			messages := batch(c.stream, c.n, c.together)
			meter.Reset()
			var issued capacity.Cost
			if c.stream == "own-issued" {
				for _, m := range messages {
					if _, fresh, err := engine.Issue(t.Context(), m); err != nil || !fresh {
						t.Fatal(fresh, err)
					}
				}
				issued = meter.Reset()
			}
			processed := process(t, engine, messages, record.Processed, &meter)
			for _, err := range engine.Publish(t.Context(), queues.triggered) {
				if err != nil {
					t.Fatal(err)
				}
			}
			published := meter.Reset()
			repeated := process(t, engine, messages, record.Duplicate, &meter)

			processed.WriteUnits += issued.WriteUnits
			processed.Requests += issued.Requests
			each := func(total float64) float64 { return total / float64(c.n) }
			t.Logf("processed %+v, published %+v, repeated %+v", processed, published, repeated)
			if got := each(processed.WriteUnits + published.WriteUnits); got > c.writes {
				t.Errorf("%.2f write units a message, want at most %.2f", got, c.writes)
			}
			if got := each(float64(processed.Requests)); got > c.requests {
				t.Errorf("%.2f requests a message, want at most %.2f", got, c.requests)
			}
			if got := each(float64(repeated.Requests)); got > c.repetitions || repeated.WriteUnits > 0 {
				t.Errorf("a duplicate costs %.2f requests, want at most %.2f, and %.2f write units", got, c.repetitions, repeated.WriteUnits)
			}
		})
	}
}

func process(t *testing.T, engine *dedup.Engine, messages []record.Message, want record.Kind, meter *capacity.Meter) capacity.Cost {
	t.Helper()
	for i, o := range engine.Process(t.Context(), messages) {
		if o.Kind != want {
			t.Fatalf("message %d: %v %v %v", i, o.Kind, o.Reason, o.Err)
		}
	}
	return meter.Reset()
}
