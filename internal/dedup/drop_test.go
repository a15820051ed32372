package dedup_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

var droppedKey = record.GroupKey{Stream: "s", Group: "g"}

// appended returns a lab whose group g has one entry, and the incarnation of the group.
func appended(t *testing.T) (*lab, uint64) {
	t.Helper()
	l := newLab(t)
	same(t, "fates", l.worker(logging(byKey)).process(keyed("a: x")...), []string{"processed"})
	l.pass(time.Millisecond)
	return l, l.group().Incarnation
}

func TestADroppedGroupBeginsAnotherIncarnation(t *testing.T) {
	l, first := appended(t)
	w := l.worker(logging(byKey))
	if err := w.DropGroup(t.Context(), droppedKey); err != nil {
		t.Fatal(err)
	}
	same(t, "version", l.group().Version, 0)
	same(t, "fates", w.process(keyed("b: x")...), []string{"processed"})
	g := l.group()
	same(t, "state", string(g.State), "b,")
	same(t, "entries", g.Log.Last, 1)
	if g.Incarnation <= first {
		t.Errorf("incarnation %d follows %d", g.Incarnation, first)
	}
}

// dropCalls is more than a drop makes.
const dropCalls = 20

// A message is processed before each call of a drop, once. It is in the incarnation that the drop
// found, and dropped with it.
func TestAMessageBeforeTheCommitOfADropIsDropped(t *testing.T) {
	for n := range dropCalls {
		l, _ := appended(t)
		w, did := l.worker(logging(byKey)), false
		w.at = nth(n+1, "", func() fault {
			did = true
			same(t, "fates", l.worker(logging(byKey)).process(keyed("b: x")...), []string{"processed"})
			return works
		})
		if err := w.DropGroup(t.Context(), droppedKey); err != nil {
			t.Fatal(err)
		}
		same(t, "version", l.group().Version, 0)
		if !did {
			return
		}
	}
	t.Error("a drop makes more calls")
}

// The commit of a drop finds that the group is dropped already, and that a message was processed in
// the next incarnation. So it is too if a client of the store has lost the answer to the commit.
func TestADropWhoseCommitConflictsLeavesTheNextIncarnation(t *testing.T) {
	l, first := appended(t)
	w := l.worker(logging(byKey))
	w.at = between("commit", func() {
		other := l.worker(logging(byKey))
		if err := other.DropGroup(t.Context(), droppedKey); err != nil {
			t.Error(err)
		}
		same(t, "fates", other.process(keyed("b: x")...), []string{"processed"})
		l.pass(time.Millisecond)
	})
	if err := w.DropGroup(t.Context(), droppedKey); err != nil {
		t.Fatal(err)
	}
	g := l.group()
	same(t, "state", string(g.State), "b,")
	same(t, "entries", g.Log.Last, 1)
	if g.Incarnation <= first {
		t.Errorf("incarnation %d follows %d", g.Incarnation, first)
	}
}

// A commit to the old incarnation that is applied late must not change the next one, even if the
// next one has the same version.
func TestALateCommitToADroppedIncarnationChangesNothing(t *testing.T) {
	l, _ := appended(t)
	w := l.worker(logging(byKey))
	w.at = between("commit", func() {
		other := l.worker(logging(byKey))
		if err := other.DropGroup(t.Context(), droppedKey); err != nil {
			t.Error(err)
		}
		same(t, "fates", other.process(keyed("b: x")...), []string{"processed"})
	})
	same(t, "fates", w.process(keyed("c: x")...), []string{"processed"})
	g := l.group()
	same(t, "state", string(g.State), "b,c,")
	same(t, "entries", g.Log.Last, 2)
}

// The store fails, or its answer is lost, at each call of a drop.
func TestADropIsDoneIfItSaysSoAndCanBeRepeatedIfNot(t *testing.T) {
	for _, f := range []fault{failsBefore, failsAfter} {
		reached := true
		for n := 1; reached && n <= dropCalls; n++ {
			l, first := appended(t)
			w := l.worker(logging(byKey))
			reached = false
			w.at = nth(n, "", func() fault { reached = true; return f })
			if err := w.DropGroup(t.Context(), droppedKey); err == nil {
				same(t, fmt.Sprint("version after call ", n), l.group().Version, 0)
			} else if err := w.DropGroup(t.Context(), droppedKey); err != nil {
				t.Fatal(err)
			}
			same(t, "version", l.group().Version, 0)
			same(t, "fates", w.process(keyed("b: x")...), []string{"processed"})
			g := l.group()
			same(t, "state", string(g.State), "b,")
			if g.Incarnation <= first {
				t.Errorf("incarnation %d follows %d", g.Incarnation, first)
			}
		}
		if reached {
			t.Error("a drop makes more calls")
		}
	}
}

func TestADropPublishesPendingEffectsFirst(t *testing.T) {
	l := newLab(t)
	w := l.worker(logging(byKey))
	w.at = nth(1, "send", func() fault { return failsBefore })
	w.process(keyed("a: send")...)
	w.at = nil
	same(t, "arrived", l.arrived("out"), []string{})
	l.pass(time.Millisecond)
	if err := w.DropGroup(t.Context(), droppedKey); err != nil {
		t.Fatal(err)
	}
	same(t, "version", l.group().Version, 0)
	same(t, "arrived", len(l.arrived("out")), 1)
}

func TestAGroupWithHeldMessagesIsNotDropped(t *testing.T) {
	w := newLab(t).worker(logging(bySequence))
	same(t, "fates", w.process(numbered("2: x")...), []string{"held"})
	w.pass(time.Millisecond)
	if err := w.DropGroup(t.Context(), droppedKey); err == nil {
		t.Error("the group is dropped")
	}
	g := w.group()
	same(t, "held", g.HasHeld(), true)
}
