package dedup_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

// ending returns the messages with the last one ending the log.
func ending(messages ...record.Message) []record.Message {
	messages[len(messages)-1].End = true
	return messages
}

func TestNoMessageBehindTheEndOfALogIsProcessed(t *testing.T) {
	for name, s := range map[string]record.Stream{"with tokens": byKey, "numbered": bySequence} {
		t.Run(name, func(t *testing.T) {
			messages := keyed("a: x", "z: x", "b: x", "c: x")
			if s.Admission == record.BySequence {
				messages = numbered("1: x", "2: x", "3: x", "q/0/1: x")
			}
			messages[1].End = true
			w := newLab(t).worker(logging(s))
			same(t, "fates", w.process(messages...), []string{"processed", "processed", "rejected ended", "rejected ended"})
			g := w.group()
			same(t, "entries", g.Log.Last, 3)
			same(t, "ended", g.Log.Ended, true)
			same(t, "fates of copies", w.process(messages...), []string{"duplicate", "duplicate", "rejected ended", "rejected ended"})
			same(t, "entries after copies", w.group().Log.Last, 3)
			same(t, "dead letters", w.lettered(), []string{})
		})
	}
}

func TestAnEndWithoutABodyAppendsTheEndOnlyAndRunsNoHandler(t *testing.T) {
	w := newLab(t).worker(logging(byKey))
	same(t, "fates", w.process(ending(keyed("z")...)...), []string{"processed"})
	g := w.group()
	same(t, "entries", g.Log.Last, 1)
	same(t, "state", string(g.State), "")
}

func TestAMessageBehindTheEndDoesNotWaitForItsParents(t *testing.T) {
	w := newLab(t).worker(logging(byKey))
	w.process(ending(keyed("z")...)...)
	answer := keyed("a: x")
	answer[0].Parents = []uint64{2}
	same(t, "fates", w.process(answer...), []string{"rejected ended"})
}

func TestTheEndOfALogNeedsALog(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fates", w.process(ending(keyed("z")...)...), []string{"rejected invalid"})
}

func TestAMessageThatEndsTheLogIsNotItsCopyWithoutTheEnd(t *testing.T) {
	w := newLab(t).worker(logging(byKey))
	same(t, "fates", w.process(ending(keyed("a: x", "z: x")...)...), []string{"processed", "processed"})
	same(t, "fates", w.process(keyed("z: x")...), []string{"rejected key-reuse"})
}

func TestHeldMessagesBehindTheEndOfALogAreDeadLetters(t *testing.T) {
	for name, end := range map[string]string{"of their source": "1: x", "of another source": "q/0/1: x"} {
		t.Run(name, func(t *testing.T) {
			w := newLab(t).worker(logging(bySequence))
			same(t, "fates", w.process(numbered("2: x", "4: x", "r/0/9: x")...), []string{"held", "held", "held"})
			same(t, "fates", w.process(ending(numbered(end)...)...), []string{"processed"})
			same(t, "dead letters", w.lettered(), []string{"p/0/2 ended", "p/0/4 ended", "r/0/9 ended"})
			g := w.group()
			same(t, "held", g.HasHeld(), false)
			same(t, "entries", g.Log.Last, 2)
		})
	}
}

func TestAHeldEndEndsTheLogInItsPlace(t *testing.T) {
	w := newLab(t).worker(logging(bySequence))
	w.process(ending(numbered("2: x")...)...)
	w.process(numbered("3: x")...)
	same(t, "fates", w.process(numbered("1: x")...), []string{"processed"})
	same(t, "entries", w.group().Log.Last, 3)
	same(t, "dead letters", w.lettered(), []string{"p/0/3 ended"})
}

// endLog ends the log as another worker, which dies after its commit.
func (l *lab) endLog() {
	l.t.Helper()
	g := l.group()
	next := g.Clone()
	next.Log.Ended, next.Log.Last, next.Version = true, 1, g.Version+1
	if err := l.store.Commit(l.t.Context(), record.Commit{Loaded: g, Next: next, Attempt: "other"}); err != nil {
		l.t.Fatal(err)
	}
}

// The worker dies after the commit that ends the log: the sweep finds the messages that are held.
func TestASweepFindsHeldMessagesBehindTheEnd(t *testing.T) {
	l := newLab(t)
	w := l.worker(logging(gapped(record.GapSkip)))
	w.process(numbered("2: x")...)
	l.endLog()
	w.pass(1 << 40)
	w.closeGaps()
	same(t, "dead letters", w.lettered(), []string{"p/0/2 ended"})
	same(t, "entries", w.group().Log.Last, 1)
}

func TestNoMessageBehindTheEndOfALogIsHeld(t *testing.T) {
	w := newLab(t).worker(logging(bySequence))
	w.process(ending(numbered("1: x", "2: x", "3: x")...)...)
	// p/1/2 is of a later epoch; its number is lower than the next one of the epoch before.
	for _, behind := range []string{"5: x", "p/1/2: x", "q/0/2: x"} {
		same(t, behind, w.process(numbered(behind)...), []string{"rejected ended"})
	}
	g := w.group()
	same(t, "held", g.HasHeld(), false)
}

// One commit can't delete all of them.
func TestAllHeldMessagesBehindTheEndOfALogAreDeadLettersAndInNoGap(t *testing.T) {
	l := newLab(t)
	w := l.worker(logging(gapped(record.GapSkip)))
	var behind []string
	for n := range record.MaxCommitItems + 5 {
		behind = append(behind, fmt.Sprintf("p/0/%d: x", n+3))
	}
	w.process(numbered(behind...)...)
	w.process(numbered("q/0/2: x")...)
	w.endLog()
	l.pass(1 << 40)
	l.events = nil
	w.closeGaps()
	same(t, "dead letters", len(l.lettered()), len(behind)+1)
	g := l.group()
	same(t, "held", g.HasHeld(), false)
	same(t, "entries", g.Log.Last, 1)
	if slices.ContainsFunc(l.events, func(e record.Event) bool { return e.Name == record.EventGap }) {
		t.Errorf("a gap is reported: %+v", l.events)
	}
}
