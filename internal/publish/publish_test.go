package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// A stub is an engine that notes its calls and fails for the groups and identities that it is told.
type stub struct {
	calls []string
	fails map[string]error
	ctx   context.Context //nolint:containedctx // to look at its deadline
}

func (s *stub) Publish(ctx context.Context, groups []record.GroupKey) []error {
	s.ctx = ctx
	call := "publish"
	errs := make([]error, len(groups))
	for i, g := range groups {
		call += " " + g.Path()
		errs[i] = s.fails[g.Path()]
	}
	s.calls = append(s.calls, call)
	return errs
}

func (s *stub) Deliver(_ context.Context, to string, d record.Delivery) error {
	s.calls = append(s.calls, "deliver "+d.Identity+" to "+to)
	return s.fails[d.Identity]
}

// newHandler believes what event makes.
func newHandler(s *stub, log *slog.Logger) *Handler {
	return New(s, []string{wire.Sender}, log)
}

// event makes an event of queue messages; their ids are "0", "1", …
func event(messages ...queue.Message) events.SQSEvent { return eventOf("publish", messages...) }

func eventOf(name string, messages ...queue.Message) events.SQSEvent {
	deliveries := make([]queue.Delivery, len(messages))
	for i, m := range messages {
		deliveries[i] = queue.Delivery{Message: m, ID: string(rune('0' + i)), Receives: 1}
	}
	return wire.Event("arn:aws:sqs:eu-central-1:123456789012:"+name, deliveries)
}

func trigger(group string) queue.Message {
	m := wire.ToTrigger(record.GroupKey{Stream: "orders", Group: group})
	m.Group = ""
	return m
}

func effect(identity string) queue.Message {
	m := wire.ToRedelivery("shop", record.Delivery{Identity: identity, Stream: "orders", Group: "a", Number: 1})
	m.Group = ""
	return m
}

// numbered is an effect of a group as a redrive sends it.
func numbered(group string, number uint64) queue.Message {
	d := record.Delivery{Identity: fmt.Sprintf("orders/%s/%d", group, number), Stream: "orders", Group: group, Number: number}
	if number == 0 {
		d.Identity = "orders/id"
	}
	return wire.ToRedelivery("shop", d)
}

func failures(t *testing.T, h *Handler, e events.SQSEvent) string {
	t.Helper()
	response, err := h.Handle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, f := range response.BatchItemFailures {
		ids = append(ids, f.ItemIdentifier)
	}
	return strings.Join(ids, " ")
}

func TestEachGroupOfABatchIsPublishedOnceInOneCall(t *testing.T) {
	s := &stub{}
	if got := failures(t, newHandler(s, nil), event(trigger("a"), trigger("b"), trigger("a"))); got != "" {
		t.Errorf("failed %q", got)
	}
	if diff := cmp.Diff([]string{"publish orders/a orders/b"}, s.calls); diff != "" {
		t.Error(diff)
	}
}

func TestAFailedGroupFailsItsMessagesOnly(t *testing.T) {
	s := &stub{fails: map[string]error{"orders/a": errors.New("away")}}
	if got := failures(t, newHandler(s, nil), event(trigger("a"), trigger("b"), trigger("a"))); got != "0 2" {
		t.Errorf("failed %q", got)
	}
}

func TestAMessageThatIsNoTriggerFailsAndIsLoggedWithoutItsBody(t *testing.T) {
	var log bytes.Buffer
	s := &stub{}
	h := newHandler(s, slog.New(slog.NewTextHandler(&log, nil)))
	e := event(queue.Message{Body: "hidden"}, trigger("a"), queue.Message{Body: `{"publish":{"stream":"../x"}}`})
	if got := failures(t, h, e); got != "0 2" {
		t.Errorf("failed %q", got)
	}
	if diff := cmp.Diff([]string{"publish orders/a"}, s.calls); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(log.String(), "message is not a trigger"); n != 2 || strings.Contains(log.String(), "hidden") {
		t.Errorf("log %q", log.String())
	}
}

func TestARedrivenEffectIsDeliveredBeforeItsGroupIsPublished(t *testing.T) {
	s := &stub{fails: map[string]error{"orders/a/2": errors.New("away")}}
	if got := failures(t, newHandler(s, nil), event(trigger("a"), effect("orders/a/1"), effect("orders/a/2"))); got != "2" {
		t.Errorf("failed %q", got)
	}
	if diff := cmp.Diff([]string{"deliver orders/a/1 to shop", "deliver orders/a/2 to shop", "publish orders/a"}, s.calls); diff != "" {
		t.Error(diff)
	}
}

func TestAFailureStopsItsMessageGroup(t *testing.T) {
	in := func(m queue.Message, group string) queue.Message { m.Group = group; return m }
	s := &stub{fails: map[string]error{"orders/a": errors.New("away")}}
	batch := []queue.Message{in(trigger("b"), "one"), in(trigger("a"), "one"), in(trigger("c"), "one"), in(trigger("d"), "two")}
	if got := failures(t, newHandler(s, nil), eventOf("publish.fifo", batch...)); got != "1 2" {
		t.Errorf("failed %q", got)
	}
	if got := failures(t, newHandler(s, nil), eventOf("publish", batch...)); got != "1" {
		t.Errorf("a standard queue, whose groups promise no order: failed %q", got)
	}
}

func TestARedrivenEffectWaitsForAnEarlierOneOfItsGroupThatFailed(t *testing.T) {
	for _, name := range []string{"publish", "publish.fifo"} {
		s := &stub{fails: map[string]error{"orders/a/2": errors.New("away")}}
		batch := eventOf(name, numbered("a", 1), numbered("a", 2), numbered("b", 1), numbered("a", 3), numbered("b", 2))
		if got := failures(t, newHandler(s, nil), batch); got != "1 3" {
			t.Errorf("%s: failed %q", name, got)
		}
		want := []string{"deliver orders/a/1 to shop", "deliver orders/b/1 to shop", "deliver orders/a/2 to shop", "deliver orders/b/2 to shop"}
		if diff := cmp.Diff(want, s.calls); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestARedrivenEffectDoesNotWaitForAnotherDestination(t *testing.T) {
	to := func(destination string, number uint64) queue.Message {
		return wire.ToRedelivery(destination, record.Delivery{Identity: fmt.Sprintf("%s/%d", destination, number), Stream: "orders", Group: "a", Number: number})
	}
	for _, name := range []string{"publish", "publish.fifo"} {
		s := &stub{fails: map[string]error{"shop/1": errors.New("away")}}
		if got := failures(t, newHandler(s, nil), eventOf(name, to("shop", 1), to("ledger", 1), to("shop", 2), to("ledger", 2))); got != "0 2" {
			t.Errorf("%s: failed %q", name, got)
		}
		if diff := cmp.Diff([]string{"deliver shop/1 to shop", "deliver ledger/1 to ledger", "deliver ledger/2 to ledger"}, s.calls); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestRedrivenEffectsOfAGroupAreSentInTheOrderOfTheirNumbers(t *testing.T) {
	s := &stub{fails: map[string]error{"orders/a/2": errors.New("away")}}
	anew := wire.ToRedelivery("shop", record.Delivery{Identity: "orders/a/1 anew", Stream: "orders", Group: "a", Number: 1, Incarnation: 7}) // the group's second life
	if got := failures(t, newHandler(s, nil), event(anew, numbered("a", 3), numbered("a", 2), numbered("a", 1))); got != "0 1 2" {
		t.Errorf("failed %q", got)
	}
	if diff := cmp.Diff([]string{"deliver orders/a/1 to shop", "deliver orders/a/2 to shop"}, s.calls); diff != "" {
		t.Error(diff)
	}
}

func TestEffectsWithoutNumbersDoNotWaitForOneAnother(t *testing.T) {
	s := &stub{fails: map[string]error{"orders/id": errors.New("away")}}
	other := wire.ToRedelivery("shop", record.Delivery{Identity: "orders/other", Stream: "orders"})
	if got := failures(t, newHandler(s, nil), eventOf("publish.fifo", numbered("", 0), other)); got != "0" {
		t.Errorf("failed %q", got)
	}
	if diff := cmp.Diff([]string{"deliver orders/id to shop", "deliver orders/other to shop"}, s.calls); diff != "" {
		t.Error(diff)
	}
}

func TestAnEffectThatWasSentIsNotGivenBackBehindAFailure(t *testing.T) {
	s := &stub{fails: map[string]error{"orders/a": errors.New("away")}}
	fifo := wire.ToTrigger(record.GroupKey{Stream: "orders", Group: "a"})
	if got := failures(t, newHandler(s, nil), eventOf("publish.fifo", fifo, numbered("a", 1), fifo)); got != "0 2" {
		t.Errorf("failed %q", got)
	}
}

func TestAnEmptyBatchDoesNothing(t *testing.T) {
	s := &stub{}
	if got := failures(t, newHandler(s, nil), events.SQSEvent{}); got != "" || len(s.calls) != 0 {
		t.Errorf("failed %q, called %q", got, s.calls)
	}
}

func TestWorkEndsAMarginBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := newHandler(s, nil).Handle(ctx, event(trigger("a"))); err != nil {
			t.Fatal(err)
		}
		deadline, _ := s.ctx.Deadline()
		if got := time.Until(deadline); got != time.Minute-DeadlineMargin {
			t.Errorf("%v left", got)
		}
	})
}

func TestAnAnswerWithoutFailuresHasAnEmptyList(t *testing.T) {
	response, err := New(&stub{}, nil, nil).Handle(t.Context(), events.SQSEvent{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(response); err != nil || string(b) != `{"batchItemFailures":[]}` {
		t.Errorf("answered %s, %v", b, err)
	}
}
