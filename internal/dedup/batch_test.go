package dedup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// newBatchLab returns a lab whose streams have batch handlers.
func newBatchLab(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.batched = true
	return l
}

// asking returns the stream s with a batch handler.
func asking(h record.BatchHandler) record.Stream { return record.Stream{Name: "s", Batch: h} }

// acceptAll answers every message, and adds its identity to the state.
func acceptAll(_ context.Context, b *record.Batch) error {
	for _, m := range b.Messages {
		b.Accept()
		b.State = append(b.State, m.Identity()+","...)
	}
	return nil
}

func TestTheMessagesOfAGroupAreAskedWithOneCallAndCommittedWithOneWrite(t *testing.T) {
	l := newBatchLab(t)
	w := l.worker(byKey)
	same(t, "fates", w.process(keyed("a: reply", "b: send", "a: reply", "c: reject", "d")...),
		[]string{"processed with a", "processed", "duplicate with a", "rejected rejected", "processed"})
	same(t, "calls of the handler", l.calls, []string{": a b c d"})
	same(t, "record", summary(l.group()), "v1 state=a,b,d, pending=[1 a 0 effects][2 b 1 effects][3 c 0 effects][4 d 0 effects]")
}

func TestABatchHandlerGetsTheRecordOfTheGroup(t *testing.T) {
	l := newLab(t)
	var got []record.Batch
	w := l.worker(logging(asking(func(ctx context.Context, b *record.Batch) error {
		got = append(got, *b)
		return acceptAll(ctx, b)
	})))
	w.process(keyed("a", "b")...)
	w.process(keyed("c")...)
	same(t, "calls", len(got), 2)
	for i, want := range []struct {
		version, last uint64
		state         string
	}{{0, 0, ""}, {1, 2, "a,b,"}} {
		b := got[i]
		if b.Group != (record.GroupKey{Stream: "s", Group: "g"}) || b.Version != want.version || b.Log.Last != want.last || string(b.State) != want.state {
			t.Errorf("call %d: %+v, want group g at %+v", i, b, want)
		}
	}
	if got[0].ID == "" || got[0].ID == got[1].ID {
		t.Errorf("the calls are named %q and %q, want two names", got[0].ID, got[1].ID)
	}
}

func TestACallHasNoMoreMessagesThanTheStreamAllows(t *testing.T) {
	l := newBatchLab(t)
	stream := byKey
	stream.BatchSize = 2
	same(t, "fates", l.worker(stream).process(keyed("a", "b", "c", "d", "e")...), []string{"processed", "processed", "processed", "processed", "processed"})
	same(t, "calls of the handler", l.calls, []string{": a b", "a,b,: c d", "a,b,c,d,: e"})
	same(t, "version", l.group().Version, 3)
}

func TestACallHasNoMoreBytesThanItsLimitUnlessItHasOneMessage(t *testing.T) {
	l := newLab(t)
	var sizes []int
	w := l.workerOf(dedup.Config{Large: true, Streams: []record.Stream{asking(func(_ context.Context, b *record.Batch) error {
		sizes = append(sizes, len(b.Messages))
		for range b.Messages {
			b.Accept()
		}
		return nil
	})}})
	batch := keyed("a", "b", "c", "d")
	for i := range batch {
		batch[i].Body = make([]byte, record.MaxBody-1000)
	}
	same(t, "fates", w.process(batch...), []string{"processed", "processed", "processed", "processed"})
	same(t, "messages of the calls, of 2 MiB", sizes, []int{2, 2})
}

func TestTheFirstAnswersAreCommittedAndTheOthersAskedAgain(t *testing.T) {
	l := newBatchLab(t)
	l.answers = func(int) int { return 1 }
	same(t, "fates", l.worker(byKey).process(keyed("a: send", "b: reply", "c")...), []string{"processed", "processed with b", "processed"})
	same(t, "calls of the handler", l.calls, []string{": a b c", "a,: b c", "a,b,: c"})
	same(t, "version", l.group().Version, 3)
}

func TestAnAnswerMayClearTheStateOrLeaveIt(t *testing.T) {
	l := newLab(t)
	clears := false
	w := l.worker(asking(func(ctx context.Context, b *record.Batch) error {
		if !clears {
			return acceptAll(ctx, b)
		}
		b.State = nil
		b.Accept()
		return nil
	}))
	w.process(keyed("a")...)
	same(t, "state", string(l.group().State), "a,")
	clears = true
	w.process(keyed("b")...)
	same(t, "state", l.group().State, nil)
}

func TestAnAnswerThatRejectsEveryMessageDoesNotChangeTheState(t *testing.T) {
	l := newLab(t)
	w := l.worker(asking(func(_ context.Context, b *record.Batch) error {
		b.State = []byte("changed")
		for range b.Messages {
			b.Reject("no money")
		}
		return nil
	}))
	out := w.Process(t.Context(), keyed("a", "b"))
	for i := range out {
		if out[i].Kind != record.Rejected || out[i].Reason != record.ReasonHandler || out[i].Detail != "no money" {
			t.Errorf("message %d: %+v, want the reject of the handler", i, out[i])
		}
	}
	same(t, "record", summary(l.group()), "v1 state= pending=[1 a 0 effects][2 b 0 effects]")
}

// The failing message is the third one. The others are processed, or wait behind it without a
// failure of their own.
func TestAMessageThatFailsItsCallDoesNotMakeItsNeighboursFail(t *testing.T) {
	l := newLab(t)
	var calls []string
	w := l.worker(asking(func(ctx context.Context, b *record.Batch) error {
		ids := ""
		for _, m := range b.Messages {
			ids += m.ID
		}
		if calls = append(calls, ids); strings.Contains(ids, "c") {
			return errHandler
		}
		return acceptAll(ctx, b)
	}))
	out := w.Process(t.Context(), keyed("a", "b", "c", "d", "e"))
	same(t, "fates", fates(out), []string{"processed", "processed", "retry", "retry", "retry"})
	if !errors.As(out[2].Err, new(*record.HandlerError)) {
		t.Errorf("the message that fails: %v, want an error of its handler", out[2].Err)
	}
	for _, o := range out[3:] {
		if !errors.Is(o.Err, record.ErrBlocked) || errors.As(o.Err, new(*record.HandlerError)) {
			t.Errorf("a message behind it: %v, want %v", o.Err, record.ErrBlocked)
		}
	}
	same(t, "calls", calls, []string{"abcde", "a", "bc", "b", "cd", "c"})
	same(t, "state", string(l.group().State), "a,b,")
}

// A handler that is down is not called. Asking again with one message would only wait again.
func TestMessagesWhoseHandlerIsNotCalledGoBackTogether(t *testing.T) {
	l := newLab(t)
	calls := 0
	w := l.worker(asking(func(context.Context, *record.Batch) error {
		calls++
		return fmt.Errorf("%w: the handler is down", record.ErrUntried)
	}))
	out := w.Process(t.Context(), keyed("a", "b", "c"))
	same(t, "fates", fates(out), []string{"retry", "retry", "retry"})
	same(t, "calls", calls, 1)
	if !errors.Is(out[0].Err, record.ErrUntried) {
		t.Errorf("the first message: %v, want %v", out[0].Err, record.ErrUntried)
	}
	for _, o := range out[1:] {
		if !errors.Is(o.Err, record.ErrBlocked) {
			t.Errorf("a message behind it: %v, want %v", o.Err, record.ErrBlocked)
		}
	}
}

func TestACallGrowsAgainAfterAFailure(t *testing.T) {
	l := newLab(t)
	var sizes []int
	w := l.worker(asking(func(ctx context.Context, b *record.Batch) error {
		if sizes = append(sizes, len(b.Messages)); len(sizes) == 1 {
			return errHandler
		}
		return acceptAll(ctx, b)
	}))
	var batch []record.Message
	for i := range 12 {
		batch = append(batch, keyed(fmt.Sprint("m", i))...)
	}
	w.process(batch...)
	same(t, "messages of the calls", sizes, []int{12, 1, 2, 4, 5})
}

// A call may use up all the time of a worker, so that nothing is known about its messages. No
// message has failed. In the next delivery the first one is asked alone.
func TestACallThatUsesUpTheDeadlineBlamesNoMessageAndItsRedeliveryBeginsAlone(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	var sizes []int
	w := l.worker(asking(func(ctx context.Context, b *record.Batch) error {
		if sizes = append(sizes, len(b.Messages)); len(sizes) == 1 {
			cancel()
			return ctx.Err()
		}
		return acceptAll(ctx, b)
	}))
	batch := keyed("a", "b", "c")
	for i, o := range w.Process(ctx, batch) {
		if o.Settled() || errors.As(o.Err, new(*record.HandlerError)) {
			t.Errorf("message %d: %+v, want a retry that is no failure of its handler", i, o)
		}
	}
	for i := range batch {
		batch[i].Try = 2
	}
	same(t, "the redelivery", w.process(batch...), []string{"processed", "processed", "processed"})
	same(t, "messages of the calls", sizes, []int{3, 1, 2})
}

// The plan releases the messages of an old epoch of p, so it is committed although the deadline
// passes while the messages of q are gathered for a call.
func TestNoCallBeginsAfterTheDeadline(t *testing.T) {
	l := newBatchLab(t)
	l.worker(bySequence).process(numbered("p/0/2", "q/0/2")...)
	ctx, cancel := context.WithCancel(t.Context())
	w := l.worker(bySequence)
	w.at = nth(2, "held", func() fault { cancel(); return works })
	out := w.Process(ctx, numbered("p/1/1", "q/0/1"))
	if out[1].Settled() || errors.As(out[1].Err, new(*record.HandlerError)) {
		t.Errorf("%+v, want a retry that is no failure of the handler", out[1])
	}
	same(t, "calls of the handler", l.calls, nil)
	same(t, "the redelivery", l.worker(bySequence).process(numbered("p/1/1", "q/0/1")...), []string{"processed", "processed"})
	same(t, "state", string(l.group().State), "q/0/1,q/0/2,p/1/1,")
}

// Its answers are for other messages than the engine has.
func TestABatchHandlerThatChangesItsMessagesIsNotCalledForever(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	w := l.worker(asking(func(ctx context.Context, b *record.Batch) error {
		if calls++; calls == 1000 {
			cancel() // the test would not end
		}
		err := acceptAll(ctx, b)
		b.Messages[0].ID = "other"
		return err
	}))
	for i, o := range w.Process(ctx, keyed("a", "b")) {
		if o.Settled() {
			t.Errorf("message %d: %+v, want a retry", i, o)
		}
	}
	if calls >= 1000 {
		t.Error("the handler was called without end")
	}
	same(t, "version", l.group().Version, 0)
}

func TestAnAnswerAtTheEndOfTheDeadlineIsCommitted(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	w := l.worker(asking(func(ctx context.Context, b *record.Batch) error {
		cancel()
		return acceptAll(ctx, b)
	}))
	same(t, "fates", fates(w.Process(ctx, keyed("a", "b"))), []string{"processed", "processed"})
	same(t, "state", string(l.group().State), "a,b,")
}

func TestAnAnswerAfterAnotherCommitIsDiscardedAndAskedAgain(t *testing.T) {
	l := newLab(t)
	other := l.worker(asking(acceptAll))
	var versions []uint64
	w := l.worker(asking(func(ctx context.Context, b *record.Batch) error {
		if versions = append(versions, b.Version); len(versions) == 1 {
			same(t, "the other worker, while the handler runs", other.process(keyed("x", "b")...), []string{"processed", "processed"})
		}
		return acceptAll(ctx, b)
	}))
	same(t, "fates", w.process(keyed("a", "b", "c")...), []string{"processed", "duplicate", "processed"})
	same(t, "versions of the calls", versions, []uint64{0, 1})
	same(t, "state", string(l.group().State), "x,b,a,c,")
}

func TestAnAnswerWhoseCommitIsInDoubtIsNeitherLostNorCommittedTwice(t *testing.T) {
	for _, f := range []fault{failsBefore, failsAfter} {
		l := newBatchLab(t)
		w := l.worker(byKey)
		w.at = once("commit", f)
		same(t, "fates", w.process(keyed("a: send", "b: reply")...), []string{"processed", "processed with b"})
		want := []string{": a b"}
		if f == failsBefore {
			want = append(want, ": a b")
		}
		same(t, "calls of the handler", l.calls, want)
		same(t, "state", string(l.group().State), "a,b,")
		l.publish(byKey)
		same(t, "sent", len(l.sent), 1)
	}
}

// The effects of four messages exceed what a record takes. If the first part of the answer were
// committed, its state would have the other messages too.
func TestAnAnswerThatDoesNotFitIsDiscardedAndAskedAgainWithFewerMessages(t *testing.T) {
	l := newBatchLab(t)
	w := l.worker(byKey)
	w.at = func(call string) fault {
		if strings.HasPrefix(call, "commit ") {
			state, pending := string(l.group().State), 0
			for _, p := range l.group().Pending {
				pending += len(p.Effects)
			}
			sent := len(l.arrived("out"))
			if n := strings.Count(state, ","); n < pending || n > pending+sent {
				t.Errorf("%d pending and %d sent effects with the state %q", pending, sent, state)
			}
		}
		return works
	}
	same(t, "fates", w.process(keyed("a: kb=100 send", "b: kb=100 send", "c: kb=100 send", "d: kb=100 send")...),
		[]string{"processed", "processed", "processed", "processed"})
	// c and d are asked once more when the effects of a and b are published
	same(t, "calls of the handler", l.calls, []string{": a b c d", ": a b", "a,b,: c d", "a,b,: c d"})
	same(t, "state", string(l.group().State), "a,b,c,d,")
	l.publish(byKey)
	same(t, "sent", l.arrived("out"), []string{"s/g/1", "s/g/2", "s/g/3", "s/g/4"})
}

func TestAMessageOfABatchThatIsTooLargeForTheStoreIsRefusedAndTheOthersContinue(t *testing.T) {
	l := newBatchLab(t)
	w := smallWorker(l, byKey)
	same(t, "fates", w.process(keyed("a", "X", "b: send", "X2", "c")...), []string{"processed", "rejected invalid", "processed", "rejected invalid", "processed"})
	same(t, "state", string(w.group().State), "a,b,c,")
}

func TestAStateThatIsTooLargeIsAFailureOfTheMessageThatMakesIt(t *testing.T) {
	l := newLab(t)
	w := l.worker(asking(func(_ context.Context, b *record.Batch) error {
		for _, m := range b.Messages {
			b.State = append(b.State, m.Body...)
			b.Accept()
		}
		return nil
	}))
	batch := keyed("a: x", "b", "c: x")
	batch[1].Body = bytes.Repeat([]byte("y"), record.MaxBatchState)
	out := w.Process(t.Context(), batch)
	same(t, "fates", fates(out), []string{"processed", "retry", "retry"})
	if err := out[1].Err; err == nil || !strings.Contains(err.Error(), "state has 262145 bytes, more than 262144") {
		t.Errorf("the error is %v, want the sizes", err)
	}
	same(t, "state", string(l.group().State), "x")
}

// The second message has an effect that no destination takes. Its state is in the answer.
func TestAnAnswerWithAnInvalidPartIsNotCommittedWithoutIt(t *testing.T) {
	l := newBatchLab(t)
	w := l.worker(byKey)
	out := w.Process(t.Context(), keyed("a", "b: send=nowhere", "c"))
	same(t, "fates", fates(out), []string{"processed", "retry", "retry"})
	if !errors.As(out[1].Err, new(*record.HandlerError)) {
		t.Errorf("the message with the effect: %v, want an error of its handler", out[1].Err)
	}
	same(t, "state", string(l.group().State), "a,")
}

func TestHeldMessagesThatAreNextAreInTheCallOfTheirPredecessor(t *testing.T) {
	l := newBatchLab(t)
	w := l.worker(bySequence)
	same(t, "early", w.process(numbered("2", "3")...), []string{"held", "held"})
	same(t, "the first", w.process(numbered("1")...), []string{"processed"})
	same(t, "calls of the handler", l.calls, []string{": p/0/1 p/0/2 p/0/3"})
	same(t, "record", summary(l.group()), "v2 state=p/0/1,p/0/2,p/0/3, pending= p/0 next=4")
}

// The number that was rejected is not passed, so the next number has to wait for it: the answer to
// the next one can't be committed.
func TestNoNumberIsProcessedAfterOneThatWasRejected(t *testing.T) {
	l := newBatchLab(t)
	w := l.worker(bySequence)
	same(t, "fates", w.process(numbered("1", "2: reject", "3")...), []string{"processed", "rejected rejected", "held"})
	same(t, "record", summary(l.group()), "v1 state=p/0/1, pending= p/0 next=2 held=[{3 3}]")
}

func TestAHeldMessageThatFailsInABatchIsReturnedToItsQueue(t *testing.T) {
	l := newBatchLab(t)
	w := l.worker(bySequence)
	w.process(numbered("2: fail", "3")...)
	same(t, "the first", w.process(numbered("1")...), []string{"processed"})
	same(t, "returned", len(l.returned), 1)
	same(t, "record", summary(l.group()), "v3 state=p/0/1, pending= p/0 next=2 held=[{3 3}]")
}

func TestNothingIsAskedAfterAMessageThatEndsTheLog(t *testing.T) {
	l := newBatchLab(t)
	batch := keyed("a", "b", "c")
	batch[1].End, batch[1].Body = true, []byte("send")
	same(t, "fates", l.worker(logging(byKey)).process(batch...), []string{"processed", "processed", "rejected ended"})
	same(t, "calls of the handler", l.calls, []string{": a b"})
	same(t, "log", l.group().Log.Ended, true)
}

func TestAMessageThatOnlyEndsTheLogIsNotAskedAndKeepsTheStateBeforeIt(t *testing.T) {
	l := newBatchLab(t)
	batch := keyed("a", "b")
	batch[1].End = true
	same(t, "fates", l.worker(logging(byKey)).process(batch...), []string{"processed", "processed"})
	same(t, "calls of the handler", l.calls, []string{": a"})
	same(t, "state", string(l.group().State), "a,")
}

func TestACopyWithAnotherContentIsRefusedWithoutACall(t *testing.T) {
	l := newBatchLab(t)
	same(t, "fates", l.worker(byKey).process(keyed("a: reply", "a: send", "b")...), []string{"processed with a", "rejected key-reuse", "processed"})
	same(t, "calls of the handler", l.calls, []string{": a b"})
}

// A message that answers another one of the same delivery waits for the entry of that one.
func TestAMessageIsAskedWhenItsParentIsCommitted(t *testing.T) {
	l := newBatchLab(t)
	batch := keyed("b", "a", "c")
	batch[0].Parents = []uint64{1}
	same(t, "fates", l.worker(logging(byKey)).process(batch...), []string{"processed", "processed", "processed"})
	same(t, "calls of the handler", l.calls, []string{": a c", "a,c,: b"})
}

func TestDirectMessagesAndRequestsAreAskedToo(t *testing.T) {
	l := newBatchLab(t)
	w := l.worker(byKey)
	outcome, _ := w.Direct(t.Context(), time.Time{}, keyed("a: reply")[0])
	same(t, "direct", fates([]record.Outcome{outcome}), []string{"processed with a"})
	same(t, "direct batch", fates(w.DirectAll(t.Context(), time.Time{}, keyed("b", "c: reject"))), []string{"processed", "rejected rejected"})
	request := requesting(record.Message{Stream: "s", Group: "g", ID: "r", Body: []byte("reply")})
	w.issue(request...)
	same(t, "request", fates([]record.Outcome{w.Call(t.Context(), request[0])}), []string{"processed with " + request[0].Identity()})
	same(t, "state", string(l.group().State), "a,b,"+request[0].Identity()+",")
}

// While the handler of one group waits, the handlers of the others run.
func TestBatchHandlersOfSeveralGroupsRunAtTheSameTime(t *testing.T) {
	for _, together := range []bool{false, true} {
		l := newLab(t)
		l.commitsTogether = together
		arrived := make(chan struct{}, 3)
		all := make(chan struct{})
		go func() {
			for range 3 {
				<-arrived
			}
			close(all)
		}()
		w := l.worker(asking(func(ctx context.Context, b *record.Batch) error {
			arrived <- struct{}{}
			select {
			case <-all:
			case <-time.After(time.Minute):
				t.Error("the handlers of the other groups do not run")
			}
			return acceptAll(ctx, b)
		}))
		batch := keyed("a", "b", "c")
		for i := range batch {
			batch[i].Group = fmt.Sprint("g", i)
		}
		same(t, "fates", w.process(batch...), []string{"processed", "processed", "processed"})
	}
}

func TestAnAnswerOfNothingIsAFailure(t *testing.T) {
	l := newLab(t)
	w := l.worker(asking(func(context.Context, *record.Batch) error { return nil }))
	out := w.Process(t.Context(), keyed("a", "b"))
	if err := out[0].Err; err == nil || !strings.Contains(err.Error(), "answered none of 1 messages") {
		t.Errorf("the error is %v, want that nothing was answered", err)
	}
	same(t, "version", l.group().Version, 0)
}

func TestATimerOfABatchHandlerFiresOnce(t *testing.T) {
	for name, s := range map[string]record.Stream{"key": byKey, "token": byToken, "sequence": bySequence} {
		l := newBatchLab(t)
		l.committed(s, first(l, s, "set=remind/1h"))
		messages := l.fired()
		if len(messages) != 1 || !messages[0].NotBefore.Equal(l.clock().Add(time.Hour)) {
			t.Fatalf("%s: got %+v, want one message that is due in an hour", name, messages)
		}
		l.calls = nil
		same(t, name, l.worker(s).process(messages[0], messages[0]), []string{"processed", "duplicate"})
		same(t, name+": calls of the handler", len(l.calls), 1)
		same(t, name+": timers", l.timersOf(), []string{})
	}
}

// The call has the message of the timer behind a message that cancels it. Its answer is not
// committed.
func TestATimerThatTheSameCallCancelsDoesNotFire(t *testing.T) {
	l := newBatchLab(t)
	l.committed(byKey, keyed("a: set=remind/1h")...)
	l.calls = nil
	same(t, "fates", l.worker(byKey).process(keyed("b: cancel=remind")[0], l.fired()[0], keyed("c")[0]), []string{"processed", "duplicate", "processed"})
	same(t, "state", string(l.group().State), "a,b,c,")
	same(t, "messages of the calls", len(l.calls), 3) // all three, b alone, c alone
}
