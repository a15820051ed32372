package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// A stub is an engine that records its calls and fails for chosen groups and identities.
type stub struct {
	committed time.Time // of the last delivery
	calls     []string
	fails     map[string]error
	ctx       context.Context //nolint:containedctx // to look at its deadline
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
	s.committed = d.Committed
	return s.fails[d.Identity]
}

// newHandler trusts the sender of the deliveries that event returns.
func newHandler(s *stub, log *slog.Logger) *Handler {
	return New(s, Options{Trusted: []string{wire.Sender}, Log: log})
}

// event returns deliveries of queue messages; their ids are "0", "1", …
func event(messages ...queue.Message) []queue.Delivery { return eventOf("publish", messages...) }

func eventOf(name string, messages ...queue.Message) []queue.Delivery {
	deliveries := make([]queue.Delivery, len(messages))
	for i, m := range messages {
		deliveries[i] = queue.Delivery{Message: m, Queue: name, ID: string(rune('0' + i)), Receives: 1}
	}
	return deliveries
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

// numbered returns an effect of a group as a redrive sends it.
func numbered(group string, number uint64) queue.Message {
	d := record.Delivery{Identity: fmt.Sprintf("orders/%s/%d", group, number), Stream: "orders", Group: group, Number: number}
	if number == 0 {
		d.Identity = "orders/id"
	}
	return wire.ToRedelivery("shop", d)
}

func failures(t *testing.T, h *Handler, batch []queue.Delivery) string {
	t.Helper()
	var ids []string
	for i, d := range h.Handle(t.Context(), batch) {
		if d.Retry {
			ids = append(ids, batch[i].ID)
		}
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

func TestTheTimeOfADelayedEffectBeginsWhenItIsDue(t *testing.T) {
	sent := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due := sent.Add(10 * time.Minute)
	m := wire.ToRedelivery("shop", record.Delivery{Identity: "orders/a/1", Stream: "orders", Group: "a", Number: 1, Effect: record.Effect{NotBefore: due}})
	for at, want := range map[time.Time]time.Time{sent: due, due.Add(time.Hour): due.Add(time.Hour)} { // the second one is redriven
		s := &stub{}
		batch := event(m)
		batch[0].Sent = at
		failures(t, newHandler(s, nil), batch)
		if !s.committed.Equal(want) {
			t.Errorf("sent at %v: its time begins at %v, want %v", at, s.committed, want)
		}
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
	// the second incarnation of the group
	anew := wire.ToRedelivery("shop", record.Delivery{Identity: "orders/a/1 anew", Stream: "orders", Group: "a", Number: 1, Incarnation: 7})
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

func TestAnEffectThatWasSentIsNotRetriedBehindAFailure(t *testing.T) {
	in := func(m queue.Message) queue.Message { m.Group = "one"; return m }
	s := &stub{fails: map[string]error{"orders/a": errors.New("away")}}
	batch := eventOf("publish.fifo", in(trigger("a")), in(numbered("a", 1)), in(trigger("b")))
	if got := failures(t, newHandler(s, nil), batch); got != "0 2" {
		t.Errorf("retried %q, want the failed trigger and the one behind it", got)
	}
	if diff := cmp.Diff([]string{"deliver orders/a/1 to shop", "publish orders/a orders/b"}, s.calls); diff != "" {
		t.Error(diff)
	}
}

func TestAFailedEffectWithoutANumberDoesNotBlockNumberedOnes(t *testing.T) {
	for _, name := range []string{"publish", "publish.fifo"} {
		single := wire.ToRedelivery("shop", record.Delivery{Identity: "orders/single", Stream: "orders", Group: "a"})
		s := &stub{fails: map[string]error{"orders/single": errors.New("away")}}
		if got := failures(t, newHandler(s, nil), eventOf(name, single, numbered("a", 1), numbered("a", 2))); got != "0" {
			t.Errorf("%s: retried %q", name, got)
		}
		if diff := cmp.Diff([]string{"deliver orders/single to shop", "deliver orders/a/1 to shop", "deliver orders/a/2 to shop"}, s.calls); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAnEmptyBatchDoesNothing(t *testing.T) {
	s := &stub{}
	if got := failures(t, newHandler(s, nil), nil); got != "" || len(s.calls) != 0 {
		t.Errorf("failed %q, called %q", got, s.calls)
	}
}

func TestWorkEndsAMarginBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		newHandler(s, nil).Handle(ctx, event(trigger("a")))
		deadline, _ := s.ctx.Deadline()
		if got := time.Until(deadline); got != time.Minute-deadlineMargin {
			t.Errorf("%v left", got)
		}
	})
}

func TestPendingAgeIsTheAgeOfATrigger(t *testing.T) {
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for name, c := range map[string]struct {
		queue       string
		message     queue.Message
		sent, first time.Duration
		fails       bool
		age         time.Duration
	}{
		"published":                           {"publish.fifo", trigger("a"), 90 * time.Second, time.Second, false, 90 * time.Second},
		"failed":                              {"publish.fifo", trigger("a"), 90 * time.Second, time.Second, true, 90 * time.Second},
		"sent ahead, and nothing was pending": {"publish", trigger("a"), 15 * time.Minute, 0, false, 0},
		"sent ahead, and failed":              {"publish", trigger("a"), 17 * time.Minute, 2 * time.Minute, true, 2 * time.Minute},
		"redriven effect":                     {"publish.fifo", numbered("a", 1), time.Hour, time.Hour, true, 0},
		"no trigger":                          {"publish.fifo", queue.Message{Body: "x"}, time.Hour, time.Hour, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stub{fails: map[string]error{}}
			if c.fails {
				s.fails["orders/a"], s.fails["orders/a/1"] = errors.New("away"), errors.New("away")
			}
			var seen []record.Event
			h := New(s, Options{Trusted: []string{wire.Sender}, Observe: func(e record.Event) { seen = append(seen, e) }, Now: func() time.Time { return now }})
			h.Handle(t.Context(), []queue.Delivery{{Message: c.message, Queue: c.queue, ID: "m", Sent: now.Add(-c.sent), FirstReceived: now.Add(-c.first)}})
			var want []record.Event
			if c.age > 0 {
				want = []record.Event{{Name: record.EventPending, Stream: "orders", Count: 1, Age: c.age}}
			}
			if d := cmp.Diff(want, seen); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
		})
	}
}

func TestATriggerThatWasNotReadStaysInItsQueue(t *testing.T) {
	var log bytes.Buffer
	s := &stub{}
	batch := event(trigger("a"), wire.ToRedelivery("shop", record.Delivery{Identity: "orders/1", Stream: "orders"}))
	for i := range batch {
		batch[i].Unread = errors.New("bucket away")
		batch[i].Sender = wire.Sender
	}
	for i, d := range newHandler(s, slog.New(slog.NewTextHandler(&log, nil))).Handle(t.Context(), batch) {
		if !d.Retry || d.Pause != queue.UnreadPause {
			t.Errorf("%d: %+v", i, d)
		}
	}
	if len(s.calls) > 0 || strings.Count(log.String(), "trigger not read") != 2 || !strings.Contains(log.String(), "bucket away") {
		t.Errorf("calls %q, log:\n%s", s.calls, log.String())
	}
}
