package dedup_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// logged returns a stream whose processed messages are in the logs of their groups.
func logged(admission record.Admission, policy record.GapPolicy) record.Stream {
	s := gapped(policy)
	s.Admission, s.StateRetention, s.LogRetention, s.LogMessages = admission, 0, 365*24*time.Hour, true
	return s
}

// answering returns messages that answer entries of the log, and were accepted now.
func (l *lab) answering(messages []record.Message, parents ...uint64) []record.Message {
	for i := range messages {
		messages[i].Parents, messages[i].Accepted = parents, l.clock()
	}
	return messages
}

// entries returns the log of the group: "id", and "id!" if the entry has the mark of a message
// whose parents are missing.
func (l *lab) entries() string {
	l.t.Helper()
	var out []string
	page, err := log.Read(l.t.Context(), l.store, groupG, log.Offset{}, 1000)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range page.Entries {
		var x struct {
			ID      string
			Missing bool `cbor:"parents_missing"`
		}
		if err := cbor.Unmarshal(e.AppendCBOR(nil, 1, ""), &x); err != nil {
			l.t.Fatal(err)
		}
		if x.Missing {
			x.ID += "!"
		}
		out = append(out, x.ID)
	}
	return strings.Join(out, " ")
}

func TestAnAnswerWithoutANumberIsRetriedUntilItsParentsAreInTheLog(t *testing.T) {
	for _, by := range []record.Admission{record.ByKey, record.ByToken} {
		l := newLab(t)
		w := l.worker(logged(by, record.GapWait))
		answer := l.answering(keyed("answer"), 1)
		root := keyed("root")
		for _, m := range slices.Concat(answer, root) {
			if _, _, err := w.Issue(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			l.pass(100 * time.Hour)
			o := w.Process(t.Context(), answer)[0]
			if o.Kind != record.Retry || !errors.Is(o.Err, dedup.ErrParents) {
				t.Fatalf("%s: before its parent: %+v", by, o)
			}
		}
		same(t, "the parent", w.process(root...), []string{"processed"})
		same(t, "the answer, twice", w.process(append(answer, answer...)...), []string{"processed", "duplicate"})
		same(t, "log", l.entries(), "root answer")
	}
}

func TestAnAnswerThatWaitsBlocksNoOtherMessage(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.ByKey, record.GapWait))
	batch := slices.Concat(l.answering(keyed("late"), 9), l.answering(keyed("answer"), 2), l.answering(keyed("first"), 1), keyed("root", "other"))
	same(t, "fates", w.process(batch...), []string{"retry", "processed", "processed", "processed", "processed"})
	same(t, "log", l.entries(), "root other answer first")
}

func TestAFailureBeforeAParentLeavesTheAnswerWaiting(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.ByKey, record.GapWait))
	batch := slices.Concat(keyed("root"), l.answering(keyed("answer"), 2), keyed("broken: fail", "parent"))
	out := w.Process(t.Context(), batch)
	same(t, "fates", fates(out), []string{"processed", "retry", "retry", "retry"})
	if !errors.Is(out[1].Err, dedup.ErrParents) {
		t.Errorf("the answer does not wait: %v", out[1].Err)
	}
	same(t, "again", w.process(slices.Concat(keyed("parent"), batch[1:2])...), []string{"processed", "processed"})
	same(t, "log", l.entries(), "root parent answer")
}

func TestAfterTheTimeOfTheGapPolicyAnAnswerIsProcessedWithAMark(t *testing.T) {
	for name, c := range map[string]struct {
		by     record.Admission
		answer func(l *lab) []record.Message
		log    string
	}{
		"key":      {record.ByKey, func(*lab) []record.Message { return keyed("a") }, "a!"},
		"sequence": {record.BySequence, func(*lab) []record.Message { return numbered("1", "2") }, "p/0/1! p/0/2!"},
	} {
		l := newLab(t)
		w := l.worker(logged(c.by, record.GapSkip))
		answer := l.answering(c.answer(l), 9)
		fates := w.process(answer...)
		try := func() {
			if c.by == record.BySequence {
				w.closeGaps()
			} else {
				fates = w.process(answer...)
			}
		}
		l.pass(time.Minute - 1)
		try()
		same(t, name+": before", l.entries(), "")
		l.pass(1)
		l.events = nil
		try()
		same(t, name+": log", l.entries(), c.log)
		same(t, name+": copies", slices.Compact(w.process(answer...)), []string{"duplicate"})
		if i := slices.IndexFunc(l.events, func(e record.Event) bool { return e.Name == record.EventSkipped }); i < 0 {
			t.Errorf("%s: fates %v, events %+v", name, fates, l.events)
		}
	}
}

func TestAWaitForParentsIsReportedWithItsAge(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.ByKey, record.GapWait))
	answer := l.answering(keyed("a"), 1)
	l.pass(time.Hour)
	w.process(answer...)
	want := record.Event{Name: record.EventGap, Stream: "s", Count: 1, Age: time.Hour}
	same(t, "without a number", l.events[0], want)

	l = newLab(t)
	w = l.worker(logged(record.BySequence, record.GapWait))
	w.process(l.answering(numbered("1"), 1)...)
	l.pass(time.Hour)
	l.events = nil
	w.closeGaps()
	same(t, "with a number", l.events, []record.Event{want})
	same(t, "log", l.entries(), "")
}

func TestGapFailDeadLettersAnAnswerWhoseParentDoesNotCome(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.ByKey, record.GapFail))
	answer := l.answering(keyed("a"), 1, 7)
	same(t, "at first", w.process(answer...), []string{"retry"})
	l.pass(time.Minute)
	o := w.Process(t.Context(), answer)[0]
	if o.Kind != record.Rejected || o.Reason != record.ReasonGap || !strings.Contains(o.Detail, "entry 1") {
		t.Errorf("got %+v", o)
	}

	l = newLab(t)
	w = l.worker(logged(record.BySequence, record.GapFail))
	w.process(slices.Concat(l.answering(numbered("1"), 7), numbered("2"))...)
	l.pass(time.Minute)
	w.closeGaps()
	same(t, "dead letters", w.lettered(), []string{"p/0/1 gap", "p/0/2 gap"})
	same(t, "record", summary(l.group()), "v2 state= pending= p/0 next=1")
	same(t, "log", l.entries(), "")
}

func TestTheWaitForAParentBeginsWhenTheAnswerArrives(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.BySequence, record.GapSkip))
	w.process(numbered("q/0/1")...)
	l.pass(time.Hour)
	w.process(l.answering(numbered("1"), 5)...)
	l.pass(50 * time.Second)
	w.closeGaps()
	same(t, "after 50 s", l.entries(), "q/0/1")
	l.pass(10 * time.Second)
	w.closeGaps()
	same(t, "after 60 s", l.entries(), "q/0/1 p/0/1!")
}

func TestTheGapPolicyEndsTheWaitForParentsOnly(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.BySequence, record.GapSkip))
	w.process(depending(l.answering(numbered("1"), 5)[0], "q", 1)...)
	l.pass(time.Hour)
	w.closeGaps()
	same(t, "before its dependency", l.entries(), "")
	w.process(numbered("q/0/1")...)
	w.closeGaps()
	same(t, "after it", l.entries(), "q/0/1 p/0/1!")
}

func TestASweepRunsAnAnswerOfAnAnswerAfterIt(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.BySequence, record.GapSkip))
	w.process(slices.Concat(l.answering(numbered("a/0/1"), 2), l.answering(numbered("b/0/1"), 2), l.answering(numbered("c/0/1"), 1))...)
	l.pass(time.Minute)
	w.closeGaps()
	// a is the first entry, which c answers; b and c have what they answer then
	same(t, "log", l.entries(), "a/0/1! c/0/1 b/0/1")
}

func TestMessagesThatWaitForParentsCountInTheBounds(t *testing.T) {
	s := logged(record.BySequence, record.GapWait)
	s.Bounds = record.Bounds{Count: 2}
	l := newLab(t)
	w := l.worker(s)
	same(t, "fates", w.process(l.answering(numbered("1", "2", "3"), 9)...), []string{"held", "held", "retry"})
}

func TestParentsAreRefusedByAStreamWithoutALog(t *testing.T) {
	l := newLab(t)
	o := l.worker(byKey).Process(t.Context(), l.answering(keyed("a"), 1))[0]
	if o.Kind != record.Rejected || o.Reason != record.ReasonInvalid || !strings.Contains(o.Detail, "parents") {
		t.Errorf("got %+v", o)
	}
}

func TestAFailedReadOfAnAnswerEndsTheSweepWithAnError(t *testing.T) {
	for _, lost := range []bool{false, true} {
		l := newLab(t)
		w := l.worker(logged(record.BySequence, record.GapSkip))
		w.process(l.answering(numbered("1"), 9)...)
		l.pass(time.Hour)
		if lost {
			l.lose(1)
		} else {
			w.at = always("held", failsBefore)
		}
		if err := w.CloseGaps(t.Context(), groupG); err == nil {
			t.Errorf("lost: %v: no error", lost)
		}
		same(t, fmt.Sprintf("lost: %v: log", lost), l.entries(), "")
	}
}

func TestAnAnswerThatWaitsBlocksNoMessageOfALaterCommit(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.ByKey, record.GapWait))
	large := ": " + strings.Repeat(" ", 200<<10)
	batch := append(l.answering(keyed("answer"), 9), keyed("a"+large, "b"+large, "c"+large)...)
	same(t, "fates", w.process(batch...), []string{"retry", "processed", "processed", "processed"})
	same(t, "commits", l.group().Version, 2)
}

func TestAnAnswerWithoutATimeOfArrivalWaits(t *testing.T) {
	l := newLab(t)
	answer := keyed("answer")
	answer[0].Parents = []uint64{9}
	same(t, "fates", l.worker(logged(record.ByKey, record.GapSkip)).process(answer...), []string{"retry"})
}

func TestOnlyASweepEndsTheWaitForParents(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.BySequence, record.GapSkip))
	w.process(l.answering(numbered("1"), 9)...)
	l.pass(time.Hour)
	w.process(numbered("q/0/1")...)
	same(t, "before", l.entries(), "q/0/1")
	w.closeGaps()
	same(t, "after", l.entries(), "q/0/1 p/0/1!")
}

func TestAnAnswerThatWaitsOnDoesNotKeepAnotherSourceWaiting(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.BySequence, record.GapSkip))
	w.process(l.answering(numbered("q/0/1"), 9)...)
	l.pass(time.Hour)
	w.process(l.answering(numbered("1"), 9)...)
	w.closeGaps()
	same(t, "log", l.entries(), "q/0/1!")
}

func TestGapFailDeadLettersMoreAnswersThanOneCommitDeletes(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.BySequence, record.GapFail))
	var numbers []string
	for n := range record.MaxCommitItems + 5 {
		numbers = append(numbers, fmt.Sprint(n+1))
	}
	w.process(l.answering(numbered(numbers...), 1000)...)
	l.pass(time.Minute)
	w.closeGaps()
	same(t, "dead letters", len(w.lettered()), len(numbers))
}

func TestAnAnswerThatFailsAfterItsWaitIsNotReportedAsSkipped(t *testing.T) {
	l := newLab(t)
	w := l.worker(logged(record.BySequence, record.GapSkip))
	w.process(l.answering(numbered("1: fail"), 9)...)
	l.pass(time.Minute)
	l.events = nil
	w.closeGaps()
	same(t, "returned", len(l.returned), 1)
	if slices.ContainsFunc(l.events, func(e record.Event) bool { return e.Name == record.EventSkipped }) {
		t.Errorf("events %+v", l.events)
	}
}

// The first read of a plan is that of the messages that are next.
func TestASweepWhoseAnswerIsGoneSinceItWasReadEndsWithAnError(t *testing.T) {
	for _, left := range []bool{false, true} {
		l := newLab(t)
		w := l.worker(logged(record.BySequence, record.GapSkip))
		w.process(l.answering(numbered("1"), 9)...)
		if left {
			w.process(l.answering(numbered("2"), 9)...)
		}
		l.pass(time.Hour)
		w.at = nth(2, "held", func() fault { l.lose(1); return works })
		if err := w.CloseGaps(t.Context(), groupG); err == nil {
			t.Errorf("with another: %v: no error", left)
		}
		same(t, "log", l.entries(), "")
	}
}
