package explore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
)

// A Result is the result of an exploration.
type Result struct {
	Scenario string `json:"scenario"`
	// States is the number of distinct states, Steps the number of steps between them, Depth the
	// length of the longest shortest path to a state.
	States int `json:"states"`
	Steps  int `json:"steps"`
	Depth  int `json:"depth"`
	// Ends is the number of states with nothing left to do.
	Ends int `json:"ends"`
	// Exhausted says that all states were visited; otherwise the bound was reached.
	Exhausted bool `json:"exhausted"`
	// Violation is nil if no rule was violated.
	Violation *Violation `json:"violation,omitempty"`
}

// A Violation is a violated rule, and the shortest trace to it.
type Violation struct {
	Wrong string   `json:"wrong"`
	Trace []string `json:"trace"`
}

// errStuck says that some work remains that no step can finish.
var errStuck = errors.New("it never ends: without further faults, no order of steps finishes all work from here")

// place records how a state was reached first.
type place struct {
	from int32  // the state before it
	step uint16 // the index of the step there
}

// A search is one exploration, breadth first, so that the first violation has the shortest trace.
type search struct {
	w       *world
	seed    [2]maphash.Seed
	seen    map[[2]uint64]int32
	places  []place
	back    [][2]int32 // steps without a fault, as (to, from)
	ends    []int32
	result  Result
	garbage map[[4]int32]error
}

// Explore visits all states of a scenario, or as many as its bound allows. It returns an error if
// the scenario is invalid.
func Explore(ctx context.Context, s *Scenario) (Result, error) {
	x := &search{
		w: newWorld(s), seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, seen: map[[2]uint64]int32{}, result: Result{Scenario: s.Name},
		garbage: map[[4]int32]error{},
	}
	v, err := x.w.initial()
	if err != nil {
		return Result{}, fmt.Errorf("explore %s: %w", s.Name, err)
	}
	first := &state{view: v, left: s.Budget.left()}
	x.meet(first, place{from: -1})
	if err := x.visit(ctx, first); err != nil {
		return Result{}, fmt.Errorf("explore %s: %w", s.Name, err)
	}
	x.result.States = len(x.places)
	return x.result, nil
}

// meet assigns a number to a state, and reports whether it is new.
func (x *search) meet(s *state, p place) (int32, bool) {
	b := s.encode(make([]byte, 0, 128))
	key := [2]uint64{maphash.Bytes(x.seed[0], b), maphash.Bytes(x.seed[1], b)}
	if n, ok := x.seen[key]; ok {
		return n, false
	}
	n := int32(len(x.places)) //nolint:gosec // there is no memory for more
	x.seen[key] = n
	x.places = append(x.places, p)
	return n, true
}

// visit visits the states level by level.
func (x *search) visit(ctx context.Context, first *state) error {
	level, number := []*state{first}, int32(0)
	for depth := 0; len(level) > 0; depth++ {
		x.result.Depth = depth
		var next []*state
		for _, s := range level {
			if err := ctx.Err(); err != nil {
				return err
			}
			if x.expand(s, number, &next) {
				return nil
			}
			number++
		}
		if bound := x.w.scenario.Bound; bound > 0 && len(x.places) > bound {
			return nil
		}
		level = next
	}
	x.result.Exhausted = true
	if n := x.stuck(); n >= 0 {
		x.violation(n, errStuck)
	}
	return nil
}

// expand takes all steps of a state. It reports whether one of them, or the state, is a violation.
func (x *search) expand(s *state, number int32, next *[]*state) (wrong bool) {
	if s.idle() {
		x.ends = append(x.ends, number)
		x.result.Ends++
		if err := x.atRest(s); err != nil {
			x.violation(number, err)
			return true
		}
	}
	for i, st := range x.w.steps(s) {
		x.result.Steps++
		if st.wrong != nil {
			x.violation(number, st.wrong, st.text)
			return true
		}
		n, fresh := x.meet(st.next, place{number, uint16(i)})
		if fresh {
			*next = append(*next, st.next)
		}
		if st.free {
			x.back = append(x.back, [2]int32{n, number})
		}
	}
	return false
}

// stuck returns the first state from which no steps without faults lead to an end, or -1.
func (x *search) stuck() int32 {
	slices.SortFunc(x.back, func(a, b [2]int32) int { return int(a[0]) - int(b[0]) })
	first := make([]int32, len(x.places)+1) // the index of the first step to each state
	for _, e := range x.back {
		first[e[0]+1]++
	}
	for i := range len(x.places) {
		first[i+1] += first[i]
	}
	good := make([]bool, len(x.places))
	todo := slices.Clone(x.ends)
	for _, n := range todo {
		good[n] = true
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range x.back[first[n]:first[n+1]] {
			if !good[e[1]] {
				good[e[1]] = true
				todo = append(todo, e[1])
			}
		}
	}
	return int32(slices.Index(good, false)) //nolint:gosec // an index of states
}

// violation records the trace to a state, and the violated rule.
func (x *search) violation(number int32, wrong error, last ...string) {
	var ways []uint16
	for n := number; x.places[n].from >= 0; n = x.places[n].from {
		ways = append(ways, x.places[n].step)
	}
	slices.Reverse(ways)
	x.result.Violation = &Violation{Wrong: wrong.Error(), Trace: append(x.w.trace(x.w.scenario, ways), last...)}
}

// trace executes steps from the beginning and describes each.
func (w *world) trace(s *Scenario, ways []uint16) []string {
	v, err := w.initial()
	if err != nil {
		return []string{err.Error()}
	}
	at := &state{view: v, left: s.Budget.left()}
	var out []string
	for _, n := range ways {
		st := w.steps(at)[n]
		out = append(out, st.text)
		at = st.next
	}
	return out
}
