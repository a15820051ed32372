package dedup_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

var groupG = record.GroupKey{Stream: "s", Group: "g"}

func gapped(policy record.GapPolicy, events ...string) record.Stream {
	s := bySequence
	s.Gap, s.Events = record.Gap{Policy: policy, After: time.Minute}, events
	return s
}

// closeGaps calls CloseGaps for the group.
func (w *worker) closeGaps() {
	w.t.Helper()
	if err := w.CloseGaps(w.t.Context(), groupG); err != nil {
		w.t.Fatal(err)
	}
}

func TestAGapIsWaitedForByDefaultAndReported(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("1", "3")...)
	w.pass(100 * time.Hour)
	w.events = nil
	w.closeGaps()
	same(t, "record", summary(w.group()), "v1 state=p/0/1, pending= p/0 next=2 held=[{3 3}]")
	same(t, "events", w.events, []record.Event{{Name: record.EventGap, Stream: "s", Count: 1, Age: 100 * time.Hour}})
}

func TestAGapIsSkippedAfterItsTimeAndTheDestinationsAreNotified(t *testing.T) {
	l := newLab(t)
	stream := gapped(record.GapSkip, "side")
	w := l.worker(stream)
	w.process(numbered("1", "4", "5", "7: send")...)
	l.pass(time.Minute - 1)
	w.closeGaps()
	same(t, "too early", l.group().Version, 1)
	l.pass(1)
	w.calls()
	w.closeGaps()
	same(t, "calls", w.calls(), []string{
		"load g", "held g 0/4 x2", "run p/0/4", "run p/0/5", "trigger later g", "commit g v2 unhold 0/4 unhold 0/5", "trigger g",
	})
	same(t, "record", summary(l.group()), "v2 state=p/0/1,p/0/4,p/0/5, pending=[1 gap/p/0/2 1 effects] p/0 next=6 held=[{7 7}] skipped=[{2 3}]")
	l.publish(stream)
	same(t, "arrived", l.arrived("side"), []string{"s/g/1"})
	d := l.sent[0]
	var event admission.GapEvent
	if err := json.Unmarshal(d.Effect.Body, &event); err != nil {
		t.Fatal(err)
	}
	same(t, "event", event, admission.GapEvent{Source: "p", First: 2, Last: 3})
	same(t, "headers", d.Effect.Headers, map[string]string{"once-event": "gap"})

	// The next gap has its own time.
	w.closeGaps()
	same(t, "next gap", l.group().Sources["p"].Next, 6)
	l.pass(time.Minute)
	w.closeGaps()
	same(t, "skipped", l.group().Sources["p"].Skipped, record.Ranges{{First: 2, Last: 3}, {First: 6, Last: 6}})
}

func TestTheTimeOfAGapStartsWhenItsNumberIsNext(t *testing.T) {
	w := newLab(t).worker(gapped(record.GapSkip))
	w.process(numbered("2", "4")...)
	w.pass(50 * time.Second)
	w.process(numbered("1")...)
	w.pass(20 * time.Second)
	w.closeGaps()
	same(t, "after 20 s", w.group().Sources["p"].Next, 3)
	w.pass(40 * time.Second)
	w.closeGaps()
	same(t, "after 60 s", w.group().Sources["p"].Next, 5)
}

func TestAGapEventNamesTheSourceAsItsSenderDoes(t *testing.T) {
	l := newLab(t)
	w := l.worker(gapped(record.GapSkip, "side"))
	m := numbered("p/7/3")[0]
	m.Principal = "alice"
	w.process(m)
	l.pass(time.Minute)
	w.closeGaps()
	var event admission.GapEvent
	if err := json.Unmarshal(l.group().Pending[0].Effects[0].Body, &event); err != nil {
		t.Fatal(err)
	}
	same(t, "event", event, admission.GapEvent{Source: "p", Epoch: 7, First: 1, Last: 2})
}

func TestASkippedNumberIsRefusedAndNeverDroppedAsADuplicate(t *testing.T) {
	w := newLab(t).worker(gapped(record.GapSkip))
	w.process(numbered("3")...)
	w.pass(time.Minute)
	w.closeGaps()
	same(t, "fates", w.process(numbered("1", "2", "3", "4")...), []string{"rejected skipped", "rejected skipped", "duplicate", "processed"})
}

func TestGapFailDeadLettersMessagesAfterTheGap(t *testing.T) {
	w := newLab(t).worker(gapped(record.GapFail))
	w.process(numbered("1", "3", "5", "q/0/1")...)
	w.pass(time.Minute)
	w.closeGaps()
	same(t, "dead letters", w.lettered(), []string{"p/0/3 gap", "p/0/5 gap"})
	same(t, "record", summary(w.group()), "v2 state=p/0/1,q/0/1, pending= p/0 next=2 q/0 next=2")
	same(t, "in order again", w.process(numbered("2", "3")...), []string{"processed", "processed"})
}

func TestManyMessagesAfterAGapAreDeadLetteredInSeveralCommits(t *testing.T) {
	w := newLab(t).worker(gapped(record.GapFail))
	var behind []record.Message
	for n := uint64(2); n < 152; n++ {
		behind = append(behind, record.Message{Stream: "s", Group: "g", Source: "p", Sequence: n}, record.Message{Stream: "s", Group: "g", Source: "q", Sequence: n})
	}
	w.process(behind...)
	w.pass(time.Minute)
	w.closeGaps()
	same(t, "dead letters", len(w.lettered()), 300)
	g := w.group()
	same(t, "held", g.HasHeld(), false)
}

func TestAGapStaysWhileTheDeadLetterQueueFails(t *testing.T) {
	for _, f := range []fault{failsBefore, failsAfter} {
		w := newLab(t).worker(gapped(record.GapFail))
		w.process(numbered("2")...)
		w.pass(time.Minute)
		w.at = always("dead", f)
		if err := w.CloseGaps(t.Context(), groupG); err == nil {
			t.Error("no error")
		}
		same(t, "record", summary(w.group()), "v1 state= pending= p/0 next=1 held=[{2 2}]")
	}
}

func TestAMessageThatRacesWithTheSkipOfItsNumberIsEitherRunOrRefused(t *testing.T) {
	l := newLab(t)
	l.worker(gapped(record.GapSkip)).process(numbered("2")...)
	l.pass(time.Minute)
	w := l.worker(gapped(record.GapSkip))
	w.at = between("commit", func() { l.worker(gapped(record.GapSkip)).process(numbered("1")...) })
	w.closeGaps()
	same(t, "record", summary(l.group()), "v2 state=p/0/1,p/0/2, pending= p/0 next=3")
}

func TestASkipThatIsNotCommittedIsNotObserved(t *testing.T) {
	l := newLab(t)
	l.worker(gapped(record.GapSkip)).process(numbered("2")...)
	l.pass(time.Minute)
	l.events = nil
	w := l.worker(gapped(record.GapSkip))
	w.at = once("commit", failsBefore)
	w.closeGaps()
	l.events = slices.DeleteFunc(l.events, func(e record.Event) bool { return e.Name == record.EventGap })
	same(t, "events", l.events, []record.Event{{Name: record.EventSkipped, Stream: "s", Count: 1}, {Name: record.EventProcessed, Stream: "s", Count: 1}})
}

func TestASweepLeavesALiveGroupAlone(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("1: send")...)
	w.calls()
	w.closeGaps()
	same(t, "calls of CloseGaps", w.calls(), []string{"load g"})
	if err := w.Sweep(t.Context(), groupG); err != nil {
		t.Fatal(err)
	}
	same(t, "calls of Sweep", w.calls(), []string{"load g", "load g", "trigger g"})
	if err := w.Sweep(t.Context(), record.GroupKey{Stream: "s", Group: "none"}); err != nil {
		t.Fatal(err)
	}
	same(t, "of no group", w.calls(), []string{"load none", "load none"})
}

func TestASweepTriggersBeforeItsCommit(t *testing.T) {
	for _, body := range []string{": send", ": reply"} {
		l := newLab(t)
		l.worker(gapped(record.GapSkip)).process(numbered("2" + body)...)
		l.pass(time.Minute)
		dead := l.worker(gapped(record.GapSkip))
		dead.at = dies("commit", failsAfter)
		if err := dead.CloseGaps(t.Context(), groupG); err == nil {
			t.Error("no error")
		}
		l.publish(gapped(record.GapSkip))
		same(t, "pending", len(l.group().Pending), 0)
	}
}

func TestASweepFinishesEntriesWithoutEffects(t *testing.T) {
	l := newLab(t)
	dead := l.worker(byKey)
	dead.at = dies("mark", failsBefore)
	dead.process(keyed("a: reply", "b: send")...)
	w := l.worker(byKey)
	if err := w.Sweep(t.Context(), groupG); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", w.calls(), []string{"load g", "mark 1", "clear g 1", "load g", "trigger g"})
	same(t, "token", l.token(keyed("a: reply")[0]).State, record.Done)
}

func TestAFailedSweepReturnsAnError(t *testing.T) {
	for _, call := range []string{"load", "mark", "clear"} {
		l := newLab(t)
		l.worker(byKey).process(keyed("a")...)
		w := l.worker(byKey)
		w.at = always(call, failsBefore)
		if err := w.Sweep(t.Context(), groupG); err == nil {
			t.Errorf("%s: no error", call)
		}
	}
	w := newLab(t).worker(byKey)
	none := record.GroupKey{Stream: "none", Group: "g"}
	if w.Sweep(t.Context(), none) == nil || w.CloseGaps(t.Context(), none) == nil {
		t.Error("no error for an unknown stream")
	}
}

func TestTheNextNumberIsHeldWithAnyNumberOfRanges(t *testing.T) {
	s := gapped(record.GapSkip)
	s.Limits = record.Limits{Ranges: 2}
	l := newLab(t)
	w := l.worker(s)
	first := depending(numbered("1")[0], "q", 1)
	same(t, "fates", w.process(slices.Concat(numbered("3", "5"), first)...), []string{"held", "held", "held"})
	same(t, "one that is not next", w.process(numbered("7")...), []string{"retry"})
	l.pass(time.Hour)
	w.closeGaps()
	same(t, "next", l.group().Sources["p"].Next, 1)
	w.process(numbered("q/0/1")...)
	same(t, "next in the end", l.group().Sources["p"].Next, 2)
}

func TestAGapThatCanNotBeClosedIsAnError(t *testing.T) {
	l := newLab(t)
	s := gapped(record.GapFail)
	l.worker(s).process(numbered("2")...)
	l.pass(time.Hour)
	w := l.worker(s)
	w.at = always("held", failsBefore)
	if err := w.CloseGaps(t.Context(), groupG); !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
	same(t, "dead letters", len(l.lettered()), 0)
}
