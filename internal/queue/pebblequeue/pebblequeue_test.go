package pebblequeue

import (
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

func TestAWaitingReceiverIsWokenWhenAHiddenMessageComesBack(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("", "x")) })
	receive(t, q, 1, 20*time.Millisecond)
	got, err := q.Receive(t.Context(), 1, time.Minute, time.Minute)
	if err != nil || len(got) != 1 || got[0].Receives != 2 {
		t.Fatalf("%v, %v", got, err)
	}
}

func TestAWaitingReceiverIsWokenWhenADelayEndsAndWhenAGroupIsFree(t *testing.T) {
	db := newDB(t)
	q, f := open(t, db, "q", Options{}), open(t, db, "q.fifo", Options{})
	mustSend(t, func() []queue.SendResult {
		return q.Send(t.Context(), []queue.Message{{Body: "x", Delay: 20 * time.Millisecond}})
	})
	if got, err := q.Receive(t.Context(), 1, time.Minute, time.Minute); err != nil || bodies(got) != "x" {
		t.Fatalf("%v, %v", got, err)
	}
	mustSend(t, func() []queue.SendResult { return f.Send(t.Context(), inGroup("g", "1", "2")) })
	first := receive(t, f, 1, time.Minute)
	second := make(chan string)
	go func() {
		got, _ := f.Receive(t.Context(), 1, time.Minute, time.Minute)
		second <- bodies(got)
	}()
	f.Delete(t.Context(), []string{first[0].Receipt})
	if got := <-second; got != "2" {
		t.Errorf("got %q", got)
	}
}

func TestEachOfManyWaitingReceiversIsWokenByASendOfMany(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	const n = 20
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if got, err := q.Receive(t.Context(), 1, time.Minute, time.Minute); err != nil || len(got) != 1 {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	for q.waiting() < n {
		runtime.Gosched()
	}
	var messages []queue.Message
	for i := range n {
		messages = append(messages, queue.Message{Body: strconv.Itoa(i)})
	}
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), messages) })
	all.Wait()
}

func (q *Queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiters.waiting)
}

func TestAWaitThatTimesOutReturnsNothing(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	if got, err := q.Receive(t.Context(), 1, time.Minute, 10*time.Millisecond); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestCloseWakesWaitersAndEndsEveryMethod(t *testing.T) {
	db := newDB(t)
	dead := open(t, db, "dead", Options{})
	q := open(t, db, "q", Options{DeadLetter: dead, MaxReceives: 3})
	woken := make(chan error)
	go func() {
		_, err := q.Receive(t.Context(), 1, time.Minute, time.Hour)
		woken <- err
	}()
	for q.waiting() < 1 {
		runtime.Gosched()
	}
	_ = q.Close()
	_, receiveErr := q.Receive(t.Context(), 1, time.Minute, 0)
	_, peekErr := q.Peek(1)
	for name, err := range map[string]error{
		"waiting receive": <-woken, "receive": receiveErr, "peek": peekErr,
		"send":       q.Send(t.Context(), inGroup("", "x"))[0].Err,
		"delete":     q.Delete(t.Context(), []string{"x"})[0],
		"visibility": q.ChangeVisibility(t.Context(), "x", 0),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOneReceiveReturnsSeveralOfAGroup(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	mustSend(t, func() []queue.SendResult {
		return q.Send(t.Context(), append(inGroup("a", "1", "2", "3"), inGroup("b", "4", "5")...))
	})
	if got := receive(t, q, 4, time.Minute); bodies(got) != "1 2 3 4" {
		t.Errorf("received %q", bodies(got))
	}
}

func TestAGroupThatJustFailedLetsOtherGroupsGoFirst(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	mustSend(t, func() []queue.SendResult {
		return q.Send(t.Context(), append(inGroup("a", "1"), inGroup("b", "2")...))
	})
	failed := receive(t, q, 1, time.Minute)[0]
	if err := q.ChangeVisibility(t.Context(), failed.Receipt, 0); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, q, 1, time.Minute); bodies(got) != "2" {
		t.Errorf("received %q", bodies(got))
	}
}

func TestAMessageIsNotReceivedBeforeAnEarlierOneOfItsGroupIsWritten(t *testing.T) {
	x := newIndex(true)
	first, second := x.add(1, 7), x.add(2, 7)
	x.show(second)
	if taken, _ := x.take(10, 100, 0); len(taken) != 0 {
		t.Fatal("the second overtook the first")
	}
	x.show(first)
	taken, _ := x.take(10, 100, 0)
	if len(taken) != 2 || taken[0] != first {
		t.Fatalf("took %v", taken)
	}
	third := x.add(3, 7)
	x.remove(first)
	x.show(third)
	x.remove(second)
	if taken, _ := x.take(10, 100, 0); len(taken) != 1 || taken[0] != third {
		t.Fatalf("took %v", taken)
	}
	x.remove(third)
	if len(x.groups) != 0 || len(x.timers) != 0 || len(x.received) != 0 || x.counts != [states]int{} {
		t.Errorf("left over: %+v", x)
	}
}

func TestAFailedSendFreesItsPlace(t *testing.T) {
	x := newIndex(true)
	failed, second := x.add(1, 7), x.add(2, 7)
	x.show(second)
	x.remove(failed)
	if taken, _ := x.take(10, 100, 0); len(taken) != 1 || taken[0] != second {
		t.Fatalf("took %v", taken)
	}
}

func TestStatsAndPeekShowAllMessages(t *testing.T) {
	c := newClock()
	q := open(t, newDB(t), "q", Options{Now: c.Now})
	mustSend(t, func() []queue.SendResult {
		return q.Send(t.Context(), []queue.Message{{Body: "1"}, {Body: "2", Attributes: map[string]string{"a": "b"}}, {Body: "3", Delay: time.Minute}})
	})
	receive(t, q, 1, time.Minute)
	if diff := cmp.Diff(Stats{Ready: 1, InFlight: 1, Delayed: 1}, q.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	got, err := q.Peek(2)
	if err != nil || bodies(got) != "1 2" || got[0].Receives != 1 || got[1].Attributes["a"] != "b" || got[0].Receipt != "" {
		t.Errorf("%+v, %v", got, err)
	}
	c.Advance(time.Hour)
	if diff := cmp.Diff(Stats{Ready: 3}, q.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestOneCallMayRepeatADeduplicationID(t *testing.T) {
	q := open(t, newDB(t), "q", Options{Deduplicate: time.Minute})
	results := mustSend(t, func() []queue.SendResult {
		return q.Send(t.Context(), []queue.Message{{Body: "1", DedupID: "d"}, {Body: "2", DedupID: "d"}})
	})
	if results[0].ID != results[1].ID || q.Len() != 1 {
		t.Errorf("%+v, %d messages", results, q.Len())
	}
	if r := q.Send(t.Context(), []queue.Message{{Body: "1"}}); r[0].Err == nil {
		t.Error("sent without a deduplication id")
	}
}

func TestInvalidDeadLetterOptionsAreRefused(t *testing.T) {
	db := newDB(t)
	dead := open(t, db, "dead", Options{})
	for name, c := range map[string]struct {
		queue string
		o     Options
	}{
		"no name":           {"", Options{}},
		"no maximum":        {"q", Options{DeadLetter: dead}},
		"no queue":          {"q", Options{MaxReceives: 1}},
		"mixed kinds":       {"q.fifo", Options{DeadLetter: dead, MaxReceives: 1}},
		"another database":  {"q", Options{DeadLetter: open(t, newDB(t), "dead", Options{}), MaxReceives: 1}},
		"negative duration": {"q", Options{Deduplicate: -1}},
	} {
		if _, err := Open(db, c.queue, c.o); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func TestAStandardQueueTakesAnOldReceipt(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("", "x")) })
	old := receive(t, q, 1, 0)[0]
	receive(t, q, 1, time.Minute)
	if err := q.Delete(t.Context(), []string{old.Receipt})[0]; err != nil || q.Len() != 0 {
		t.Errorf("%v, %d messages", err, q.Len())
	}
}

func TestAVisibleMessageWaitsForOthersOfItsGroupInFlight(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "1", "2", "3")) })
	taken := receive(t, q, 2, time.Minute)
	if err := q.ChangeVisibility(t.Context(), taken[0].Receipt, 0); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, q, 10, time.Minute); len(got) != 0 {
		t.Errorf("received %q while 2 is in flight", bodies(got))
	}
	q.Delete(t.Context(), []string{taken[1].Receipt})
	if got := receive(t, q, 10, time.Minute); bodies(got) != "1 3" {
		t.Errorf("received %q", bodies(got))
	}
}

func TestDeadLettersKeepTheirGroups(t *testing.T) {
	db := newDB(t)
	dead := open(t, db, "dead.fifo", Options{})
	q := open(t, db, "q.fifo", Options{DeadLetter: dead, MaxReceives: 1})
	mustSend(t, func() []queue.SendResult {
		return q.Send(t.Context(), append(inGroup("a", "1", "2"), inGroup("b", "3")...))
	})
	for range 3 { // the first receives all, the second dead-letters 1 and 3
		receive(t, q, 10, 0)
	}
	if got := receive(t, dead, 1, time.Minute); bodies(got) != "1" {
		t.Errorf("dead %q", bodies(got))
	}
	if got := receive(t, dead, 10, time.Minute); bodies(got) != "3" {
		t.Errorf("dead %q beside the first", bodies(got))
	}
}

func TestTheAlarmRingsForEveryHiddenMessage(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("", "x")) })
	for want := 1; want < 4; want++ {
		got, err := q.Receive(t.Context(), 1, 10*time.Millisecond, time.Minute)
		if err != nil || len(got) != 1 || got[0].Receives != want {
			t.Fatalf("%v, %v", got, err)
		}
	}
}

func TestAMessageBeingRemovedIsNotReceived(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		x := newIndex(fifo)
		e := x.add(1, 7)
		x.show(e)
		x.take(1, 10, 1)
		x.expire(10)
		if _, dead := x.take(1, 10, 1); len(dead) != 1 || x.claim(e) {
			t.Fatal("a message received too often was not claimed for the dead-letter queue")
		}
		x.expire(100)
		if x.hasReady() {
			t.Fatal("a claimed message came back")
		}
		x.unclaim(e)
		x.expire(100)
		if !x.hasReady() {
			t.Fatal("a message that could not be removed did not come back")
		}
		x.claim(e)
		x.remove(e)
		if x.hasReady() || x.counts != [states]int{} || len(x.timers) != 0 {
			t.Errorf("left over: %+v", x)
		}
	}
}
