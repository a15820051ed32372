package dedup_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// A small store refuses a state that contains an X. It also refuses a state that contains a Y if
// the commit holds a message.
type small struct{ portStore }

func (s small) Commit(ctx context.Context, c record.Commit) error {
	if slices.Contains(c.Next.State, 'X') {
		return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large"}
	}
	if len(c.Hold) > 0 && len(c.Next.State) > len(c.Loaded.State) && slices.Contains(c.Next.State, 'Y') {
		return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large together"}
	}
	held := 0
	for _, h := range c.Hold {
		held += h.Message.Size()
	}
	if held > 4<<20 {
		return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large"}
	}
	return s.portStore.Commit(ctx, c)
}

// smallWorker returns a worker with a small store.
func smallWorker(l *lab, stream record.Stream) *worker {
	var s small
	w := l.workerOf(dedup.Config{Streams: []record.Stream{stream}, Store: &s})
	s.w = w
	return w
}

func TestAMessageThatMakesARecordTooLargeIsRefusedAndTheOthersContinue(t *testing.T) {
	w := smallWorker(newLab(t), byKey)
	same(t, "fates", w.process(keyed("a", "X", "b: send", "X2", "c")...), []string{"processed", "rejected invalid", "processed", "rejected invalid", "processed"})
	same(t, "state", string(w.group().State), "a,b,c,")
	w.publish(byKey)
	same(t, "sent", w.arrived("out"), []string{"s/g/3"})
}

func TestACommittedMessageDoesNotRunAgainAfterOneWithoutRoom(t *testing.T) {
	l := newLab(t)
	dead := l.worker(byKey)
	dead.at = dies("mark", failsBefore)
	dead.process(keyed("d: reply")...)
	w := smallWorker(l, byKey)
	same(t, "fates", w.process(keyed("a", "X", "d: reply")...), []string{"processed", "rejected invalid", "duplicate with d"})
	same(t, "state", string(w.group().State), "d,a,")
}

func TestACopyOfACommittedMessageDoesNotRunAfterOneWithoutRoom(t *testing.T) {
	w := smallWorker(newLab(t), byKey)
	same(t, "fates", w.process(keyed("a", "b", "X", "c", "a", "b")...), []string{"processed", "processed", "rejected invalid", "processed", "duplicate", "duplicate"})
	same(t, "state", string(w.group().State), "a,b,c,")
}

func TestANumberWithoutRoomRunsInTheNextCommitAndIsNotHeld(t *testing.T) {
	w := newLab(t).worker(bySequence)
	request := requesting(record.Message{Stream: "s", Group: "g", Body: []byte("kb=200 reply")})
	w.issue(request...)
	batch := slices.Concat(request, numbered("1: kb=100 reply", "q/0/1: reject"))
	fate := w.process(batch...)
	same(t, "fates", []string{fate[0][:9], fate[1][:9], fate[2]}, []string{"processed", "processed", "rejected rejected"})
}

func TestManyMessagesThatAreTooLargeAreRefusedInOneDelivery(t *testing.T) {
	w := smallWorker(newLab(t), byKey)
	var ids []string
	for i := range 40 {
		ids = append(ids, fmt.Sprint("X", i))
	}
	same(t, "fates", slices.Compact(w.process(keyed(ids...)...)), []string{"rejected invalid"})
}

func TestBlobsOfAMessageThatMakesARecordTooLargeAreDiscarded(t *testing.T) {
	w := smallWorker(newLab(t), byKey)
	same(t, "fates", w.process(keyed("X: blob=k")...), []string{"rejected invalid"})
	same(t, "staged", len(w.staged), 0)
	same(t, "runs", len(slices.DeleteFunc(w.calls(), func(c string) bool { return c != "run X" })), 1)
}

func TestAHeldMessageThatMakesARecordTooLargeIsDeadLettered(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("2", "3")...)
	l.scripts["p/0/2"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.State = append(a.State, 'X')
		return nil
	}
	w := smallWorker(l, bySequence)
	same(t, "fates", w.process(numbered("1")...), []string{"processed"})
	same(t, "dead letters", w.lettered(), []string{"p/0/2 invalid"})
	same(t, "record", summary(w.group()), "v3 state=p/0/1, pending= p/0 next=2 held=[{3 3}]")
}

func TestAMessageThatFitsAloneIsNotRefusedBecauseOfHeldMessages(t *testing.T) {
	for name, c := range map[string]struct {
		held  []string
		large string
	}{
		"alone":                   {nil, "1"},
		"before one that is held": {[]string{"2"}, "1"},
		"held":                    {[]string{"2"}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.scripts["p/0/"+c.large] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
				a.State = append(a.State, 'Y')
				return nil
			}
			l.worker(bySequence).process(numbered(c.held...)...)
			w := smallWorker(l, bySequence)
			same(t, "fates", w.process(numbered("1", "9")...), []string{"processed", "held"})
			same(t, "next", w.group().Sources["p"].Next, uint64(len(c.held)+2))
			same(t, "dead letters", w.lettered(), nil)
		})
	}
}

func TestAHeldMessageIsReturnedAgainIfItsCommitIsRefused(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("2: reject", "q/0/2: fail")...)
	l.scripts["r/0/1"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.State = append(a.State, 'X')
		return nil
	}
	w := smallWorker(l, bySequence)
	same(t, "fates", w.process(numbered("1", "q/0/1", "r/0/1")...), []string{"processed", "processed", "rejected invalid"})
	same(t, "dead letters", w.lettered(), []string{"p/0/2 rejected", "p/0/2 rejected"})
	same(t, "returned", len(l.returned), 2) // once for each plan, see admission.Handover
}

func TestAHeldMessageIsReturnedAgainIfItsCommitConflicts(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("2: reject", "q/0/2: fail")...)
	w := l.worker(bySequence)
	w.at = between("commit", func() { l.worker(bySequence).process(numbered("r/0/1")...) })
	same(t, "fates", w.process(numbered("1", "q/0/1")...), []string{"processed", "processed"})
	same(t, "dead letters", w.lettered(), []string{"p/0/2 rejected", "p/0/2 rejected"})
	same(t, "returned", len(l.returned), 2) // once for each plan, see admission.Handover
}

func TestAHeldMessageIsNotDeadLetteredByAnAbandonedPlan(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("2: reject", "q/0/2: blob=k")...)
	w := l.worker(bySequence)
	w.at = always("stage", failsBefore)
	same(t, "fates", w.process(numbered("1", "q/0/1")...), []string{"retry", "retry"})
	same(t, "dead letters", w.lettered(), nil)
}

func TestACommitHoldsNoMoreBytesThanATransactionAllows(t *testing.T) {
	w := smallWorker(newLab(t), bySequence)
	var messages []record.Message
	for n := range uint64(30) {
		messages = append(messages, record.Message{Stream: "s", Group: "g", Source: "p", Sequence: n + 2, Body: make([]byte, 250<<10)})
	}
	same(t, "fates", slices.Compact(w.process(messages...)), []string{"held"})
}

func TestAReplyThatIsTooLargeForATokenFailsItsMessage(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a: kb=257 reply", "b")...), []string{"retry", "retry"})
	same(t, "record", summary(w.group()), "v0 state= pending=")
}

// A narrow store has room for one entry.
type narrow struct{ portStore }

func (s narrow) Commit(ctx context.Context, c record.Commit) error {
	switch {
	case len(c.Next.Pending)-len(c.Loaded.Pending) > 1:
		return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large"}
	case len(c.Next.Pending) > 1:
		return record.ErrFull
	}
	return s.portStore.Commit(ctx, c)
}

func TestABatchThatFillsItsRecordIsPublishedMeanwhile(t *testing.T) {
	l := newLab(t)
	var s narrow
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: &s})
	s.w = w
	same(t, "fates", w.process(keyed("a: send", "b: send", "c: send")...), []string{"processed", "processed", "processed"})
	l.publish(byKey)
	same(t, "sent", l.arrived("out"), []string{"s/g/1", "s/g/2", "s/g/3"})
}

func TestEffectsCommittedBeforeAnErrorArePublished(t *testing.T) {
	l := newLab(t)
	dying := l.worker(byKey)
	dying.at = dies("trigger", failsBefore)
	dying.process(keyed("a: send")...)
	w := l.worker(byKey)
	w.at = always("stage", failsBefore)
	same(t, "fates", w.process(keyed("a: send", "b: blob=k")...), []string{"retry", "retry"})
	l.publish(byKey)
	same(t, "sent", l.arrived("out"), []string{"s/g/1"})
}

// A crammed store has no room for another entry or done token, and none is ever published.
type crammed struct{ portStore }

func (s crammed) Commit(ctx context.Context, c record.Commit) error {
	if len(c.Next.Pending) > len(c.Loaded.Pending) {
		return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large"}
	}
	return s.portStore.Commit(ctx, c)
}

func TestARefusalWithoutRoomIsNotRememberedAndNotTriedForEver(t *testing.T) {
	for name, want := range map[string]string{"reject": "rejected rejected", "send": "rejected invalid"} {
		l := newLab(t)
		var s crammed
		w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: &s})
		s.w = w
		out := w.Process(t.Context(), keyed("a: "+name))
		if got := fates(out); got[0] != want || out[0].Reply != nil {
			t.Errorf("%s: %q, %+v", name, got, out)
		}
		same(t, "two", fates(w.Process(t.Context(), keyed("b: "+name, "c: "+name))), []string{want, want})
	}
}
