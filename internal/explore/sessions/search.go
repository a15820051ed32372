package sessions

import (
	"context"
	"errors"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// A Result is the result of an exploration.
type Result struct {
	// States is the number of distinct states, Steps the number of steps between them, Depth the
	// length of the longest shortest path to one, and Recoveries the number of stored contents from
	// which recovery was tried.
	States, Steps, Depth, Recoveries int
	// Exhausted says that all states were visited.
	Exhausted bool
	// Wrong is the violated rule, empty if there is none, and Trace a shortest trace to it.
	Wrong string
	Trace []string
}

// An explorer explores one scenario.
type explorer struct {
	*Scenario

	logs   map[record.GroupKey]record.Group
	chunks map[record.GroupKey]record.Chunk
	keys   []record.GroupKey // of the records that may exist
	names  []string          // of the sessions
	total  int               // entries

	worlds map[string]*world
	runs   []*run
	calls  map[string]int32
	made   map[[2]int32]outcome // by call and world
	tried  map[int32]bool       // worlds from which recovery was tried

	seen   map[state]int32
	from   []int32
	steps  []string
	result Result
}

// An outcome is the result of a call in a world.
type outcome struct {
	w     *world
	a     answer
	wrong error
}

// make makes a call, or returns its remembered outcome.
func (x *explorer) make(c *call, w *world) outcome {
	if c.id == 0 {
		if c.id = x.calls[c.key]; c.id == 0 {
			c.id = int32(len(x.calls)) + 1 //nolint:gosec // there is no memory for more
			x.calls[c.key] = c.id
		}
	}
	at := [2]int32{c.id, w.id}
	o, ok := x.made[at]
	if !ok {
		o.w, o.a, o.wrong = c.apply(w)
		x.made[at] = o
	}
	return o
}

// most is how many actors a scenario may have.
const most = 6

// A state is the complete situation between two steps. Actors that do the same are interchangeable.
type state struct {
	world, late       int32
	lost, lates, fail uint8
	runs              [most]int32
}

// A run is an actor between two calls.
type run struct {
	id     int32
	of     int // the actor
	script []answer
	next   map[string]*run
	call   *call // nil if it has ended
}

// A situation is a state with what its numbers stand for.
type situation struct {
	state
	w    *world
	late *call
}

// Explore visits all states of a scenario.
func Explore(ctx context.Context, s *Scenario) Result {
	s.Recover = max(1, s.Recover)
	x := &explorer{Scenario: s, worlds: map[string]*world{}, calls: map[string]int32{}, made: map[[2]int32]outcome{}, tried: map[int32]bool{}, seen: map[state]int32{}}
	x.logs, x.chunks = s.logs()
	x.names = append(slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Consumers, s.Operators)))), spare)
	x.keys = append(x.keys, record.GroupKey{Stream: "~pools", Group: stream})
	for _, name := range x.names {
		x.keys = append(x.keys, record.GroupKey{Stream: "~sessions", Group: stream + "/" + name})
	}
	for _, n := range s.Entries {
		x.total += n
	}
	w := x.unique(&world{x: x, groups: map[record.GroupKey]record.Group{}})
	first := situation{state: state{world: w.id, lost: s.Lost, lates: s.Late, fail: s.Fails}, w: w}
	for i := range first.runs {
		first.runs[i] = -1
		if i < len(s.Consumers)+len(s.Operators) {
			first.runs[i] = x.begin(i)
		}
	}
	slices.Sort(first.runs[:])
	x.meet(&first, -1, "")
	x.visit(ctx, first)
	x.result.States = len(x.from)
	return x.result
}

// unique returns the one object for equal worlds.
func (x *explorer) unique(w *world) *world {
	key := w.encode()
	if old, ok := x.worlds[key]; ok {
		return old
	}
	w.id = int32(len(x.worlds)) //nolint:gosec // there is no memory for more
	x.worlds[key] = w
	return w
}

// begin returns the run of an actor. Those of one kind and session begin with the same run.
func (x *explorer) begin(i int) int32 {
	for _, r := range x.runs {
		if x.called(r.of) == x.called(i) {
			return r.id
		}
	}
	return x.advance(&run{of: i, next: map[string]*run{}}).id
}

// after returns the run after an answer.
func (x *explorer) after(r *run, a answer) *run {
	next, ok := r.next[a.key]
	if !ok {
		next = x.advance(&run{of: r.of, script: append(slices.Clip(r.script), a), next: map[string]*run{}})
		r.next[a.key] = next
	}
	return next
}

// advance runs the code of an actor up to its next call.
func (x *explorer) advance(r *run) *run {
	r.id = int32(len(x.runs)) //nolint:gosec // there is no memory for more
	x.runs = append(x.runs, r)
	h := &host{script: r.script}
	done := make(chan struct{})
	go func() { // ended by the host
		defer close(done)
		if i := r.of - len(x.Consumers); i >= 0 {
			x.actor(h, x.Operators[i]).retire()
		} else {
			x.actor(h, x.Consumers[r.of]).consume()
		}
	}()
	<-done
	r.call = h.asked
	return r
}

// meet notes a state, and reports whether it is new.
func (x *explorer) meet(s *situation, from int32, step string) bool {
	s.state.late = 0
	if s.late != nil {
		s.state.late = s.late.id // it was made before
	}
	if _, ok := x.seen[s.state]; ok {
		return false
	}
	x.seen[s.state] = int32(len(x.from)) //nolint:gosec // there is no memory for more
	x.from, x.steps = append(x.from, from), append(x.steps, step)
	return true
}

func (x *explorer) visit(ctx context.Context, first situation) {
	level, number := []situation{first}, int32(0)
	for ; len(level) > 0; x.result.Depth++ {
		var next []situation
		for _, s := range level {
			if ctx.Err() != nil || x.Bound > 0 && len(x.from) > x.Bound {
				return
			}
			if !x.tried[s.w.id] && int(s.w.id)%x.Recover == 0 {
				x.tried[s.w.id] = true
				x.result.Recoveries++
				if err := x.recovers(s.w); err != nil {
					x.violation(number, err)
					return
				}
			}
			if !x.expand(&s, number, &next) {
				return
			}
			number++
		}
		level = next
	}
	x.result.Exhausted = true
}

// expand takes all steps of a state. It reports whether none of them breaks a rule.
func (x *explorer) expand(s *situation, number int32, next *[]situation) bool {
	add := func(n situation, step string) {
		x.result.Steps++
		n.world = n.w.id
		if x.meet(&n, number, step) {
			*next = append(*next, n)
		}
	}
	if s.late != nil {
		n := *s
		o := x.make(s.late, s.w)
		if o.wrong != nil {
			x.violation(number, o.wrong, "late: "+s.late.text)
			return false
		}
		n.w, n.late = o.w, nil
		add(n, "late: "+s.late.text)
	}
	for i, at := range s.runs {
		if at < 0 || i > 0 && at == s.runs[i-1] {
			continue
		}
		if step, err := x.takes(s, i, add); err != nil {
			x.violation(number, err, step)
			return false
		}
	}
	return true
}

// takes makes the next call of an actor in every way.
func (x *explorer) takes(s *situation, i int, add func(n situation, step string)) (step string, wrong error) {
	r := x.runs[s.runs[i]]
	step = x.called(r.of) + ": " + r.call.text
	move := func(a answer, text string, change func(n *situation)) {
		n := *s
		n.runs[i] = -1
		if next := x.after(r, a); next.call != nil && (!x.Direct || !errors.Is(a.err, record.ErrConflict)) {
			n.runs[i] = next.id
		}
		slices.Sort(n.runs[:])
		change(&n)
		add(n, step+text)
	}
	if r.call.choice {
		move(answer{key: "works"}, "", func(*situation) {})
		if s.fail > 0 {
			move(answer{key: "fails"}, ": fails", func(n *situation) { n.fail-- })
		}
		return step, nil
	}
	o := x.make(r.call, s.w)
	if o.wrong != nil {
		return step, o.wrong
	}
	move(o.a, ": "+shown(o.a), func(n *situation) { n.w = o.w })
	if !r.call.write {
		return step, nil
	}
	if s.lost > 0 {
		move(lost(), ": fails", func(n *situation) { n.lost-- })
		move(lost(), ": its answer is lost", func(n *situation) { n.w, n.lost = o.w, n.lost-1 })
	}
	if s.lates > 0 && s.late == nil {
		move(lost(), ": is late", func(n *situation) { n.late, n.lates = r.call, n.lates-1 })
	}
	return step, nil
}

func shown(a answer) string {
	if a.err != nil {
		return a.err.Error()
	}
	if _, ok := a.value.(uint64); ok {
		return a.key
	}
	return "done"
}

// called returns the name of an actor.
func (x *explorer) called(i int) string {
	if o := i - len(x.Consumers); o >= 0 {
		return "operator of " + x.Operators[o]
	}
	return "consumer of " + x.Consumers[i]
}

func (x *explorer) violation(number int32, wrong error, last ...string) {
	trace := last
	for n := number; n > 0; n = x.from[n] {
		trace = append(trace, x.steps[n])
	}
	if len(last) > 0 {
		trace = append(trace[len(last):], last...)
		slices.Reverse(trace[:len(trace)-len(last)])
	} else {
		slices.Reverse(trace)
	}
	x.result.Wrong, x.result.Trace = wrong.Error(), trace
}
