package embedded

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

// A scripted store answers commits with a function of the test.
type scripted struct {
	record.Store
	commit func() error
}

func (s scripted) Commit(context.Context, record.Commit) error { return s.commit() }

func (s scripted) Clear(context.Context, record.Clear) error { return nil }

func version(n uint64, held bool) record.Group {
	g := record.Group{Key: record.GroupKey{Stream: "s", Group: "g"}, Incarnation: 1, Version: n}
	if held {
		g.Sources = map[string]record.Source{"a": {Next: 1, Held: record.Ranges{{First: 2, Last: 2}}}}
	}
	return g
}

func TestALateAnswerDoesNotHideTheEntriesOfANewerCommit(t *testing.T) {
	w := newWatch(nil, time.Now)
	// a newer commit overtakes the answer of the older one
	w.Store = scripted{commit: func() error {
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

func TestAnIdleGroupIsForgotten(t *testing.T) {
	w := newWatch(nil, time.Now)
	held, done := version(3, true), version(4, false)
	w.note(&held, time.Now())
	w.note(&done, time.Now())
	if len(w.active) != 0 {
		t.Errorf("still there: %+v", w.active)
	}
}

// pending returns a group with entries that have effects.
func pending(n uint64, numbers ...uint64) record.Group {
	g := version(n, false)
	for _, number := range numbers {
		g.Pending = append(g.Pending, record.Pending{Number: number, Effects: []record.Effect{{}}})
	}
	return g
}

func clearing(numbers ...uint64) record.Clear {
	g := version(0, false)
	return record.Clear{Group: g.Key, Incarnation: g.Incarnation, Numbers: numbers}
}

// cleared clears an entry, and reports whether the watch still has the group.
func cleared(t *testing.T, w *watch, c record.Clear) bool {
	t.Helper()
	if err := w.Clear(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return len(w.active) > 0
}

func TestAGroupIsForgottenWithTheLastOfItsEntriesInAnyOrder(t *testing.T) {
	now := time.Now()
	w := newWatch(scripted{commit: func() error { return nil }}, func() time.Time { return now })
	for _, c := range []record.Commit{{Next: pending(1, 1)}, {Loaded: pending(1, 1), Next: pending(2, 1, 2)}, {Loaded: pending(2, 1, 2), Next: pending(3, 1, 2, 5)}} {
		if err := w.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if !cleared(t, w, clearing(5)) || !cleared(t, w, clearing(2)) {
		t.Error("the first entry is forgotten with a later one")
	}
	now = now.Add(lostAfter)
	if len(w.due(lostAfter)) != 1 {
		t.Error("no sweep is due")
	}
	if cleared(t, w, clearing(1)) {
		t.Errorf("still there: %+v", w.active)
	}
}

func TestAnEntryClearedDuringACommitIsNotExpected(t *testing.T) {
	var w *watch
	w = newWatch(scripted{commit: func() error { return w.Clear(t.Context(), clearing(1)) }}, time.Now)
	before := pending(1, 1)
	w.note(&before, time.Now())
	if err := w.Commit(t.Context(), record.Commit{Loaded: before, Next: pending(2, 1, 2)}); err != nil {
		t.Fatal(err)
	}
	if cleared(t, w, clearing(2)) {
		t.Errorf("still there: %+v", w.active)
	}
}

func TestAClearOfAnOlderIncarnationHidesNothing(t *testing.T) {
	w := newWatch(scripted{}, time.Now)
	anew := pending(1, 1)
	anew.Incarnation = 2
	w.note(&anew, time.Now())
	if !cleared(t, w, clearing(1)) {
		t.Error("the entry of the newer one is forgotten")
	}
}

func TestACommitWhoseAnswerIsLateLeavesNothingOut(t *testing.T) {
	for _, effects := range []bool{true, false} {
		first, second := record.Commit{Next: pending(1, 1)}, record.Commit{Loaded: pending(1, 1), Next: pending(2, 1, 2)}
		if !effects {
			first.Next.Pending[0].Effects, second.Loaded.Pending[0].Effects, second.Next.Pending[0].Effects = nil, nil, nil
		}
		var w *watch
		overtaken := false
		w = newWatch(scripted{commit: func() error {
			if overtaken {
				return nil
			}
			overtaken = true
			return w.Commit(t.Context(), second)
		}}, time.Now)
		if err := w.Commit(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if !cleared(t, w, clearing(2)) {
			t.Error("the first entry is forgotten with the second")
		}
	}
}

// An overtaken store calls a function after a commit, before it answers.
type overtaken struct {
	record.Store
	after func()
}

func (o overtaken) Commit(ctx context.Context, c record.Commit) error {
	err := o.Store.Commit(ctx, c)
	o.after()
	return err
}

// After each race the watch expects an entry that does not exist any more.
func TestAGroupWithoutPendingEntriesIsDueAtMostOnce(t *testing.T) {
	for name, race := range map[string]func(t *testing.T, w *watch, commit record.Commit, clearAll func()){
		"a commit that lost against one whose entry is cleared": func(t *testing.T, w *watch, commit record.Commit, clearAll func()) {
			if err := w.Commit(t.Context(), commit); err != nil {
				t.Fatal(err)
			}
			clearAll()
			if err := w.Commit(t.Context(), commit); !errors.Is(err, record.ErrConflict) {
				t.Fatal(err)
			}
		},
		"a clear before the answer of the commit that made the group": func(t *testing.T, w *watch, commit record.Commit, clearAll func()) {
			w.Store = overtaken{Store: w.Store, after: clearAll}
			if err := w.Commit(t.Context(), commit); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			s := started(t, Options{Now: func() time.Time { return now }})
			next := pending(1, 1)
			next.Key = record.GroupKey{Stream: "messages", Group: "g"}
			next.Expires = now.Add(24 * time.Hour)
			race(t, s.watch, record.Commit{Loaded: record.Group{Key: next.Key}, Next: next}, func() {
				if err := s.watch.Clear(t.Context(), record.Clear{Group: next.Key, Incarnation: next.Incarnation, Numbers: []uint64{1}}); err != nil {
					t.Error(err)
				}
			})
			if len(s.watch.active) != 1 {
				t.Fatalf("the watch expects nothing: %+v", s.watch.active)
			}
			now = now.Add(lostAfter)
			s.sweep(t.Context())
			if len(s.watch.active) != 0 {
				t.Errorf("still there after a sweep: %+v", s.watch.active)
			}
		})
	}
}

// A swapping store counts the writes of token swaps.
type swapping struct {
	record.Store
	single, together int
}

func (s *swapping) SwapToken(context.Context, record.Token, record.Token) (record.Token, error) {
	s.single++
	return record.Token{}, nil
}

func (s *swapping) SwapTokens(_ context.Context, swaps []record.Swap) []record.Swapped {
	s.together++
	return make([]record.Swapped, len(swaps))
}

func TestTheEngineOfASystemSwapsManyTokensWithOneWrite(t *testing.T) {
	for name, wrapped := range map[string]func(record.Store) record.Store{
		"watch":        func(s record.Store) record.Store { return newWatch(s, time.Now) },
		"crash points": crashing,
	} {
		t.Run(name, func(t *testing.T) {
			s := &swapping{}
			record.SwapTokens(t.Context(), wrapped(s), make([]record.Swap, 3))
			if s.single != 0 || s.together != 1 {
				t.Errorf("%d single swaps and %d of many, want one of many", s.single, s.together)
			}
		})
	}
}
