package function

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/claimcheck"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/localstack/lambda/host"
)

func TestAnEventFromAWSIsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/aws.json")
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		Message record.Message
		Body    string
		Origin  wire.Origin
		Err     string
	}
	var answers []answer
	_, err = (&System{pauser: func(string) pauser { return nil }}).serveBatch(t.Context(), data, func(_ context.Context, batch []queue.Delivery) []queue.Disposition {
		for i := range batch {
			m, origin, err := wire.FromQueue(&batch[i], wire.Defaults{Stream: "orders", Trusted: []string{"AROAIWPX5BD2BHG722MW4"}})
			a := answer{Message: m, Body: string(m.Body), Origin: origin}
			if err != nil {
				a.Err = err.Error()
			}
			a.Message.Body = nil
			answers = append(answers, a)
		}
		return make([]queue.Disposition, len(batch))
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(answers, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/aws.read.json")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.TrimSpace(string(want)), string(got)); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
}

func TestADeliveryComesThroughAnEventUnchanged(t *testing.T) {
	at := time.UnixMilli(1770000000123).UTC()
	sent := []queue.Delivery{
		{
			Message: queue.Message{Body: "b", Attributes: map[string]string{"once-id": "1"}, Group: "g", DedupID: "d", Sender: "AROA:x"},
			Queue:   "ingress.fifo", ID: "1", Receipt: "r", SequenceNumber: "7", Receives: 3, Sent: at, FirstReceived: at.Add(time.Second), Binary: []string{"a", "z"},
		},
		{Message: queue.Message{Attributes: map[string]string{}}, Queue: "ingress.fifo", ID: "2", Receives: 1, Sent: at, FirstReceived: at},
	}
	event, err := json.Marshal(host.Event("arn:aws:sqs:x:1:ingress.fifo", sent))
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&System{pauser: func(string) pauser { return nil }}).serveBatch(t.Context(), event, func(_ context.Context, got []queue.Delivery) []queue.Disposition {
		if d := cmp.Diff(sent, got); d != "" {
			t.Errorf("deliveries (-sent +got):\n%s", d)
		}
		return []queue.Disposition{{}, {Retry: true}}
	})
	answer, encodeErr := json.Marshal(response)
	if err := errors.Join(err, encodeErr); err != nil || string(answer) != `{"batchItemFailures":[{"itemIdentifier":"2"}]}` {
		t.Errorf("answered %s, %v", answer, err)
	}
}

func TestAResponseWithoutFailuresHasAnEmptyList(t *testing.T) {
	response, err := (&System{pauser: func(string) pauser { return nil }}).serveBatch(t.Context(), []byte(`{"Records":[]}`), func(context.Context, []queue.Delivery) []queue.Disposition { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(response); err != nil || string(b) != `{"batchItemFailures":[]}` {
		t.Errorf("answered %s, %v", b, err)
	}
}

// recordedPauses is a queue that records how long it hides messages.
type recordedPauses struct{ hidden map[string]time.Duration }

func (r *recordedPauses) Hide(_ context.Context, receipts []string, pauses []time.Duration) []error {
	for i, receipt := range receipts {
		r.hidden[receipt] = pauses[i]
	}
	return make([]error, len(receipts))
}

func TestTheFunctionHidesFailedMessagesForTheirPauseAndReportsThem(t *testing.T) {
	q := &recordedPauses{hidden: map[string]time.Duration{}}
	s := &System{pauser: func(name string) pauser {
		if name != "ingress.fifo" {
			t.Errorf("asked for the queue %q", name)
		}
		return q
	}}
	event, err := json.Marshal(host.Event("arn:aws:sqs:x:1:ingress.fifo", []queue.Delivery{{ID: "1", Receipt: "r1"}, {ID: "2", Receipt: "r2"}, {ID: "3", Receipt: "r3"}}))
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.serveBatch(t.Context(), event, func(context.Context, []queue.Delivery) []queue.Disposition {
		return []queue.Disposition{{Retry: true, Pause: time.Minute}, {}, {Retry: true}}
	})
	if d := cmp.Diff(map[string]time.Duration{"r1": time.Minute}, q.hidden); d != "" || err != nil || len(response.BatchItemFailures) != 2 {
		t.Errorf("hidden (-want +got):\n%s\n%v, %v", d, response, err)
	}
}

// A silent queue does not answer before the context ends.
type silent struct{ ended error }

func (s *silent) Hide(ctx context.Context, receipts []string, _ []time.Duration) []error {
	<-ctx.Done()
	s.ended = ctx.Err()
	return make([]error, len(receipts))
}

func TestTheFunctionAnswersBeforeItsDeadlineThoughHidingDoesNotEnd(t *testing.T) {
	synctest.Test(t, answersBeforeItsDeadline)
}

func answersBeforeItsDeadline(t *testing.T) {
	q := &silent{}
	s := &System{pauser: func(string) pauser { return q }, now: time.Now}
	event, err := json.Marshal(host.Event("arn:aws:sqs:x:1:ingress.fifo", []queue.Delivery{{ID: "1", Receipt: "r1"}}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hideMargin+50*time.Millisecond) // virtual time: in a bubble
	defer cancel()
	response, err := s.serveBatch(ctx, event, func(context.Context, []queue.Delivery) []queue.Disposition {
		return []queue.Disposition{{Retry: true, Pause: time.Minute}}
	})
	if err != nil || len(response.BatchItemFailures) != 1 || q.ended == nil || ctx.Err() != nil {
		t.Errorf("%+v, %v; hiding ended with %v, the function with %v", response, err, q.ended, ctx.Err())
	}
}

func TestAMessageWithoutADispositionIsReportedAsFailed(t *testing.T) {
	event, err := json.Marshal(host.Event("arn:aws:sqs:x:1:ingress.fifo", []queue.Delivery{{ID: "1"}, {ID: "2"}, {ID: "3"}}))
	if err != nil {
		t.Fatal(err)
	}
	s := &System{pauser: func(string) pauser { return nil }}
	response, err := s.serveBatch(t.Context(), event, func(context.Context, []queue.Delivery) []queue.Disposition {
		return []queue.Disposition{{}, {Retry: true}}
	})
	want := []events.SQSBatchItemFailure{{ItemIdentifier: "2"}, {ItemIdentifier: "3"}}
	if d := cmp.Diff(want, response.BatchItemFailures); d != "" || err != nil {
		t.Errorf("failed (-want +got):\n%s\n%v", d, err)
	}
}

// countedBodies has one body under all names, and counts how often it is read.
type countedBodies struct{ reads atomic.Int64 }

func (*countedBodies) Put(context.Context, string, []byte) error { return errors.ErrUnsupported }

func (c *countedBodies) Get(context.Context, string) (body []byte, ok bool, err error) {
	c.reads.Add(1)
	return []byte("body"), true, nil
}

func TestABatchOfManyLargeBodiesIsHandledInParts(t *testing.T) {
	const large = 3*maxBodies + 1
	sum := sha256.Sum256([]byte("body"))
	var sent []queue.Delivery
	for i := range 2 * large { // every second one is in the bucket
		d := queue.Delivery{ID: strconv.Itoa(i), Message: queue.Message{Body: "body", Sender: "own"}}
		if i%2 == 1 {
			d.Body, d.Attributes = "a name", map[string]string{claimcheck.Attribute: hex.EncodeToString(sum[:]) + "-1"}
		}
		sent = append(sent, d)
	}
	event, err := json.Marshal(host.Event("arn:aws:sqs:x:1:ingress", sent))
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string]int{"all in time": 4, "the time ends in the second part": 2} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			place := &countedBodies{}
			s := &System{pauser: func(string) pauser { return nil }, bodies: bodies{place: place, trusted: []string{"own"}}}
			handled, calls := 0, 0
			response, err := s.serveBatch(ctx, event, func(_ context.Context, got []queue.Delivery) []queue.Disposition {
				if calls++; calls == parts {
					end()
				}
				for i, d := range got {
					if d.Body != "body" || d.Unread != nil || d.ID != strconv.Itoa(handled+i) {
						t.Errorf("%d: %+v", handled+i, d)
					}
				}
				if handled += len(got); place.reads.Load() > int64(calls*maxBodies) {
					t.Errorf("%d bodies are read for part %d", place.reads.Load(), calls)
				}
				return make([]queue.Disposition, len(got))
			})
			if err != nil || calls != parts || len(response.BatchItemFailures) != len(sent)-handled {
				t.Errorf("%d parts with %d messages, %d failures, %v", calls, handled, len(response.BatchItemFailures), err)
			}
			for i, f := range response.BatchItemFailures {
				if f.ItemIdentifier != strconv.Itoa(handled+i) {
					t.Errorf("%s is retried in place of %d", f.ItemIdentifier, handled+i)
				}
			}
		})
	}
}
