package pebblequeue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/queue"
)

func TestAReceiveOfNoMessageIsAnError(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	if _, err := q.Receive(t.Context(), 0, time.Minute, 0); err == nil {
		t.Error("it waits for nothing")
	}
}

// dying is a queue with a message that goes to the dead-letter queue with the next receive, and that queue.
func dying(t *testing.T) (q, dead *Queue) {
	t.Helper()
	db := newDB(t)
	dead = open(t, db, "dead", Options{})
	q = open(t, db, "q", Options{DeadLetter: dead, MaxReceives: 1})
	d := taken(t, q, queue.Message{Body: "poison"})[0]
	if err := q.ChangeVisibility(t.Context(), d.Receipt, 0); err != nil {
		t.Fatal(err)
	}
	return q, dead
}

func TestAMoveToTheDeadLetterQueueThatFailsIsToldWhereNothingElseIsThere(t *testing.T) {
	q, dead := dying(t)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := q.Receive(t.Context(), 10, time.Minute, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("%d messages, %v", len(out), err)
	}
}

func TestAMoveToTheDeadLetterQueueThatFailsHoldsUpNoOtherMessage(t *testing.T) {
	q, dead := dying(t)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), []queue.Message{{Body: "sound"}}) })
	if out, err := q.Receive(t.Context(), 10, time.Minute, 0); err != nil || bodies(out) != "sound" {
		t.Errorf("received %q, %v", bodies(out), err)
	}
}

func TestAReceiveThatFindsItsMessageDeletedLooksForAnother(t *testing.T) {
	db := newDB(t)
	q := open(t, db, "q", Options{})
	mustSend(t, func() []queue.SendResult {
		return q.Send(t.Context(), []queue.Message{{Body: "gone"}, {Body: "there"}})
	})
	if err := db.SingleDelete(q.key(kindMessage, q.index.ready.head.seq), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if out := receive(t, q, 1, time.Minute); bodies(out) != "there" {
		t.Errorf("received %q", bodies(out))
	}
}

func TestAMessageThatCanNotBeReadIsAnErrorWhereNothingElseIsThere(t *testing.T) {
	for _, others := range [][]queue.Message{nil, {{Body: "whole"}}} {
		q := open(t, newDB(t), "q", Options{})
		mustSend(t, func() []queue.SendResult {
			return q.Send(t.Context(), append([]queue.Message{{Body: "torn"}}, others...))
		})
		set(t, q.db, q.key(kindMessage, q.index.ready.head.seq), []byte("torn"))
		out, err := q.Receive(t.Context(), 2, time.Minute, 0)
		if len(out) != len(others) || (err == nil) != (len(others) > 0) {
			t.Errorf("received %q beside %d others, %v", bodies(out), len(others), err)
		}
		if err != nil && !strings.Contains(err.Error(), "decode record") {
			t.Error(err)
		}
	}
}

func TestAQueueThatDoesNotDeduplicateTakesEveryMessageWhateverItsClockDoes(t *testing.T) {
	c := newClock()
	q := open(t, newDB(t), "q.fifo", Options{Now: c.Now})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "a")) })
	c.Advance(-time.Second)
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "a")) })
	if n := q.Len(); n != 2 {
		t.Errorf("%d messages, want both", n)
	}
}

func TestWhatIsNoLongerRememberedIsGoneFromTheDisk(t *testing.T) {
	c := newClock()
	q := open(t, newDB(t), "q.fifo", Options{Deduplicate: time.Minute, Now: c.Now})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "a", "b")) })
	c.Advance(time.Minute)
	for range 2 {
		mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "c")) })
		remembered := 0
		if err := q.scan(kindDedup, func([]byte, []byte) error { remembered++; return nil }); err != nil || remembered != 1 {
			t.Errorf("%d are remembered, %v; want the last one", remembered, err)
		}
	}
}

func TestOnlyAQueueWithAnOrderTellsPlacesInIt(t *testing.T) {
	for name, want := range map[string]bool{"q": false, "q.fifo": true} {
		r := mustSend(t, func() []queue.SendResult {
			return open(t, newDB(t), name, Options{}).Send(t.Context(), inGroup("g", "a"))
		})
		if got := r[0].SequenceNumber != ""; got != want {
			t.Errorf("%s: sequence number %q", name, r[0].SequenceNumber)
		}
	}
}
