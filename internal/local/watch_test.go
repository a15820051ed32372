package local

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

// A scripted store answers commits as a test says.
type scripted struct {
	record.Store
	commit func() error
}

func (s scripted) Commit(context.Context, record.Commit) error { return s.commit() }

func version(n uint64, held bool) record.Group {
	g := record.Group{Key: record.GroupKey{Stream: "s", Group: "g"}, Incarnation: 1, Version: n}
	if held {
		g.Sources = map[string]record.Source{"a": {Next: 1, Held: record.Ranges{{First: 2, Last: 2}}}}
	}
	return g
}

func TestALateAnswerDoesNotHideWhatANewerCommitHolds(t *testing.T) {
	w := newWatch(nil, time.Now)
	w.Store = scripted{commit: func() error { // a newer commit overtakes the answer of the older one
		newer := version(3, true)
		w.note(&newer, time.Now())
		return nil
	}}
	if err := w.Commit(t.Context(), record.Commit{Next: version(2, false)}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]record.GroupKey{{Stream: "s", Group: "g"}}, w.held()); d != "" {
		t.Error(d)
	}
}

func TestACommitThatFailsHidesNothing(t *testing.T) {
	w := newWatch(nil, time.Now)
	held := version(3, true)
	w.note(&held, time.Now())
	w.Store = scripted{commit: func() error { return record.ErrConflict }}
	pending := version(3, false)
	pending.Pending = []record.Pending{{Number: 1, Effects: []record.Effect{{}}}}
	if err := w.Commit(t.Context(), record.Commit{Next: pending}); !errors.Is(err, record.ErrConflict) {
		t.Fatal(err)
	}
	if len(w.held()) != 1 {
		t.Error("the held messages are forgotten")
	}
}

func TestAGroupWithNothingUnderWayIsForgotten(t *testing.T) {
	w := newWatch(nil, time.Now)
	held, done := version(3, true), version(4, false)
	w.note(&held, time.Now())
	w.note(&done, time.Now())
	if len(w.active) != 0 {
		t.Errorf("still there: %+v", w.active)
	}
}
