package oncetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

type base struct{ Name string }

type part struct {
	base
	Cents int `json:"cents"`
}

// before is the older type of a state, after the newer one.
type before struct {
	N     int
	Part  part
	Other *part
	Parts map[string]part
	List  []int
}

type newer struct {
	part
	More string
}

type after struct {
	N     int
	Extra string
	Part  newer
	Other *newer
	Parts map[string]newer
	List  []int
}

// version runs another version of a program, whose handler makes one change, and returns the state.
func version[S any](t *testing.T, sys *oncetest.System, id string, change func(*S)) (*oncetest.System, any) {
	t.Helper()
	next := sys.Restart()
	once.Handle(next.System, "s", func(_ context.Context, a *once.Attempt[S], _ once.Message) error {
		change(&a.State)
		return nil
	})
	if o := next.Call(t.Context(), once.Message{Stream: "s", Group: "g", ID: id}); o.Kind != once.Processed {
		t.Fatalf("version %s: %+v", id, o)
	}
	state, err := oncetest.State[any](t.Context(), next, "s", "g")
	if err != nil {
		t.Fatal(err)
	}
	return next, state
}

func TestAFieldThatAVersionDoesNotKnowSurvivesItsCommit(t *testing.T) {
	full := func(s *after) {
		*s = after{
			N: 1, Extra: "top", Part: newer{part{base{"a"}, 1}, "nested"}, Other: &newer{part{}, "pointer"},
			Parts: map[string]newer{"x": {part{}, "x"}, "y": {part{}, "y"}}, List: []int{1},
		}
	}
	sys, _ := version(t, oncetest.New(), "1", full)
	sys, _ = version(t, sys, "2", func(s *before) {
		s.N, s.Part.Cents, s.List = 2, 7, append(s.List, 2)
		s.Other = nil // with all that is in it
		delete(s.Parts, "y")
	})
	sys, _ = version(t, sys, "3", func(s *before) { s.N++ })
	_, _ = version(t, sys, "4", func(s *after) {
		want := after{N: 3, Extra: "top", Part: newer{part{base{}, 7}, "nested"}, Parts: map[string]newer{"x": {part{}, "x"}}, List: []int{1, 2}}
		want.Part.Name = "a"
		if got, wanted := fmt.Sprintf("%+v", *s), fmt.Sprintf("%+v", want); got != wanted {
			t.Errorf("the newer version reads\n%s, want\n%s", got, wanted)
		}
	})
}

func TestOnlyAChangeToTheZeroValueDeletesUnknownFields(t *testing.T) {
	type old struct{ N int }
	type full struct{ N, M int }
	sys, _ := version(t, oncetest.New(), "1", func(s *full) { s.M = 5 })
	sys, got := version(t, sys, "2", func(*old) {}) // zero for this version, and not changed
	if diff := cmp.Diff(map[string]any{"N": 0.0, "M": 5.0}, got); diff != "" {
		t.Error(diff)
	}
	sys, got = version(t, sys, "3", func(*once.Stateless) {})
	if diff := cmp.Diff(map[string]any{"N": 0.0, "M": 5.0}, got); diff != "" {
		t.Error(diff)
	}
	sys, _ = version(t, sys, "4", func(s *old) { s.N = 1 })
	if _, got = version(t, sys, "5", func(s *old) { s.N = 0 }); got != nil {
		t.Errorf("the state is %v", got)
	}
}

func TestAnUpgradeGetsAStateOfAnotherType(t *testing.T) {
	type old struct{ Count int }
	type renamed struct{ Total int }
	sys, _ := version(t, oncetest.New(), "1", func(s *old) { s.Count = 3 })
	for _, id := range []string{"2", "3"} {
		sys = sys.Restart()
		ran := false
		sys.Declare("s", once.StreamConfig{Upgrade: func(raw json.RawMessage) (json.RawMessage, error) {
			ran = true
			return []byte(strings.Replace(string(raw), "Count", "Total", 1)), nil
		}})
		once.Handle(sys.System, "s", func(_ context.Context, a *once.Attempt[renamed], _ once.Message) error {
			a.State.Total++
			return nil
		})
		if o := sys.Call(t.Context(), once.Message{Stream: "s", Group: "g", ID: id}); o.Kind != once.Processed {
			t.Fatalf("%+v", o)
		}
		if ran != (id == "2") {
			t.Errorf("message %s: upgraded %t", id, ran)
		}
	}
	if state, err := oncetest.State[renamed](t.Context(), sys, "s", "g"); err != nil || state.Total != 5 {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestAStateThatCannotBeReadStopsItsGroupOnly(t *testing.T) {
	sys, _ := version(t, oncetest.New(), "1", func(s *string) { *s = "text" })
	sys = sys.Restart()
	once.Handle(sys.System, "s", func(_ context.Context, a *once.Attempt[account], _ once.Message) error { a.State.Cents++; return nil })
	out := sys.Process(t.Context(), once.Message{Stream: "s", Group: "g", ID: "2"}, once.Message{Stream: "s", Group: "other", ID: "3"})
	if out[0].Kind != once.Retry || !strings.Contains(out[0].Err.Error(), "state-unreadable") || out[1].Kind != once.Processed {
		t.Errorf("%+v", out)
	}
}
