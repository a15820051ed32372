package dedup_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// newDoneLab returns a lab whose store marks tokens done in a commit.
func newDoneLab(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.commitsDone = true
	return l
}

func TestACommitMarksTheTokenOfAMessageWithoutEffectsDone(t *testing.T) {
	w := newDoneLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a: reply")...), []string{"processed with a"})
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "run a", "commit g v1 done 1"})
	same(t, "record", summary(w.group()), "v1 state=a, pending=")
	token := w.token(keyed("a")[0])
	same(t, "token", token.State, record.Done)
	same(t, "expiry", token.Expires, w.clock().Add(record.DefaultRetention))
	same(t, "fates", w.process(keyed("b", "a: reply")...), []string{"processed", "duplicate with a"})
	same(t, "calls", w.calls(), []string{"load g +2 tokens", "run b", "commit g v2 done 1"})
}

func TestAMessageWithEffectsIsNotDoneByItsCommit(t *testing.T) {
	w := newDoneLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a", "b: send", "c")...), []string{"processed", "processed", "processed"})
	same(t, "calls", w.calls(), []string{"load g +3 tokens", "run a", "run b", "run c", "commit g v1 done 2", "trigger g"})
	same(t, "record", summary(w.group()), "v1 state=a,b,c, pending=[1 b 1 effects]")
	same(t, "token", w.token(keyed("b")[0]).State, record.Absent)
	w.publish(byKey)
	same(t, "token after publishing", w.token(keyed("b")[0]).State, record.Done)
}

func TestACopyInABatchFindsTheTokenThatItsOwnCommitMarks(t *testing.T) {
	w := newDoneLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a: reply", "a: reply", "a: send")...), []string{"processed with a", "duplicate with a", "rejected key-reuse"})
	same(t, "state", string(w.group().State), "a,")
}

func TestEachCopyInALargeBatchIsADuplicate(t *testing.T) {
	var batch, want, runs []string
	for i := range 100 {
		id := strconv.Itoa(i)
		batch, want, runs = append(batch, id+": reply"), append(want, "processed with "+id), append(runs, "run "+id)
	}
	for i := range 100 {
		id := strconv.Itoa(i)
		batch, want = append(batch, id+": reply"), append(want, "duplicate with "+id)
	}
	w := newDoneLab(t).worker(byKey)
	same(t, "fates", w.process(keyed(batch...)...), want)
	same(t, "calls", w.calls(), slices.Concat([]string{"load g +100 tokens"}, runs, []string{"commit g v1 done 100"}))
}

func TestACopyFindsTheTokenThatAnEarlierCommitOfItsBatchMarked(t *testing.T) {
	w := newDoneLab(t).worker(byKey)
	batch := keyed("a: kb=200 reply", "b: kb=200 reply", "c: reply", "a: kb=200 reply", "c: reply")
	outcomes := w.Process(t.Context(), batch)
	for i, want := range []record.Kind{record.Processed, record.Processed, record.Processed, record.Duplicate, record.Duplicate} {
		same(t, batch[i].ID, outcomes[i].Kind, want)
	}
	same(t, "state", string(w.group().State), "a,b,c,")
	same(t, "version", w.group().Version, 2)
}

func TestRepliesDoNotFillACommit(t *testing.T) {
	w := newDoneLab(t).worker(byKey)
	same(t, "kinds", kinds(w.Process(t.Context(), keyed("a: kb=200 reply", "b: kb=50 reply", "c: kb=50 reply"))), []record.Kind{record.Processed, record.Processed, record.Processed})
	same(t, "calls", w.calls(), []string{"load g +3 tokens", "run a", "run b", "run c", "commit g v1 done 2", "run c", "commit g v2 done 1"})
}

func TestTheLargestReplyFitsIntoACommit(t *testing.T) {
	l := newDoneLab(t)
	l.scripts["a"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.Reply(record.Reply{Status: 200, Body: make([]byte, record.MaxReply)})
		return nil
	}
	w := l.worker(byKey)
	same(t, "kinds", kinds(w.Process(t.Context(), keyed("a", "b"))), []record.Kind{record.Processed, record.Processed})
	same(t, "version", w.group().Version, 2)
}

func kinds(outcomes []record.Outcome) []record.Kind {
	out := make([]record.Kind, len(outcomes))
	for i, o := range outcomes {
		out[i] = o.Kind
	}
	return out
}

func TestAMessageWithoutEffectsNeedsNoRoomInAFullRecord(t *testing.T) {
	w := newDoneLab(t).worker(byKey)
	w.process(keyed("a: kb=200 send")...)
	w.calls()
	same(t, "kinds", kinds(w.Process(t.Context(), keyed("b: kb=100 reply"))), []record.Kind{record.Processed})
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "run b", "commit g v2 done 1", "trigger g"})
}

func TestACommitWhoseAnswerIsLostIsFoundByItsDoneToken(t *testing.T) {
	for name, f := range map[string]fault{"before": failsBefore, "after": failsAfter} {
		w := newDoneLab(t).worker(byKey)
		w.at = once("commit", f)
		same(t, name, w.process(keyed("a: reply")...), []string{"processed with a"})
		same(t, name, string(w.group().State), "a,")
	}
}

func TestACommitOfANumberWhoseAnswerIsLostKeepsItsReply(t *testing.T) {
	w := newDoneLab(t).worker(bySequence)
	w.at = once("commit", failsAfter)
	same(t, "fates", w.process(numbered("1: reply", "2")...), []string{"processed with p/0/1", "duplicate"})
	same(t, "state", string(w.group().State), "p/0/1,p/0/2,")
	same(t, "fates of copies", w.process(numbered("1: reply", "2")...), []string{"duplicate", "duplicate"})
}

func TestAnotherWorkersCommitOfANumberIsADuplicate(t *testing.T) {
	l := newDoneLab(t)
	w := l.worker(bySequence)
	w.at = between("commit", func() { l.worker(bySequence).process(numbered("1: reply")...) })
	same(t, "fates", w.process(numbered("1: reply")...), []string{"duplicate"})
}

func TestAConflictMarksNoTokenDone(t *testing.T) {
	l := newDoneLab(t)
	w := l.worker(byKey)
	w.at = both(between("commit", func() { l.worker(byKey).process(keyed("b")...) }), nth(2, "load", func() fault {
		same(t, "token after the conflict", l.token(keyed("a")[0]).State, record.Absent)
		return works
	}))
	same(t, "fates", w.process(keyed("a")...), []string{"processed"})
	same(t, "state", string(l.group().State), "b,a,")
}

func TestACopyThatLosesTheRaceForACommitIsADuplicate(t *testing.T) {
	l := newDoneLab(t)
	w := l.worker(byKey)
	w.at = between("commit", func() { l.worker(byKey).process(keyed("a: reply")...) })
	same(t, "fates", w.process(keyed("a: reply")...), []string{"duplicate with a"})
	same(t, "state", string(l.group().State), "a,")
}

func TestTheCommitThatRunsAHeldMessageMarksItsToken(t *testing.T) {
	l := newDoneLab(t)
	l.worker(bySequence).process(numbered("2: reply")...)
	w := l.worker(bySequence)
	same(t, "fates", w.process(numbered("1")...), []string{"processed"})
	same(t, "calls", w.calls(), []string{"load g", "run p/0/1", "held g 0/2 x1", "run p/0/2", "commit g v2 unhold 0/2 done 1"})
	same(t, "record", summary(w.group()), "v2 state=p/0/1,p/0/2, pending= p/0 next=3")
}

func TestEntriesOfAnOlderStoreAreMarkedAndRemoved(t *testing.T) {
	l := newLab(t)
	dead := l.worker(byKey)
	dead.at = dies("mark", failsBefore)
	same(t, "fates", dead.process(keyed("old: reply")...), []string{"retry"})
	l.commitsDone = true
	w := l.worker(byKey)
	same(t, "fates", w.process(keyed("a", "old: reply")...), []string{"processed", "duplicate with old"})
	same(t, "record", summary(w.group()), "v2 state=old,a, pending=")
	same(t, "token", w.token(keyed("old")[0]).State, record.Done)
}

func TestADeletedRequestWasNotMarkedDoneByALaterCommit(t *testing.T) {
	l := newDoneLab(t)
	request := record.Message{Stream: "s", Group: "g", ID: "r", Route: "POST /", Body: []byte("reply")}
	if _, _, err := l.worker(byKey).Issue(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	w := l.worker(byKey)
	w.at = between("commit", func() {
		if err := l.worker(byKey).Forget(context.Background(), request); err != nil {
			t.Error(err)
		}
	})
	same(t, "fates", fates([]record.Outcome{w.Call(t.Context(), request)}), []string{"rejected deleted"})
	token := l.token(request)
	same(t, "tombstone", token.Deleted(), true)
}

func TestAMessageThatItsCommitMarksDoneCostsTwoCallsAndTwoWrites(t *testing.T) {
	l := newDoneLab(t)
	w := l.worker(byKey)
	m := &meter{portStore: portStore{w}}
	metered := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: m})
	for _, id := range []string{"alone", "after another of its group"} {
		m.cost = cost{}
		metered.process(keyed(id)...)
		if m.calls != 2 || m.writes != 2 {
			t.Errorf("%s: %+v", id, m.cost)
		}
	}
}
