package sessions

import (
	"context"
	"errors"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// most is how many actors a scenario may have.
const most = 6

// A state is the complete situation between two steps. Actors that do the same are interchangeable.
type state struct {
	world, late       int32
	lost, lates, fail uint8
	runs              [most]int32
}

// A situation is a state with the meaning of its numbers.
type situation struct {
	state
	w    *world
	late *call
}

// Explore visits all states of a scenario.
func Explore(ctx context.Context, s *Scenario) Result {
	x := newExplorer(s)
	w := x.first()
	first := situation{state: state{world: w.id, lost: s.Lost, lates: s.Late, fail: s.Fails}, w: w}
	for i := range first.runs {
		first.runs[i] = -1
		if i < len(x.roles) && !x.roles[i].late {
			first.runs[i] = x.begin(i)
		}
	}
	slices.Sort(first.runs[:])
	x.meet(&first, -1, stepText{})
	x.visit(ctx, first)
	x.result.States = len(x.from)
	return x.result
}

// A stepText describes a step: who does what, and with which result.
type stepText struct{ what, result string }

// meet notes a state, and reports whether it is new.
func (x *explorer) meet(s *situation, from int32, step stepText) bool {
	s.state.late = 0
	if s.late != nil {
		s.state.late = s.late.id // it was made before
	}
	if _, ok := x.seen[s.state]; ok {
		return false
	}
	x.seen[s.state] = struct{}{}
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
	add := func(n situation, step stepText) {
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
		add(n, stepText{"late: ", s.late.text})
	}
	for _, e := range s.w.events() {
		x.happens(s, e, add)
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

// happens adds the state after an event.
func (x *explorer) happens(s *situation, e event, add func(n situation, step stepText)) {
	n := *s
	n.w = e.w
	if e.passes {
		x.outlive(&n)
	}
	if e.restart {
		if s.late != nil && s.late.database {
			n.late = nil
		}
		x.restart(&n)
	}
	add(n, stepText{e.text, ""})
}

// outlive ends all calls of the real code, and the actors that wait for one.
func (x *explorer) outlive(s *situation) {
	s.late = nil
	for i, at := range s.runs {
		if at >= 0 && !x.runs[at].call.idle {
			s.runs[i] = -1
		}
	}
	slices.Sort(s.runs[:])
}

// restart lets the actors with the database begin again.
func (x *explorer) restart(s *situation) {
	left := s.runs
	for i, at := range left {
		if at >= 0 && x.roles[x.runs[at].of].database {
			left[i] = -1
		}
	}
	slices.Sort(left[:])
	for i, r := range x.roles {
		if r.database {
			left[0] = x.begin(i) // it was -1
			slices.Sort(left[:])
		}
	}
	s.runs = left
}

// takes makes the next call of an actor in every way.
func (x *explorer) takes(s *situation, i int, add func(n situation, step stepText)) (step string, wrong error) {
	r := x.runs[s.runs[i]]
	step = r.text
	move := func(a answer, text string, change func(n *situation)) {
		n := *s
		change(&n)
		next, err := x.reported(x.after(r, a), n.w)
		wrong = errors.Join(wrong, err)
		n.runs[i] = -1
		if next.call != nil && (!x.Direct || !errors.Is(a.err, record.ErrConflict)) {
			n.runs[i] = next.id
		}
		slices.Sort(n.runs[:])
		add(n, stepText{r.text, text})
	}
	if r.call.choice {
		move(answer{key: "works"}, "", func(*situation) {})
		if s.fail > 0 {
			move(answer{key: "fails"}, ": fails", func(n *situation) { n.fail-- })
		}
		return step, wrong
	}
	o := x.make(r.call, s.w)
	if o.wrong != nil {
		return step, o.wrong
	}
	move(o.a, ": "+shown(o.a), func(n *situation) { n.w = o.w })
	if !r.call.write {
		return step, wrong
	}
	if s.lost > 0 {
		move(lost(), ": fails", func(n *situation) { n.lost-- })
		move(lost(), ": its answer is lost", func(n *situation) { n.w, n.lost = o.w, n.lost-1 })
	}
	if s.lates > 0 && s.late == nil {
		move(lost(), ": is late", func(n *situation) { n.late, n.lates = r.call, n.lates-1 })
	}
	return step, wrong
}

// reported returns the run after an actor has reported a success, if that is what it does next. It
// returns an error if the report is not true.
func (x *explorer) reported(r *run, w *world) (*run, error) {
	if r.call == nil || !r.call.report {
		return r, nil
	}
	o := x.make(r.call, w)
	if o.wrong != nil {
		return r, o.wrong
	}
	return x.after(r, o.a), nil
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

func (x *explorer) violation(number int32, wrong error, last ...string) {
	trace := last
	for n := number; n > 0; n = x.from[n] {
		trace = append(trace, x.steps[n].what+x.steps[n].result)
	}
	if len(last) > 0 {
		trace = append(trace[len(last):], last...)
		slices.Reverse(trace[:len(trace)-len(last)])
	} else {
		slices.Reverse(trace)
	}
	x.result.Wrong, x.result.Trace = wrong.Error(), trace
}
