package process

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A trial is a handler with a clock, whose pauses are as long as its policy allows.
type trial struct {
	*stub
	*Handler
	now time.Time
}

func newTrial(outcomes map[string][]record.Outcome, waiting *system.Waiting) *trial {
	w := &trial{stub: &stub{outcomes: outcomes}, now: noon}
	w.Handler = New(w.stub, decode, w.later, Options{
		Random: func(n int64) int64 { return n - 1 }, Now: func() time.Time { return w.now }, Waiting: waiting,
	})
	return w
}

// deliver returns the dispositions of one call.
func (w *trial) deliver(t *testing.T, batch ...queue.Delivery) []queue.Disposition {
	t.Helper()
	return w.Handle(t.Context(), batch)
}

func sent(id, group, name string, receives int, at time.Time) queue.Delivery {
	return queue.Delivery{Message: queue.Message{Group: group}, Queue: name, ID: id, Receives: receives, Sent: at}
}

func TestAMessageIsRetriedWithGrowingPausesUntilItsTimeIsOver(t *testing.T) {
	for _, name := range []string{"ingress", "ingress.fifo"} {
		w := newTrial(map[string][]record.Outcome{"a": {failed}}, nil)
		tries := 0
		for {
			tries++
			d := w.deliver(t, sent("a", "g", name, tries, noon))[0]
			if !d.Retry {
				break
			}
			if want := min(5*time.Minute, time.Second<<min(tries-1, 20)); d.Pause != want {
				t.Fatalf("%s: pause %v after try %d, want %v", name, d.Pause, tries, want)
			}
			w.now = w.now.Add(d.Pause)
		}
		if age := w.now.Sub(noon); age < 24*time.Hour || age > 24*time.Hour+5*time.Minute {
			t.Errorf("%s: refused after %v", name, age)
		}
		if last := w.calls[len(w.calls)-1]; last != "refuse a:attempts" {
			t.Errorf("%s: %s", name, last)
		}
	}
}

func TestAnOutageOfFiveMinutesDeadLettersNothing(t *testing.T) {
	w := newTrial(map[string][]record.Outcome{"a": {failed}}, nil)
	for tries := 1; w.now.Sub(noon) < 5*time.Minute; tries++ {
		d := w.deliver(t, sent("a", "g", "ingress.fifo", tries, noon))[0]
		if !d.Retry {
			t.Fatalf("refused after %v", w.now.Sub(noon))
		}
		w.now = w.now.Add(d.Pause)
	}
}

func TestABacklogThatIsOlderThanItsTimeGetsItsTries(t *testing.T) {
	// the message was behind a failing one
	for name, first := range map[string]int{"ingress": 1, "ingress.fifo": 400} {
		w := newTrial(map[string][]record.Outcome{"a": {failed}}, nil)
		old := noon.Add(-100 * time.Hour)
		for n := range record.MinTries {
			d := w.deliver(t, sent("a", "g", name, first+n, old))[0]
			if more := n+1 < record.MinTries; d.Retry != more || more && d.Pause < time.Second/2 {
				t.Errorf("%s: after failure %d: %+v", name, n+1, d)
			}
		}
	}
}

func TestTheTimeOfADelayedMessageBeginsWhenItIsDue(t *testing.T) {
	w := newTrial(map[string][]record.Outcome{"a": {failed}}, nil)
	const delay = 15 * time.Minute
	policy := record.RetryPolicy{First: time.Second, Max: time.Second, For: delay}
	w.Handler = New(w.stub, func(d *queue.Delivery) (record.Message, error) {
		return record.Message{Stream: "orders", ID: d.ID, NotBefore: noon.Add(delay)}, nil
	}, w.later, Options{Retry: func(string) record.RetryPolicy { return policy }, MinTries: 1, Now: func() time.Time { return w.now }})
	for _, x := range []struct {
		at    time.Duration
		retry bool
	}{{delay, true}, {2*delay - 1, true}, {2 * delay, false}} {
		w.now = noon.Add(x.at)
		if d := w.deliver(t, sent("a", "g", "ingress", 1, noon))[0]; d.Retry != x.retry {
			t.Errorf("%v after it was sent: retried %t, want %t", x.at, d.Retry, x.retry)
		}
	}
}

// TestAtTheLastChanceTheDeliveriesCountWhichOtherProcessesMayHaveTried delivers each copy to a new
// process, which has seen no failure before.
func TestAtTheLastChanceTheDeliveriesCountWhichOtherProcessesMayHaveTried(t *testing.T) {
	for age, want := range map[time.Duration]int{record.LastChance: record.MinTries, record.LastChance - time.Second: 0} {
		refused := 0
		for n := 1; refused == 0 && n < 10; n++ {
			w := newTrial(map[string][]record.Outcome{"a": {failed}}, nil)
			if d := w.deliver(t, sent("a", "g", "ingress", n, noon.Add(-age)))[0]; !d.Retry {
				refused = n
			}
		}
		if refused != want {
			t.Errorf("sent %v ago: refused at delivery %d, want %d", age, refused, want)
		}
	}
}

func TestOnlyAFailureOfTheHandlerCountsAsATry(t *testing.T) {
	w := newTrial(map[string][]record.Outcome{"a": {away}}, nil)
	for n := range 20 {
		if d := w.deliver(t, sent("a", "g", "ingress", n+1, noon.Add(-100*time.Hour)))[0]; !d.Retry {
			t.Fatalf("refused after delivery %d", n+1)
		}
	}
}

func TestAFailingMessageDelaysItsGroupOnlyAndAllOfItByTheSamePause(t *testing.T) {
	w := newTrial(map[string][]record.Outcome{"a": {failed}, "c": {away}}, nil)
	got := w.deliver(t, sent("x", "other", "ingress.fifo", 1, noon), sent("a", "g", "ingress.fifo", 4, noon), sent("b", "g", "ingress.fifo", 1, noon),
		sent("c", "g", "ingress.fifo", 9, noon), sent("y", "another", "ingress.fifo", 1, noon))
	pause := queue.Disposition{Retry: true, Pause: 8 * time.Second}
	if d := cmp.Diff([]queue.Disposition{{}, pause, pause, pause, {}}, got); d != "" {
		t.Errorf("dispositions (-want +got):\n%s", d)
	}
}

func TestAMessageKnowsItsTry(t *testing.T) {
	w := newTrial(nil, nil)
	b := w.read([]queue.Delivery{sent("a", "g", "ingress", 7, noon)})
	if got := b.all[0].message.Try; got != 7 {
		t.Errorf("try %d", got)
	}
}

// A delivery is no try if the message did not run: its group was busy, its handler was down or in
// use, it was behind a failed message, or the time of its batch was over.
func TestADeliveryThatDoesNotRunTheMessageIsNoTry(t *testing.T) {
	later := &record.LaterError{At: noon.Add(time.Second), Err: record.ErrUntried}
	outcomes := map[string][]record.Outcome{"a": {
		{Err: later}, {Err: &record.HandlerError{Err: later}}, {Err: record.ErrBlocked}, {Err: fmt.Errorf("run handler: %w", context.DeadlineExceeded)}, failed, failed, processed,
	}}
	w := newTrial(outcomes, nil)
	var tries []int
	for n := range len(outcomes["a"]) {
		d := sent("a", "g", "ingress", n+1, noon)
		tries = append(tries, w.read([]queue.Delivery{d}).all[0].message.Try)
		w.deliver(t, d)
	}
	if d := cmp.Diff([]int{1, 1, 1, 1, 1, 2, 3}, tries); d != "" {
		t.Errorf("tries (-want +got):\n%s", d)
	}
	w.Queued("b", Result{Outcome: record.Outcome{Err: later}}) // the queue counts it as received once
	w.Queued("c", Result{Outcome: failed})
	b := w.read([]queue.Delivery{sent("b", "g", "ingress", 2, noon), sent("c", "g", "ingress", 2, noon)})
	if b.all[0].message.Try != 1 || b.all[1].message.Try != 2 {
		t.Errorf("tries %d and %d of messages that were not and were tried before the queue had them", b.all[0].message.Try, b.all[1].message.Try)
	}
}

func TestAFailingMessageIsRegisteredUntilItIsSettled(t *testing.T) {
	waiting := system.NewWaiting()
	w := newTrial(map[string][]record.Outcome{"a": {{Err: &record.HandlerError{Err: errors.New("boom")}}, processed}}, waiting)
	w.deliver(t, sent("a", "g", "ingress", 3, noon))
	want := []system.Wait{{
		Group: record.GroupKey{Stream: "orders", Group: "a"}, ID: "a", Try: 3, Error: "handle message: boom", Last: noon, Next: noon.Add(4 * time.Second),
	}}
	if d := cmp.Diff(want, waiting.All()); d != "" {
		t.Errorf("waits (-want +got):\n%s", d)
	}
	w.deliver(t, sent("a", "g", "ingress", 4, noon))
	if got := waiting.All(); len(got) != 0 {
		t.Errorf("settled, and still registered: %s", fmt.Sprint(got))
	}
}

// TestDeliveriesBehindAFailedMessageDoNotLengthenThePause lets b wait behind a, which fails six
// times. Then b fails for the first time.
func TestDeliveriesBehindAFailedMessageDoNotLengthenThePause(t *testing.T) {
	outcomes := []record.Outcome{failed, failed, failed, failed, failed, failed, processed}
	w := newTrial(map[string][]record.Outcome{"a": outcomes, "b": {failed}}, nil)
	for try := range len(outcomes) {
		got := w.deliver(t, sent("a", "g", "ingress.fifo", try+1, noon), sent("b", "g", "ingress.fifo", try+1, noon))
		if last := try == len(outcomes)-1; last && got[1].Pause != time.Second {
			t.Errorf("paused for %v after the first failure", got[1].Pause)
		}
	}
	if got := w.deliver(t, sent("b", "g", "ingress.fifo", 8, noon)); got[0].Pause != 2*time.Second {
		t.Errorf("paused for %v after the second failure", got[0].Pause)
	}
}

func TestAMessageWhoseBodyWasNotReadStaysInItsQueueUntilTheQueueGivesUp(t *testing.T) {
	w := newTrial(map[string][]record.Outcome{}, nil)
	away := errors.New("bucket away")
	w.decode = func(d *queue.Delivery) (record.Message, error) {
		return record.Message{Stream: "orders", ID: "a"}, d.Unread
	}
	for tries := range 1000 {
		m := sent("a", "g", "ingress.fifo", tries+1, noon)
		m.Unread = away
		d := w.deliver(t, m)[0]
		if !d.Retry || d.Pause != queue.UnreadPause {
			t.Fatalf("try %d: %+v", tries+1, d)
		}
		w.now = w.now.Add(d.Pause)
	}
	if age := w.now.Sub(noon); age > 12*24*time.Hour || len(w.calls) > 0 {
		t.Errorf("after %v, when a message expires: %q", age, w.calls)
	}
}

func TestAMessageWhoseHandlerIsDownIsNotTried(t *testing.T) {
	down := record.Outcome{Err: &record.HandlerError{Err: &record.LaterError{At: noon.Add(time.Second), Err: record.ErrUntried}}}
	w := newTrial(map[string][]record.Outcome{"a": {down}}, nil)
	for n := range 20 {
		if d := w.deliver(t, sent("a", "g", "ingress", n+1, noon.Add(-100*time.Hour)))[0]; !d.Retry || d.Pause != time.Second {
			t.Fatalf("delivery %d is %+v, want another try at the time of the error", n+1, d)
		}
	}
}

// TestAStateThatCannotBeReadMakesNoDeadLetterByTime tries a message for ten years where the queue
// keeps it. SQS does not: there it is refused before SQS deletes it, and before its deliveries are
// used up.
func TestAStateThatCannotBeReadMakesNoDeadLetterByTime(t *testing.T) {
	unreadable := record.Outcome{Err: &record.HandlerError{Err: fmt.Errorf("decode: %w", record.ErrUnreadable)}}
	for kept, until := range map[bool]time.Duration{true: 10 * 365 * 24 * time.Hour, false: record.LastChance} {
		waiting := system.NewWaiting()
		w := newTrial(map[string][]record.Outcome{"a": {unreadable}}, waiting)
		w.options.Kept = kept
		for n := 1; ; n++ {
			d := w.deliver(t, sent("a", "g", "ingress.fifo", n, noon))[0]
			if age := w.now.Sub(noon); d.Retry != (kept || age < until) || n > 900 && !kept {
				t.Fatalf("kept %t: retried %t at try %d, after %v", kept, d.Retry, n, age)
			} else if age >= until {
				break
			}
			if all := waiting.All(); len(all) != 1 || all[0].Reason != record.ReasonUnreadable {
				t.Fatalf("kept %t: waits %+v", kept, all)
			}
			if w.now = w.now.Add(d.Pause); n > 1000 {
				w.now = w.now.Add(24 * time.Hour)
			}
		}
		if last := w.calls[len(w.calls)-1]; !kept && last != "refuse a:state-unreadable" {
			t.Errorf("%s", last)
		}
	}
}
