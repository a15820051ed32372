package pebblequeue

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/queue"
)

// places returns the numbers of entries.
func places(entries []*entry) (out []uint64) {
	for _, e := range entries {
		out = append(out, e.seq)
	}
	return out
}

func wantPlaces(t *testing.T, got []*entry, want ...uint64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", places(got), want)
	}
	for i, e := range got {
		if e.seq != want[i] {
			t.Fatalf("got %v, want %v", places(got), want)
		}
	}
}

func TestARemovedGroupLeavesTheOthersListed(t *testing.T) {
	x := newIndex(true)
	var all []*entry
	for seq := range uint64(4) {
		e := x.add(seq, seq) // each in its own group
		x.show(e)
		all = append(all, e)
	}
	x.remove(all[1])
	x.remove(all[3])
	taken, _ := x.take(10, 100, 0)
	wantPlaces(t, taken, 0, 2)
}

func TestNoMessageIsReceivedAfterAnUnwrittenOneOfItsGroup(t *testing.T) {
	x := newIndex(true)
	x.show(x.add(0, 7))
	x.add(1, 7)
	x.show(x.add(2, 7))
	taken, _ := x.take(10, 100, 0)
	wantPlaces(t, taken, 0)
}

func TestShorterVisibilityEndsFirst(t *testing.T) {
	x := newIndex(false)
	for seq, until := range []int64{300, 100, 200, 100} {
		e := x.add(uint64(seq), 0)
		x.show(e)
		x.hide(e, until)
	}
	for _, step := range []struct {
		now  int64
		want []uint64
	}{{99, nil}, {100, []uint64{1, 3}}, {250, []uint64{2}}, {300, []uint64{0}}} {
		x.expire(step.now)
		taken, _ := x.take(10, 1000, 0)
		wantPlaces(t, taken, step.want...)
	}
}

func TestAMessageThatFailedIsNotRemembered(t *testing.T) {
	w := window{sent: map[string]*sent{}}
	m := []outgoing{{record: messageRecord{ID: uuid.New(), DedupID: "1"}}}
	now := time.Unix(1, 0)
	fresh, _ := w.sift(m, now, time.Minute)
	w.settle(fresh[0].dedup, queue.SendResult{Err: errors.New("the disk is full")})
	if fresh, earlier := w.sift(m, now, time.Minute); len(fresh) != 1 || len(earlier) != 0 {
		t.Errorf("sent again, it is %d new, %d repeated", len(fresh), len(earlier))
	}
}

func TestAReceiverWithAMessageDoesNotWaitForMore(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("", "a")) })
	if d, err := q.Receive(t.Context(), 1, time.Minute, time.Minute); len(d) != 1 || err != nil {
		t.Fatalf("%d messages, %v", len(d), err)
	}
	if n := len(q.waiters.waiting); n != 0 {
		t.Errorf("%d wait: who is woken does not take", n)
	}
}

func TestAWaiterThatIsWokenAtTheEndOfItsTimeLooksAgain(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	synctest.Test(t, func(t *testing.T) {
		woken := q.waiters.join()
		q.waiters.wake()
		<-woken // so that the timeout is the only reason to look
		end := time.NewTimer(0)
		defer end.Stop()
		if again, err := q.pause(t.Context(), woken, end, false); !again || err != nil {
			t.Errorf("looks again %t, %v: the message that it was woken for stays", again, err)
		}
	})
}

func TestAWaitThatEndsTwiceDoesNotBlock(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	synctest.Test(t, func(t *testing.T) {
		end := time.NewTimer(0)
		defer end.Stop()
		for range 2 { // woken at its end, it looks again, finds nothing, and waits again: for nothing more
			woken, done := q.waiters.join(), false
			go func() {
				_, _ = q.pause(t.Context(), woken, end, false)
				done = true
			}()
			time.Sleep(time.Nanosecond)
			if synctest.Wait(); !done {
				t.Fatal("a receive waits after its time")
			}
		}
	})
}
