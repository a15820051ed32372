package dedup_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// newTogetherLab returns a lab whose store commits several groups with one write. The tests run in
// bubbles, in which no time passes while groups are planned, so that a plan is never too slow to be
// committed together with others.
func newTogetherLab(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.commitsTogether = true
	return l
}

// in moves messages to another group.
func in(group string, messages []record.Message) []record.Message {
	for i := range messages {
		messages[i].Group = group
	}
	return messages
}

// other is a message of group h.
func other() record.Message { return in("h", keyed("z"))[0] }

// numberedOther is the first message of group h with a number.
func numberedOther() record.Message { return in("h", numbered("z/0/1"))[0] }

func TestAGroupOfABatchWithoutNewMessagesWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTogetherLab(t).worker(byKey)
		w.process(keyed("a")[0])
		w.calls()
		same(t, "fates", w.process(keyed("a")[0], other()), []string{"duplicate", "processed"})
		same(t, "calls", w.calls(), []string{"load g h +2 tokens", "run z", "commit h v1", "mark 1"})
	})
}

func TestAGroupOfABatchWithMoreThanOneCommitHoldsIsCommittedSeveralTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTogetherLab(t).worker(byKey)
		batch := append(keyed("a: kb=200 send", "b: kb=100 send"), other())
		same(t, "fates", w.process(batch...), []string{"processed", "processed", "processed"})
		same(t, "state", string(w.group().State), "a,b,")
	})
}

func TestDirectMessagesOfSeveralGroupsTriggerBeforeTheirCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTogetherLab(t).worker(byKey)
		batch := []record.Message{keyed("a: send")[0], in("h", keyed("b: send"))[0]}
		same(t, "fates", fates(w.DirectAll(t.Context(), time.Time{}, batch)), []string{"processed", "processed"})
		same(t, "calls", w.calls(), []string{
			"load g h +2 tokens", "run a", "trigger later g", "commit g v1", "run b", "trigger later h", "commit h v1", "trigger g h",
		})
	})
}

func TestAGroupOfABatchReturnsItsHeldMessagesBeforeItsCommit(t *testing.T) {
	for _, c := range []struct{ name, held, call string }{
		{"to the dead-letter queue", "2: reject", "dead p/0/2 rejected"},
		{"to their own queue", "2: fail", "return p/0/2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTogetherLab(t).worker(bySequence)
				w.process(numbered(c.held)...)
				w.calls()
				same(t, "fates", w.process(numbered("1")[0], numberedOther()), []string{"processed", "processed"})
				same(t, "calls", w.calls(), []string{
					"load g h", "run p/0/1", "held g 0/2 x1", "run p/0/2", c.call, "commit g v2 unhold 0/2", "run z/0/1", "commit h v1",
				})
			})
		})
	}
}

// A sweep may delete the blobs of an attempt that takes longer.
func TestAGroupOfABatchIsNotCommittedTooLongAfterItsFirstBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTogetherLab(t)
		l.scripts["z"] = func(context.Context, *record.Attempt, record.Message) error {
			l.pass(outbox.StagedTime + 1)
			return nil
		}
		w := l.worker(byKey)
		same(t, "fates", w.process(keyed("a: blob=k")[0], other()), []string{"processed", "processed"})
		same(t, "calls", w.calls(), []string{
			"load g h +2 tokens", "run a", "stage a1.1.0-8a6e7be2b1fb05e8", "commit g v1", "run z", "commit h v1", "mark 1", "trigger g",
		})
	})
}

// Until the fence is written, the earlier commit of the group may still be applied.
func TestAGroupOfABatchRunsNothingWhileAnEarlierCommitMayBeApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTogetherLab(t).worker(byKey)
		w.at = both(once("commit g v1, h v1", failsBefore), nth(2, "commit g v1", func() fault { return failsBefore }))
		same(t, "fates", w.process(keyed("a")[0], other()), []string{"processed", "processed"})
		same(t, "calls", w.calls(), []string{
			"load g h +2 tokens", "run a", "run z", "commit g v1, h v1",
			"load g h +2 tokens", "commit g v1", "commit h v1", "run z", "commit h v2", "mark 1",
			"load g +1 tokens", "commit g v1", "run a", "commit g v2", "mark 1",
		})
	})
}

func TestAMessageThatIsTooLargeForACommonWriteIsPlannedAgainWithoutALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTogetherLab(t)
		w := roomWorker(l, byKey)
		same(t, "fates", w.process(keyed("X")[0], other()), []string{"rejected invalid", "processed"})
		same(t, "calls", w.calls(), []string{
			"load g h +2 tokens", "run X", "run z", "commit h v1", "dead X invalid", "commit g v1", "mark 1", "load +1 tokens", "swap absent done",
		})
	})
}

// A roomy store commits several groups with one write. It refuses a state that contains an X. With
// an F in its state, a record of two pending entries is full.
type roomy struct{ portStore }

func (roomy) CommitsTogether() bool { return true }

func (s roomy) CommitAll(ctx context.Context, commits []record.Commit) []error {
	errs := make([]error, len(commits))
	for i, c := range commits {
		errs[i] = s.Commit(ctx, c)
	}
	return errs
}

func (s roomy) Commit(ctx context.Context, c record.Commit) error {
	switch {
	case slices.Contains(c.Next.State, 'X'):
		return &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large"}
	case slices.Contains(c.Next.State, 'F') && len(c.Next.Pending) > 1:
		return record.ErrFull
	}
	return s.portStore.Commit(ctx, c)
}

func roomWorker(l *lab, stream record.Stream) *worker {
	var s roomy
	w := l.workerOf(dedup.Config{Streams: []record.Stream{stream}, Store: &s})
	s.w = w
	return w
}

func TestAFullRecordOfABatchIsPublishedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTogetherLab(t)
		l.worker(byKey).process(keyed("a: send")...)
		w := roomWorker(l, byKey)
		same(t, "fates", w.process(keyed("F: send")[0], other()), []string{"processed", "processed"})
		same(t, "calls", w.calls(), []string{
			"load g h +2 tokens", "run F", "run z", "commit h v1", "run F",
			"load g", "send out s/g/1", "mark 1", "clear g 1", "load g +1 tokens", "run F", "commit g v2", "mark 1", "trigger g",
		})
	})
}

// With Parallel at 1, a slow handler is no reason to process other groups concurrently.
func TestGroupsAreProcessedOneAfterTheOtherIfTheConfigurationSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTogetherLab(t)
		var running, most atomic.Int32
		stream := byKey
		stream.Handler = func(context.Context, *record.Attempt, record.Message) error {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return nil
		}
		messages, _ := groupsOf(4)
		w := l.workerOf(dedup.Config{Streams: []record.Stream{stream}, Parallel: 1})
		w.process(messages...)
		same(t, "handlers at the same time", most.Load(), 1)
	})
}

func TestASlowWriteOfAllGroupsIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTogetherLab(t).worker(byKey)
		w.at = between("commit", func() { time.Sleep(time.Minute) })
		same(t, "fates", w.process(keyed("a")[0], other()), []string{"processed", "processed"})
		same(t, "calls", w.calls(), []string{"load g h +2 tokens", "run a", "run z", "commit g v1, h v1", "mark 2"})
	})
}

// Each write ends when both have begun.
func TestAStoreThatWritesOneGroupAtATimeIsAskedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(t).worker(byKey)
		var begun sync.WaitGroup
		begun.Add(2)
		w.at = func(call string) fault {
			if strings.HasPrefix(call, "commit") {
				begun.Done()
				begun.Wait()
			}
			return works
		}
		same(t, "fates", w.process(keyed("a")[0], other()), []string{"processed", "processed"})
	})
}
