package dedup_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// lose deletes held messages from the store but not from their group's record, as damage would.
func (l *lab) lose(numbers ...uint64) {
	l.t.Helper()
	loaded := l.group()
	next := loaded.Clone()
	next.Version++
	c := record.Commit{Loaded: loaded, Next: next}
	for _, n := range numbers {
		c.Unhold = append(c.Unhold, record.HeldKey{Group: groupG, Source: "p", Sequence: n})
	}
	if err := l.store.Commit(l.t.Context(), c); err != nil {
		l.t.Fatal(err)
	}
}

func TestAMissingHeldMessageIsNeitherSkippedNorReplaced(t *testing.T) {
	for _, lost := range []uint64{2, 3} {
		l := newLab(t)
		w := l.worker(bySequence)
		w.process(numbered("2", "3", "4")...)
		l.lose(lost)
		same(t, "what it waits for", w.process(numbered("1")...), []string{"retry"})
		same(t, "state", string(l.group().State), "")
		same(t, "a copy of it", w.process(numbered([]string{2: "2", 3: "3"}[lost])...), []string{"retry"})
	}
}

func TestCopiesInTheBatchThatHoldsThemAreHeld(t *testing.T) {
	w := newLab(t).worker(bySequence)
	same(t, "fates", w.process(numbered("2: send", "3", "3")...), []string{"held", "held", "held"})
	batch := numbered("q/0/2: send", "q/0/2", "q/0/2")
	batch[0].Principal = "alice"
	same(t, "of two principals", w.process(batch...), []string{"held", "held", "held"})
}

func TestAMessageWithoutRoomBlocksLaterOnes(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	same(t, "fates", w.process(keyed("a: kb=200 send", "b: kb=100 send", "c: send")...), []string{"processed", "processed", "processed"})
	same(t, "state", string(l.group().State), "a,b,c,")
}

func TestAHeldMessageWithoutRoomIsNotReturned(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("2: kb=100 send")...)
	w := l.worker(bySequence)
	same(t, "fates", w.process(numbered("1: kb=200 send", "2: kb=100 send")...), []string{"processed", "processed"})
	same(t, "returned", len(l.returned), 0)
}

func TestAnEntryLargerThanMaxPendingIsCommittedAlone(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a: kb=150 send send")...), []string{"processed"})
}

func TestTheTimeOfAGapStartsWithTheFirstMessageAfterIt(t *testing.T) {
	stream := gapped(record.GapSkip)
	// of an unknown source, and of one that was idle
	for _, before := range []string{"q/0/1", "1"} {
		l := newLab(t)
		w := l.worker(stream)
		w.process(numbered(before)...)
		next := l.group().Sources["p"].Next
		l.pass(time.Hour)
		w.process(numbered("3")...)
		l.pass(50 * time.Second)
		w.process(numbered("5")...)
		w.closeGaps()
		same(t, "after 50 s", l.group().Sources["p"].Next, max(1, next))
		l.pass(10 * time.Second)
		w.closeGaps()
		same(t, "after 60 s", l.group().Sources["p"].Next, 4)
	}
}

func TestAMessageThatWaitsForADependencyIsAfterNoGap(t *testing.T) {
	for _, policy := range []record.GapPolicy{record.GapSkip, record.GapFail} {
		l := newLab(t)
		w := l.worker(gapped(policy))
		w.process(depending(numbered("1")[0], "q", 1)...)
		before := summary(l.group())
		l.events = nil
		l.pass(time.Hour)
		w.closeGaps()
		same(t, "record", summary(l.group()), before)
		same(t, "events", l.events, nil)
	}
}

func TestAMessageThatFailsWhenItIsNextIsAfterNoGap(t *testing.T) {
	for name, c := range map[string]struct {
		held []record.Message
		turn func(*worker)
		next uint64
	}{
		"after what it depends on": {
			slices.Concat(depending(numbered("q/0/1: flaky")[0], "p", 1), numbered("q/0/2")), func(w *worker) { w.process(numbered("1")...) }, 1,
		},
		"after a gap": {numbered("q/0/2: flaky", "q/0/3"), (*worker).closeGaps, 2},
	} {
		for _, policy := range []record.GapPolicy{record.GapSkip, record.GapFail} {
			if name == "after a gap" && policy == record.GapFail {
				continue // no message runs after it
			}
			l := newLab(t)
			w := l.worker(gapped(policy))
			w.process(c.held...)
			l.pass(time.Hour)
			c.turn(w)
			same(t, name+": returned", len(l.returned), 1)
			w.closeGaps()
			same(t, name+": next", w.group().Sources["q"].Next, c.next)
			same(t, name+": dead letters", w.lettered(), nil)
			same(t, name+": it comes again", w.process(l.returned...), []string{"processed"})
		}
	}
}

func TestTheNextNumberIsHeldBeyondTheBoundsIfItWaitsForADependency(t *testing.T) {
	stream := gapped(record.GapSkip)
	stream.Bounds = record.Bounds{Count: 1}
	l := newLab(t)
	w := l.worker(stream)
	same(t, "fates", w.process(slices.Concat(numbered("2"), depending(numbered("1")[0], "q", 1))...), []string{"held", "held"})
	l.pass(time.Hour)
	w.closeGaps()
	same(t, "fates", w.process(numbered("q/0/1")...), []string{"processed"})
	same(t, "next", w.group().Sources["p"].Next, uint64(3))
}

func TestANewEpochIsNotForgottenForAnotherSource(t *testing.T) {
	stream := bySequence
	stream.Limits = record.Limits{Sources: 1}
	w := newLab(t).worker(stream)
	w.process(numbered("p/0/2")...)
	same(t, "a newer epoch", w.process(numbered("p/1/1: reject")...), []string{"rejected rejected"})
	same(t, "one source more", w.process(numbered("q/0/1")...), []string{"rejected limit"})
	same(t, "the older epoch", w.process(numbered("p/0/1")...), []string{"rejected stale-epoch"})
}

func TestASourceWhoseHeldMessagesJustRanIsNotForgottenForAnother(t *testing.T) {
	stream := gapped(record.GapFail)
	stream.Limits = record.Limits{Sources: 2}
	w := newLab(t).worker(stream)
	w.process(numbered("1", "3", "r/0/1")...)
	w.pass(31 * 24 * time.Hour)
	w.process(numbered("r/0/2")...)
	w.closeGaps()
	same(t, "dead letters", w.lettered(), []string{"p/0/3 gap"})
	same(t, "one source more", w.process(numbered("q/0/1")...), []string{"rejected limit"})
}

func TestAMessageTooFarAheadBlocksNoOther(t *testing.T) {
	w := newLab(t).worker(bySequence)
	texts := []record.Message{numbered("2")[0], numbered("50000")[0]}
	for n := range uint64(record.MaxCommitItems) {
		m := numbered("3")[0]
		m.Sequence += n
		texts = append(texts, m)
	}
	fates := w.process(texts...)
	same(t, "too far", fates[1], "retry")
	same(t, "the others", slices.Compact(slices.Delete(fates, 1, 2)), []string{"held"})
}

// full has no room, even after publishing.
type full struct{ portStore }

func (full) Commit(context.Context, record.Commit) error { return record.ErrFull }

func TestAGroupIsGivenUpIfPublishingMakesNoRoom(t *testing.T) {
	l := newLab(t)
	var s full
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: &s})
	s.w = w
	same(t, "fates", w.process(keyed("a: send")...), []string{"retry"})
}

func TestACopyIsNotHeldByTheCommitThatReturnsTheHeldMessage(t *testing.T) {
	for _, body := range []string{": reject", ": fail"} {
		l := newLab(t)
		l.worker(bySequence).process(numbered("2" + body)...)
		w := l.worker(bySequence)
		batch := slices.Concat(depending(numbered("2" + body)[0], "q", 5), numbered("1"))
		same(t, "fates", w.process(batch...), []string{"held", "processed"})
		same(t, "record", summary(w.group()), "v3 state=p/0/1, pending= p/0 next=2 held=[{2 2}]")
		same(t, "the group goes on", w.process(numbered("r/0/1")...), []string{"processed"})
	}
}
