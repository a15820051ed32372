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

func TestAZeroValueKeepsUnknownFields(t *testing.T) {
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
	sys, got = version(t, sys, "5", func(s *old) { s.N = 0 })
	if diff := cmp.Diff(map[string]any{"N": 0.0, "M": 5.0}, got); diff != "" {
		t.Error(diff)
	}
	if _, got = version(t, sys, "6", func(s *full) { s.M = 0 }); got != nil {
		t.Errorf("the state is %v", got)
	}
}

func TestAZeroValueDeletesTheStateIfNoUnknownFieldIsLeft(t *testing.T) {
	type old struct{ Other *part }
	type full struct{ Other *newer }
	sys, _ := version(t, oncetest.New(), "1", func(s *full) { s.Other = &newer{More: "x"} })
	if _, got := version(t, sys, "2", func(s *old) { s.Other = nil }); got != nil {
		t.Errorf("the state is %v", got)
	}
}

type small struct{ N int }

// A strict encodes itself, and is decoded by its fields.
type strict struct{ N int }

func (s strict) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"N":%d}`, s.N), nil }

type (
	Map  map[string]small
	left struct {
		X small `json:"x1"`
	}
	right struct {
		X small `json:"x2"`
	}
	named struct{ P small }
)

// try runs a handler on a stored state, and returns the new one, if the handler ran.
func try[S any](t *testing.T, stored string, change func(*S)) (state any, ran bool, err error) {
	t.Helper()
	sys, _ := version(t, oncetest.New(), "1", func(s *json.RawMessage) { *s = json.RawMessage(stored) })
	sys = sys.Restart()
	once.Handle(sys.System, "s", func(_ context.Context, a *once.Attempt[S], _ once.Message) error {
		ran = true
		change(&a.State)
		return nil
	})
	err = sys.Call(t.Context(), once.Message{Stream: "s", Group: "g", ID: "2"}).Err
	state, wrong := oncetest.State[any](t.Context(), sys, "s", "g")
	if wrong != nil {
		t.Fatal(wrong)
	}
	return state, ran, err
}

func keeps[S any](stored, want string, change func(*S)) func(*testing.T) {
	return func(t *testing.T) {
		var wanted any
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		state, _, err := try(t, stored, change)
		if diff := cmp.Diff(wanted, state); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
}

func refuses[S any](stored string) func(*testing.T) {
	return func(t *testing.T) {
		if _, ran, err := try(t, stored, func(*S) {}); ran || err == nil || !strings.Contains(err.Error(), "state-unreadable") {
			t.Errorf("ran %t: %v", ran, err)
		}
	}
}

func TestUnknownFieldsOfUnusualTypes(t *testing.T) {
	type omits struct {
		A    int
		Part small    `json:"part,omitzero"`
		Two  [2]small `json:",omitzero"`
	}
	type exportedMap struct {
		A int
		Map
	}
	type tagged struct {
		named `json:"q"`
	}
	for name, test := range map[string]func(*testing.T){
		"omitzero":          keeps(`{"A":1,"part":{"N":0,"More":5}}`, `{"A":2,"part":{"More":5}}`, func(s *omits) { s.A++ }),
		"omitzero, nothing": keeps(`{"A":1,"part":{"N":3},"More":5}`, `{"A":1,"More":5}`, func(s *omits) { s.Part.N = 0 }),
		"omitzero, array":   refuses[omits](`{"A":1,"Two":[{"N":0,"More":5},{"N":0}]}`),
		"encodes itself":    refuses[strict](`{"N":1,"More":5}`),
		"nested":            refuses[struct{ S strict }](`{"S":{"N":1,"More":5}}`),
		"embedded map":      keeps(`{"A":1,"Map":{"x":{"N":1,"More":5}}}`, `{"A":2,"Map":{"x":{"N":1,"More":5}}}`, func(s *exportedMap) { s.A++ }),
		"hidden": refuses[struct {
			left
			right
		}](`{"x1":{"N":1,"More":5}, "x2": {"N":1} }`),
		"hidden, spaces": refuses[struct {
			left
			right
		}](`{"x1" : [ ], "y": 1}`),
		"embedded, tagged": keeps(`{"q":{"P":{"N":1,"More":5}}}`, `{"q":{"P":{"N":2,"More":5}}}`, func(s *tagged) { s.P.N++ }),
		"another case":     refuses[struct{ List []small }](`{"list":[{"N":1,"M":2}],"x":1}`),
		"two of one field": keeps(`{"part":{"M":1},"Part":{"M":2}}`, `{"Part":{"N":0,"M":1}}`, func(*struct{ Part small }) {}),
	} {
		t.Run(name, test)
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
