package pebblequeue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/queue"
)

func placed(group, body string) queue.Message {
	return queue.Message{Group: group, DedupID: "d", Body: body}
}

func putOne(t *testing.T, q *Queue, m queue.Message) {
	t.Helper()
	if err := q.Send(t.Context(), []queue.Message{m})[0].Err; err != nil {
		t.Fatal(err)
	}
}

// receiveNow returns the bodies that can be received now.
func receiveNow(t *testing.T, q *Queue) (bodies []string, all []queue.Delivery) {
	t.Helper()
	all, err := q.Receive(t.Context(), 10, time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		bodies = append(bodies, d.Body)
	}
	return bodies, all
}

func reserve(t *testing.T, q *Queue, group string) *Place {
	t.Helper()
	p, ok := q.Reserve(group)
	if !ok {
		t.Fatalf("group %s is not idle", group)
	}
	return p
}

func TestReserveRefusesAGroupWithAMessageInAnyState(t *testing.T) {
	clock := newClock()
	q := open(t, newDB(t), "q.fifo", Options{Now: clock.Now})
	refused := func(why string) {
		t.Helper()
		if _, ok := q.Reserve("g"); ok {
			t.Errorf("a group with a message that is %s is reserved", why)
		}
	}
	p := reserve(t, q, "g")
	refused("processed without the queue")
	reserve(t, q, "other").Release()
	p.Release()
	p.Release() // changes nothing
	putOne(t, q, placed("g", "1"))
	refused("ready")
	_, all := receiveNow(t, q)
	refused("in flight")
	if err := q.ChangeVisibility(t.Context(), all[0].Receipt, time.Hour); err != nil {
		t.Fatal(err)
	}
	refused("hidden")
	if err := q.Delete(t.Context(), []string{all[0].Receipt})[0]; err != nil {
		t.Fatal(err)
	}
	p = reserve(t, q, "g")
	if r := p.Send(t.Context(), placed("g", "2"), time.Hour); r.Err != nil {
		t.Fatal(r.Err)
	}
	refused("delayed")
}

func TestMessagesBehindAPlaceAreReceivedWhenItIsReleased(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	p := reserve(t, q, "g")
	putOne(t, q, placed("g", "later"))
	putOne(t, q, placed("h", "of another group"))
	if got, _ := receiveNow(t, q); len(got) != 1 || got[0] != "of another group" {
		t.Fatalf("received %q", got)
	}
	p.Release()
	if got, _ := receiveNow(t, q); len(got) != 1 || got[0] != "later" {
		t.Fatalf("received %q", got)
	}
}

func TestAMessagePutIntoItsPlaceStaysAheadOfLaterOnesAcrossARestart(t *testing.T) {
	clock, db := newClock(), newDB(t)
	q := open(t, db, "q.fifo", Options{Now: clock.Now})
	p := reserve(t, q, "g")
	putOne(t, q, placed("g", "later"))
	if r := p.Send(t.Context(), placed("g", "first"), time.Minute); r.Err != nil || r.ID == "" || r.SequenceNumber == "" {
		t.Fatalf("%+v", r)
	}
	p.Release() // changes nothing: the place is used
	for range 2 {
		if got, _ := receiveNow(t, q); len(got) != 0 {
			t.Fatalf("received %q before the pause is over", got)
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		q = open(t, db, "q.fifo", Options{Now: clock.Now})
	}
	clock.Advance(time.Minute)
	got, all := receiveNow(t, q)
	if len(got) != 2 || got[0] != "first" || got[1] != "later" {
		t.Fatalf("received %q", got)
	}
	if all[0].Receives != 2 || all[1].Receives != 1 {
		t.Errorf("received %d and %d times: the try before the queue counts", all[0].Receives, all[1].Receives)
	}
}

func TestAPlaceIsReleasedWhenItsMessageCannotBeWritten(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	p := reserve(t, q, "g")
	putOne(t, q, placed("g", "later"))
	invalid, _ := errors.AsType[*queue.InvalidError](p.Send(t.Context(), placed("g", ""), 0).Err)
	if invalid == nil {
		t.Fatal("an empty message is sent")
	}
	if got, _ := receiveNow(t, q); len(got) != 1 {
		t.Errorf("received %q", got)
	}
	if err := p.Send(t.Context(), placed("g", "late"), 0).Err; !errors.Is(err, errPlaceUsed) {
		t.Errorf("a place is used twice: %v", err)
	}
}

func TestATriedMessageOfAStandardQueueIsReceivedAfterThePauseAsItsSecondTry(t *testing.T) {
	clock, db := newClock(), newDB(t)
	q := open(t, db, "q", Options{Now: clock.Now})
	if _, ok := q.Reserve("g"); ok {
		t.Error("a standard queue has no groups to reserve a place in")
	}
	if !q.Quiet() {
		t.Error("an empty queue is not quiet")
	}
	if p, _ := q.ReserveAll(t.Context(), []string{"g"}, true); p != nil {
		t.Error("a standard queue has no groups to reserve places in")
	}
	if r := q.SendTried(t.Context(), []Tried{{Message: queue.Message{Body: "m"}, Receives: 1, Pause: time.Minute}})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	if got, _ := receiveNow(t, q); len(got) != 0 || !q.Quiet() {
		t.Fatalf("received %q before the pause is over", got)
	}
	clock.Advance(time.Minute)
	if _, all := receiveNow(t, q); len(all) != 1 || all[0].Receives != 2 || q.Quiet() {
		t.Errorf("%+v", all)
	}
}

func TestAQueueHoldsAGroupUntilTheLastOfItsMessagesIsDeleted(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{Now: newClock().Now})
	putOne(t, q, placed("g", "1"))
	if !q.Holds("g") || q.Holds("other") {
		t.Error("the queue has one message, of the group g")
	}
	_, all := receiveNow(t, q)
	if !q.Holds("g") {
		t.Error("a message that was received is not counted")
	}
	if err := q.Delete(t.Context(), []string{all[0].Receipt})[0]; err != nil {
		t.Fatal(err)
	}
	if q.Holds("g") {
		t.Error("the group has no message any more")
	}
}

// atOnce is a context that has ended: ReserveAll does not wait with it.
var atOnce = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// reserveAll reserves places, one for each group named.
func reserveAll(t *testing.T, q *Queue, groups ...string) *Places {
	t.Helper()
	p, _ := q.ReserveAll(atOnce, groups, true)
	if p == nil {
		t.Fatalf("no place in %q", groups)
	}
	return p
}

func TestABatchHasPlacesInTheIdleGroupsOnly(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	putOne(t, q, placed("queued", "1"))
	one := reserve(t, q, "reserved")
	p := reserveAll(t, q, "a", "queued", "b", "reserved", "a", "queued")
	for i, want := range []bool{true, false, true, false, true, false} {
		if p.Has(i) != want {
			t.Errorf("message %d has a place: %v", i, p.Has(i))
		}
	}
	if again, _ := q.ReserveAll(atOnce, []string{"a", "b", "reserved"}, true); again != nil {
		t.Error("a group of the batch is reserved a second time")
	}
	if _, ok := q.Reserve("b"); ok {
		t.Error("a group of the batch is reserved for one more message")
	}
	p.Release()
	p.Release() // changes nothing
	one.Release()
	reserveAll(t, q, "a", "b", "reserved").Release()
	if n := q.Len(); n != 1 {
		t.Errorf("%d messages on the queue", n)
	}
}

// Messages 1 and 3 of group a were processed, 2, 4 and the one of group b were not.
func TestTheRestOfABatchIsAheadOfLaterMessagesInItsOrderAcrossARestart(t *testing.T) {
	for _, restart := range []bool{false, true} {
		clock, db := newClock(), newDB(t)
		q := open(t, db, "q.fifo", Options{Now: clock.Now})
		p := reserveAll(t, q, "a", "a", "b", "a", "a")
		putOne(t, q, placed("a", "later"))
		rest := []Tried{{Message: placed("a", "2"), Receives: 1, Pause: time.Minute}, {Message: placed("b", "b")}, {Message: placed("a", "4")}}
		for i, r := range p.Send(t.Context(), []int{1, 2, 4}, rest) {
			if r.Err != nil || r.ID == "" {
				t.Fatalf("message %d: %+v", i, r)
			}
		}
		if again := p.Send(t.Context(), []int{1}, rest[:1]); !errors.Is(again[0].Err, errPlaceUsed) {
			t.Errorf("a place is used twice: %v", again[0].Err)
		}
		p.Release()
		if restart {
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			q = open(t, db, "q.fifo", Options{Now: clock.Now})
		}
		clock.Advance(2 * time.Minute)
		got, all := receiveNow(t, q)
		if !slices.Equal(got, []string{"b", "2", "4", "later"}) && !slices.Equal(got, []string{"2", "4", "later", "b"}) {
			t.Errorf("restart %v: received %q", restart, got)
		}
		for i, d := range all {
			if want := map[bool]int{true: 2, false: 1}[got[i] == "2"]; d.Receives != want {
				t.Errorf("%s is received for the time %d", got[i], d.Receives)
			}
		}
	}
}

// waits calls a function in the background, and returns its result when it has begun to wait for the
// queue.
func waits[T any](t *testing.T, q *Queue, call func() T) <-chan T {
	t.Helper()
	got := make(chan T)
	go func() { got <- call() }()
	for {
		q.mu.Lock()
		waiting := q.changed != nil
		q.mu.Unlock()
		if waiting {
			return got
		}
		select {
		case r := <-got:
			t.Fatalf("did not wait, but returned %v", r)
		default:
			runtime.Gosched()
		}
	}
}

// A patience is a context that ends as soon as somebody waits for its end.
type patience struct {
	context.Context
	end    context.CancelFunc
	waited bool
}

func newPatience(t *testing.T) *patience {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	return &patience{Context: ctx, end: end}
}

func (p *patience) Done() <-chan struct{} {
	p.waited = true
	p.end()
	return p.Context.Done()
}

func TestABatchWaitsForThePlacesOfOthersAndHasNoneMeanwhile(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	for _, how := range []string{"released", "used"} { // the used one leaves a message
		first := reserveAll(t, q, "g")
		got := waits(t, q, func() *Places {
			p, _ := q.ReserveAll(t.Context(), []string{"other", "g"}, false)
			return p
		})
		if other, ok := q.Reserve("other"); !ok {
			t.Error("a batch has a place while it waits")
		} else {
			other.Release()
		}
		if how == "released" {
			first.Release()
		} else if r := first.Send(t.Context(), []int{0}, []Tried{{Message: placed("g", "1"), Receives: 1, Pause: time.Hour}})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		p := <-got
		if !p.Has(0) || p.Has(1) != (how == "released") {
			t.Errorf("after the place was %s: %v %v", how, p.Has(0), p.Has(1))
		}
		p.Release()
	}
}

func TestABatchWaitsIfAtLeastHalfOfItIsBehindOthers(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	for _, c := range []struct {
		messages, placed, queued int // of groups, from the first one on
		waits, behind            bool
	}{
		{1, 1, 0, true, false},
		{3, 1, 0, false, false},
		{3, 2, 0, true, false},
		{6, 2, 0, false, false},
		{100, 49, 0, false, false},
		{100, 50, 0, true, false},
		{1000, 900, 0, true, false},
		{100, 1, 49, true, true},
		{100, 49, 1, true, true},
		{100, 1, 1, false, false},
	} {
		var groups []string
		for i := range c.messages {
			groups = append(groups, fmt.Sprintf("%d-%d-%d-%d", c.messages, c.placed, c.queued, i))
		}
		first := reserveAll(t, q, groups[:c.placed]...)
		for _, group := range groups[c.placed : c.placed+c.queued] {
			putOne(t, q, placed(group, "1"))
		}
		for range 2 { // the second look begins where the first one found something
			ctx := newPatience(t)
			p, behind := q.ReserveAll(ctx, groups, true)
			if ctx.waited != c.waits || behind != c.behind {
				t.Errorf("%+v: waits %v, behind messages %v", c, ctx.waited, behind)
			}
			if p != nil {
				p.Release()
			}
		}
		first.Release()
	}
}

func TestABatchCanWaitForMessagesExceptForThoseThatPauseOrAreDelayed(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	if r := reserve(t, q, "delayed").Send(t.Context(), placed("delayed", "1"), time.Hour); r.Err != nil {
		t.Fatal(r.Err)
	}
	putOne(t, q, placed("failed", "1"))
	_, all := receiveNow(t, q)
	if err := q.ChangeVisibility(t.Context(), all[0].Receipt, time.Hour); err != nil {
		t.Fatal(err)
	}
	if p, behind := q.ReserveAll(t.Context(), []string{"delayed", "failed"}, true); behind || p != nil {
		t.Error("the groups of a delayed and of a failed message are reserved, or waited for")
	}
	if q.AwaitQuiet(t.Context()) {
		t.Error("quiet, though a message that has failed is there")
	}
	if err := q.Delete(t.Context(), []string{all[0].Receipt})[0]; err != nil {
		t.Fatal(err)
	}
	putOne(t, q, placed("g", "1"))
	got := waits(t, q, func() *Places {
		p, _ := q.ReserveAll(t.Context(), []string{"g"}, true)
		return p
	})
	quiet := waits(t, q, func() bool { return q.AwaitQuiet(t.Context()) })
	_, all = receiveNow(t, q) // no end of the wait
	if len(all) != 1 || q.Quiet() {
		t.Fatalf("%+v", all)
	}
	if err := q.Delete(t.Context(), []string{all[0].Receipt})[0]; err != nil {
		t.Fatal(err)
	}
	p := <-got
	if p == nil || !p.Has(0) {
		t.Fatal("no place after the message is deleted")
	}
	p.Release()
	if !<-quiet {
		t.Error("not quiet, though nothing can be received")
	}
}

func TestWaitsForAQueueEndWithTheirContextAndWithTheQueue(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	putOne(t, q, placed("g", "1"))
	defer reserve(t, q, "other").Release()
	for _, c := range []struct {
		group  string
		behind bool
	}{{"g", true}, {"other", false}} {
		ctx := newPatience(t)
		if p, behind := q.ReserveAll(ctx, []string{c.group}, true); p != nil || behind != c.behind || !ctx.waited {
			t.Errorf("%s: %v, behind a message: %v, waited: %v", c.group, p, behind, ctx.waited)
		}
		if ctx = newPatience(t); q.AwaitQuiet(ctx) || !ctx.waited {
			t.Errorf("quiet with a message, or waited: %v", ctx.waited)
		}
	}
	got := waits(t, q, func() bool { return q.AwaitQuiet(t.Context()) })
	places := waits(t, q, func() *Places {
		p, _ := q.ReserveAll(t.Context(), []string{"g"}, true)
		return p
	})
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if <-got || <-places != nil {
		t.Error("a closed queue is quiet, or has places")
	}
}

// A held message is still being processed without the queue.
func TestAHeldMessageIsHiddenUntilItIsShownOrTheQueueIsOpenedAgain(t *testing.T) {
	for _, name := range []string{"q.fifo", "q"} {
		t.Run(name, func(t *testing.T) {
			clock, db := newClock(), newDB(t)
			q := open(t, db, name, Options{Now: clock.Now})
			hold := &Hold{}
			hold.Show(0, 1) // not sent yet
			m := Tried{Message: queue.Message{Body: "held"}, Receives: 1, Pause: time.Second, Hold: hold}
			if name == "q.fifo" {
				m.Message = placed("a", "held")
				if r := reserve(t, q, "a").SendTried(t.Context(), m); r.Err != nil {
					t.Fatal(r.Err)
				}
				putOne(t, q, placed("a", "behind"))
			} else if r := q.SendTried(t.Context(), []Tried{m})[0]; r.Err != nil {
				t.Fatal(r.Err)
			}
			clock.Advance(time.Hour)
			if got, _ := receiveNow(t, q); len(got) > 0 {
				t.Errorf("received %v while it is held", got)
			}
			hold.Show(time.Minute, 0)
			clock.Advance(59 * time.Second)
			if got, _ := receiveNow(t, q); len(got) > 0 {
				t.Errorf("received %v in its pause", got)
			}
			clock.Advance(time.Second)
			got, all := receiveNow(t, q)
			if len(got) == 0 || got[0] != "held" || all[0].Receives != 1 {
				t.Fatalf("received %v, %+v", got, all)
			}
			hold.Show(0, 5) // a receiver has it
			if again, _ := receiveNow(t, q); len(again) > 0 {
				t.Errorf("received %v twice", again)
			}
		})
	}
	clock, db := newClock(), newDB(t)
	q := open(t, db, "q.fifo", Options{Now: clock.Now})
	reserve(t, q, "a").SendTried(t.Context(), Tried{Message: placed("a", "held"), Receives: 1, Pause: time.Second, Hold: &Hold{}})
	q = open(t, db, "q.fifo", Options{Now: clock.Now})
	clock.Advance(time.Second)
	if got, all := receiveNow(t, q); len(got) != 1 || all[0].Receives != 2 {
		t.Errorf("after a restart: %v, %+v", got, all)
	}
}
