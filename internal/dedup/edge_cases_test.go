package dedup_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// counted returns how many calls begin with a prefix.
func counted(calls []string, prefix string) int {
	return len(slices.DeleteFunc(slices.Clone(calls), func(call string) bool { return !strings.HasPrefix(call, prefix) }))
}

func TestASweepTriggersNothingBeforeACommitWithoutEntries(t *testing.T) {
	w := newLab(t).worker(gapped(record.GapFail))
	w.process(numbered("1: send", "3")...)
	w.pass(time.Minute)
	w.calls()
	w.closeGaps()
	same(t, "calls", w.calls(), []string{"load g", "held g 0/3 x99", "dead p/0/3 gap", "commit g v2 unhold 0/3", "trigger g"})
}

func TestALostCommitIsObserved(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	w.at = between("commit", func() { l.worker(byKey).process(keyed("x")...) })
	w.process(keyed("a")...)
	same(t, "conflicts", len(slices.DeleteFunc(l.events, func(e record.Event) bool { return e.Name != record.EventConflict || e.Count != 1 })), 1)
}

func TestBlobsOfAMessageWithoutRoomAreDeleted(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send")...)
	var s narrow
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: &s})
	s.w, w.at = w, always("send", failsBefore)
	same(t, "fates", w.process(keyed("b: blob=k")...), []string{"retry"})
	same(t, "staged", len(l.staged), 0)
}

// unwilling refuses every commit that holds a message, or whose state contains an X.
type unwilling struct {
	portStore
	asked int
}

func (s *unwilling) Commit(ctx context.Context, c record.Commit) error {
	if len(c.Hold) == 0 && !slices.Contains(c.Next.State, 'X') {
		return s.portStore.Commit(ctx, c)
	}
	if s.asked++; s.asked > 100 {
		panic("a worker goes on for ever")
	}
	return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large"}
}

func TestACommitThatIsTooLargeWithoutARunIsGivenUp(t *testing.T) {
	l, s := newLab(t), &unwilling{}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{bySequence}, Store: s})
	s.w = w
	same(t, "fates", w.process(numbered("2")...), []string{"retry"})
}

func TestTwoMessagesThatAreTooLargeAreBothRefused(t *testing.T) {
	l, s := newLab(t), &unwilling{}
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: s})
	s.w = w
	same(t, "fates", w.process(keyed("X", "X2", "a")...), []string{"rejected invalid", "rejected invalid", "processed"})
}

// slow applies commits and returns an ambiguous error.
type slow struct {
	portStore
	late []record.Commit
}

func (s *slow) Commit(_ context.Context, c record.Commit) error {
	s.late = append(s.late, c)
	return errInjected
}

func TestTheBlobsOfALateCommitAreKept(t *testing.T) {
	l, s := newLab(t), &slow{}
	l.worker(byKey).process(keyed("x")...)
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: s})
	s.w = w
	same(t, "fates", w.process(keyed("a: blob=k")...), []string{"retry"})
	if err := l.store.Commit(t.Context(), s.late[0]); err != nil {
		t.Fatal(err)
	}
	same(t, "fates", l.worker(byKey).process(keyed("a: blob=k")...), []string{"duplicate"})
	l.publish(byKey)
	same(t, "objects", l.objects(), []string{"k=a"})
}

func TestTheBlobsOfALateCommitToAnExpiredGroupAreDeleted(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("x: send")...)
	l.publish(byKey)
	w := l.worker(byKey)
	w.at = nth(1, "commit g v2", func() fault { l.pass(31 * 24 * time.Hour); return failsBefore })
	same(t, "fates", w.process(keyed("a: blob=k")...), []string{"processed"})
	same(t, "record", summary(l.group()), "v2 state=a, pending=[1 a 1 effects]")
	same(t, "staged", len(l.staged), 1)
}

func TestAnImpossibleDeleteFailsWithoutRetries(t *testing.T) {
	w := newLab(t).worker(byKey)
	r := request("a: send")
	if err := w.Forget(t.Context(), r); err == nil {
		t.Error("an unknown request was deleted")
	}
	same(t, "calls", w.calls(), []string{"load g +1 tokens"})
	w.issue(r)
	w.call1(r)
	w.calls()
	w.at = always("send", failsBefore)
	if err := w.Forget(t.Context(), r); err == nil {
		t.Error("a request was deleted whose effects are not sent")
	}
	same(t, "a destination that is away is asked so often", counted(w.calls(), "send"), 1)
}

func TestADeleteWritesOnlyTheMissingSteps(t *testing.T) {
	for name, c := range map[string]struct {
		before         func(l *lab, r record.Message)
		swaps, commits int
	}{
		"of a request that did not run":  {func(*lab, record.Message) {}, 2, 1},
		"after one that died":            {(*lab).dyingDelete, 1, 1},
		"after one that was done":        {func(l *lab, r record.Message) { l.deletes(r)() }, 0, 0},
		"of a request that has long run": {func(l *lab, r record.Message) { w := l.worker(byKey); w.call1(r); w.publish(byKey) }, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			r := request("a: send")
			l.worker(byKey).issue(r)
			c.before(l, r)
			w := l.worker(byKey)
			if err := w.Forget(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			calls := w.calls()
			same(t, "swaps", counted(calls, "swap"), c.swaps)
			same(t, "commits", counted(calls, "commit"), c.commits)
		})
	}
}

func TestAGroupThatIsLoadedAgainIsSettledOnce(t *testing.T) {
	l := newLab(t)
	dead := l.worker(byKey)
	dead.at = dies("trigger", failsBefore)
	dead.process(keyed("a: send")...)
	w := l.worker(byKey)
	w.at = once("commit g", failsBefore)
	other := record.Message{Stream: "s", Group: "h", ID: "c"}
	same(t, "fates", w.process(append(keyed("a: send", "b"), other)...), []string{"duplicate", "processed", "processed"})
	same(t, "triggers", counted(w.calls(), "trigger"), 1)
}

func TestADuplicateByKeyDoesNotMarkEntriesOfOthers(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a")...)
	other := l.worker(byKey)
	other.at = dies("mark 1", failsBefore)
	other.process(keyed("b")...)
	w := l.worker(byKey)
	same(t, "fates", w.process(keyed("a")...), []string{"duplicate"})
	same(t, "calls", w.calls(), []string{"load g +1 tokens"})
}

func TestANumberWithAReplyIsMarkedByItsOwnWorkerAndNeedsNoTrigger(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("1: reply")...)
	same(t, "calls", w.calls(), []string{"load g", "run p/0/1", "commit g v1", "mark 1"})
}

func TestAMarkDoesNotHideTheUnmarkedReplyOfAHeldMessage(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("2: reply")...)
	dead := l.worker(bySequence)
	dead.at = dies("mark", failsBefore)
	dead.process(numbered("1: reply")...)
	w := l.worker(bySequence)
	same(t, "fates", w.process(numbered("1: reply")...), []string{"duplicate with p/0/1"})
	same(t, "triggers", counted(w.calls(), "trigger g"), 1)
}

func TestTheBlobsOfALateCommitToAnExpiredGroupAreDeletedWithoutAnotherCommit(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("x: send")...)
	l.publish(byKey)
	w := l.worker(byKey)
	w.at = nth(1, "commit g v2", func() fault {
		l.pass(31 * 24 * time.Hour)
		l.scripts["a"] = func(context.Context, *record.Attempt, record.Message) error { return errHandler }
		return failsBefore
	})
	same(t, "fates", w.process(keyed("a: blob=k")...), []string{"retry"})
	same(t, "record", summary(l.group()), "v1 state= pending=")
	same(t, "staged", len(l.staged), 0)
}
