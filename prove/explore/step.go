package explore

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A step leads from one state to another.
type step struct {
	text  string
	free  bool // it uses up no fault: it will happen in the end
	next  *state
	wrong error // the violation in the step; then next is nil
}

// steps returns all possible steps of a state, in a fixed order.
func (w *world) steps(s *state) []step {
	var out []step
	out = w.receive(s, out)
	for i, r := range s.runs {
		if i > 0 && s.runs[i-1] == r {
			continue // equal runs have equal steps
		}
		switch {
		case r.lapsed && r.kind == serves && (r.end != nil || r.fallsBack()):
			out = append(out, w.abandoned(s, r))
		case r.end != nil:
			out = w.finish(s, r, out)
		default:
			out = w.called(s, r, out)
		}
		if s.left[deaths] > 0 {
			out = append(out, w.die(s, r))
		}
		if s.left[lapses] > 0 && !r.lapsed && r.kind == processes && !w.scenario.lined() {
			out = append(out, w.lapse(s, r))
		}
		if s.left[lapses] > 0 && w.overruns(r) {
			out = append(out, w.overrun(s, r))
		}
	}
	for i, c := range s.late {
		if i == 0 || s.late[i-1] != c {
			out = append(out, w.land(s, c))
		}
	}
	if s.left[redrives] > 0 {
		out = w.redrive(s, out)
	}
	out = w.backUp(s, out)
	return w.elapse(s, out)
}

// receive adds the steps in which free workers receive waiting messages.
func (w *world) receive(s *state, out []step) []step {
	q, limit := s.queues, w.scenario.Workers
	if s.working(processes) < limit.Process && (!w.scenario.lined() || !s.held()) && (!w.scenario.FIFO || !slices.ContainsFunc(s.runs, func(r *run) bool { return r.kind == processes && !r.lapsed })) {
		for _, batch := range w.batches(q.messages) {
			out = append(out, w.take(s, processes, batch, func(p *queuesPart) {
				for _, name := range batch {
					p.messages = without(p.messages, name)
				}
			}))
		}
	}
	if s.working(publishes) < limit.Publish {
		for _, trigger := range slices.Compact(slices.Clone(q.triggers)) {
			group, delayed := parseTrigger(trigger)
			if delayed {
				continue
			}
			out = append(out, w.take(s, publishes, []string{group}, func(p *queuesPart) { p.triggers = without(p.triggers, trigger) }))
			if s.left[retriggers] > 0 {
				more := w.take(s, publishes, []string{group}, func(*queuesPart) {})
				more.next.spend(retriggers)
				more.text, more.free = more.text+", and it stays on the queue", false
				out = append(out, more)
			}
		}
	}
	out = w.takeDue(s, out)
	if s.working(serves) < limit.HTTP {
		for _, name := range slices.Compact(slices.Clone(q.requests)) {
			out = append(out, w.take(s, serves, []string{w.line(s, name)}, func(p *queuesPart) { p.requests = without(p.requests, name) }))
		}
	}
	if s.working(guards) < limit.Guard {
		for _, name := range slices.Compact(slices.Clone(q.guarded)) {
			out = append(out, w.take(s, guards, []string{name}, func(p *queuesPart) { p.guarded = without(p.guarded, name) }))
		}
	}
	for _, x := range []struct {
		kind  kind
		spend spend
	}{{sweeps, sweepings}, {closes, closings}, {collects, collections}, {skips, skippings}} {
		if s.left[x.spend] == 0 || s.working(x.kind) >= max(limit.Sweep, 1) {
			continue
		}
		for _, key := range w.scenario.groups() {
			swept := w.take(s, x.kind, []string{key.Group}, func(*queuesPart) {})
			swept.free = false
			swept.next.spend(x.spend)
			out = append(out, swept)
		}
	}
	if s.left[readings] > 0 && s.working(follows) == 0 {
		page := w.take(s, follows, w.reading(s.past), func(*queuesPart) {})
		page.free = false
		page.next.spend(readings)
		out = append(out, page)
	}
	return out
}

// batches returns the possible contents of one delivery.
func (w *world) batches(waiting []string) [][]string {
	if !w.scenario.FIFO {
		return batches(waiting, w.scenario.Batch)
	}
	var out [][]string
	for n := 1; n <= min(len(waiting), w.scenario.Batch); n++ {
		out = append(out, slices.Clone(waiting[:n]))
	}
	return out
}

// batches returns the possible contents of one delivery: one message, or up to most messages in any
// order.
func batches(waiting []string, most int) [][]string {
	var out [][]string
	for i, name := range waiting {
		if i > 0 && waiting[i-1] == name {
			continue
		}
		out = append(out, []string{name})
		if most > 1 {
			rest := slices.Delete(slices.Clone(waiting), i, i+1)
			for _, b := range batches(rest, most-1) {
				out = append(out, append([]string{name}, b...))
			}
		}
	}
	return out
}

// take starts a worker.
func (w *world) take(s *state, k kind, items []string, change func(*queuesPart)) step {
	what := strings.Join(items, "+")
	if k != processes {
		what = k.String() + " " + what
	}
	n := bits.TrailingZeros64(^s.queues.taken[what])
	next := *s
	next.queues = w.change(s.queues, func(p *queuesPart) {
		change(p)
		p.taken[what] |= 1 << n
	})
	name := fmt.Sprintf("%s#%d", what, n+1)
	return step{text: name + ": starts", free: true, next: (&next).with(nil, w.begin(k, name, items, s.view))}
}

// called adds the possible results of a run's next call.
func (w *world) called(s *state, r *run, out []step) []step {
	o := r.call.do(s.view)
	what := r.name + ": " + r.call.text
	if o.wrong != nil {
		return append(out, step{text: what, wrong: o.wrong})
	}
	after := *s
	after.view = o.view
	add := func(how string, base *state, a *answer, costs ...spend) {
		next := base.with(r, w.after(r, a))
		for _, c := range costs {
			next.spend(c)
		}
		out = append(out, step{text: what + how, free: len(costs) == 0, next: next})
	}
	add("", &after, o.answer)
	if w.mayTick(s) {
		later := after
		later.clock++
		later.now = w.clock(later.clock)
		a := o.answer
		add(" — and time passes before the answer", &later, w.answerOf(fmt.Sprint("later ", a.id), a.text, later.now, a.value, a.err), ticks)
	}
	for n := 1; n <= r.call.firsts; n++ {
		add(fmt.Sprintf(" — answers the first %d", n), &after, w.answersOf(n, s.now))
	}
	if s.left[failures] == 0 {
		return out
	}
	add(" — fails before", s, w.failed(s.now), failures)
	if r.call.reads {
		return out
	}
	if o.answer.err == nil {
		add(" — fails after", &after, w.failed(s.now), failures)
	}
	for n := 1; n < r.call.parts; n++ {
		part := r.call.some(s.view, n)
		if part.wrong != nil {
			return append(out, step{text: what, wrong: part.wrong})
		}
		some := *s
		some.view = part.view
		add(fmt.Sprintf(" — fails after %d", n), &some, part.answer, failures)
	}
	if s.left[lates] > 0 {
		next := s.with(r, w.after(r, w.failed(s.now))).spend(lates)
		next.late = append(slices.Clone(s.late), r.call)
		slices.SortFunc(next.late, func(a, b *call) int { return int(a.id - b.id) })
		if r.call.op == opCommit {
			next.queues = w.change(s.queues, func(p *queuesPart) { p.extend(r, r.call) })
		}
		out = append(out, step{text: what + " — fails, and is still on its way", next: next})
	}
	return out
}

// land applies a write whose sender has stopped waiting for it.
func (w *world) land(s *state, c *call) step {
	o := c.do(s.view)
	text := "lands: " + c.text + ": "
	if o.wrong != nil {
		return step{text: text, wrong: o.wrong}
	}
	next := *s
	next.view, next.late = o.view, slices.Clone(s.late)
	i := slices.Index(next.late, c)
	next.late = slices.Delete(next.late, i, i+1)
	return step{text: text + o.answer.text, free: true, next: w.delay(&next)}
}

// die ends a worker between two calls. Its messages are redelivered.
func (w *world) die(s *state, r *run) step {
	next := s.with(r, nil).spend(deaths)
	next.queues = w.change(s.queues, func(p *queuesPart) { w.giveBack(p, r, func(string, int) bool { return true }) })
	return step{text: r.name + ": dies", next: w.recall(w.delay(next))}
}

// again is the suffix of a message that the queue redelivers while another worker has it.
const again = " again"

// plain returns the name of a message without the suffix.
func plain(item string) string { return strings.TrimSuffix(item, again) }

// lapse makes the queue redeliver the messages of a run, while the run continues.
func (w *world) lapse(s *state, r *run) step {
	next := s.with(r, w.lapsed(r)).spend(lapses)
	next.queues = w.change(s.queues, func(p *queuesPart) {
		for i, item := range r.items {
			if w.scenario.placing() {
				p.messages = slices.Insert(p.messages, i, item+again)
				continue
			}
			p.messages = append(p.messages, item+again)
		}
	})
	return step{text: r.name + ": the time of its delivery is over", next: next}
}

// redrive puts dead letters of messages back on the queue. If the redrive dies in between, the
// letter stays too.
func (w *world) redrive(s *state, out []step) []step {
	for _, d := range s.queues.dead {
		name, _, _ := strings.Cut(d, ": ")
		m, ok := w.scenario.Messages[name]
		if !ok {
			continue
		}
		if reason := record.Reason(strings.TrimPrefix(d, name+": ")); reason.Final() && m.Source == "" {
			if s.working(reopens) > 0 {
				continue
			}
			opened := w.take(s, reopens, []string{d}, func(p *queuesPart) { p.dead = append(without(p.dead, d), d+hidden) })
			opened.free, opened.next.past = false, w.reopened(s.past, name)
			out = append(out, step{text: opened.text, next: opened.next.spend(redrives)})
			continue
		}
		for _, stays := range []bool{false, true} {
			next := *s
			next.queues = w.change(s.queues, func(p *queuesPart) {
				p.messages = append(p.messages, name)
				if !stays {
					p.dead = without(p.dead, d)
				}
			})
			text := "redrive " + d
			if stays {
				text += ", and it stays"
			}
			out = append(out, step{text: text, next: (&next).spend(redrives)})
		}
	}
	return out
}

// giveBack returns the messages of a run to their queue. If the run stored nothing, its name can
// be used again, so that repeated receives and returns lead to no new states. A request to a
// stream that ends is repeated any number of times; there only the name of a commit matters.
func (w *world) giveBack(p *queuesPart, r *run, undone func(item string, i int) bool) {
	if what, number := nameAndNumber(r.name); !r.traced || w.scenario.Stream.Pool && !r.committed() {
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(fmt.Sprintf("explore: %v", err)) // named by take
		}
		if p.taken[what] &^= 1 << (n - 1); p.taken[what] == 0 {
			delete(p.taken, what)
		}
	}
	first := 0
	for i, item := range r.items {
		if r.lapsed || !undone(item, i) {
			continue
		}
		switch r.kind {
		case processes:
			if w.scenario.placing() { // ahead of those that were put meanwhile
				p.messages = slices.Insert(p.messages, first, item)
				first++
				continue
			}
			p.messages = append(p.messages, item)
		case publishes:
			if isDelayed(item) {
				p.due = append(p.due, item)
				continue
			}
			p.triggers = append(p.triggers, item)
		case serves:
			if !w.scenario.Impatient {
				p.requests = append(p.requests, request(item))
			}
		case guards:
			p.guarded = append(p.guarded, item)
		case reopens:
			p.dead = without(p.dead, item+hidden)
			if r.end == nil || r.end.failed {
				p.dead = append(p.dead, item)
				continue
			}
			name, _, _ := strings.Cut(item, ": ") // the letter is put back, and then deleted
			p.messages = append(p.messages, name)
		case sweeps, closes, collects, skips, follows, moves, kinds:
		}
	}
}

// hidden is the suffix of a dead letter that an operator has received.
const hidden = " (hidden)"

// mayTick reports whether time may pass while workers are running.
func (w *world) mayTick(s *state) bool {
	deadline := time.Duration(w.scenario.Deadline)
	return s.left[ticks] > 0 && (deadline == 0 || !slices.ContainsFunc(s.runs, func(r *run) bool { return w.clock(s.clock+1).Sub(r.first) > deadline }))
}

// elapse adds steps in which time passes, and in which expired records are deleted.
func (w *world) elapse(s *state, out []step) []step {
	if w.mayTick(s) {
		next := *s
		next.clock++
		next.now = w.clock(next.clock)
		out = append(out, step{text: "time passes", next: (&next).spend(ticks)})
	}
	if w.scenario.Waits && len(s.runs)+len(s.late) == 0 && !s.idle() && slices.ContainsFunc(s.store.contents.Tokens, func(t record.Token) bool { return t.Lease.After(s.now) }) {
		next := *s
		next.clock++
		next.now = w.clock(next.clock)
		out = append(out, step{text: "a lease runs out", free: true, next: &next})
	}
	if w.awaits(s) {
		next := *s
		next.clock++
		next.now = w.clock(next.clock)
		out = append(out, step{text: "time passes until something is due", free: true, next: &next})
	}
	if len(s.runs)+len(s.late) == 0 && !s.idle() && w.retried(s) {
		next := *s
		next.clock++
		next.now = w.clock(next.clock)
		out = append(out, step{text: "the time of a retry policy passes", free: true, next: &next})
	}
	if s.left[expiries] > 0 {
		m := s.store.at(s.now)
		if n, err := m.Expire(context.Background(), 1000); err == nil && n > 0 {
			next := *s
			next.store = w.storeOf(m)
			out = append(out, step{text: "expired records are deleted", next: (&next).spend(expiries)})
		}
	}
	return out
}

// retried reports whether the time of the retry policy of a pending effect is not over.
func (w *world) retried(s *state) bool {
	for _, g := range s.store.contents.Groups {
		for i := range g.Pending {
			if p := &g.Pending[i]; len(p.Effects) > 0 && s.now.Before(p.Committed.Add(time.Duration(w.scenario.Stream.For))) {
				return true
			}
		}
	}
	return false
}
