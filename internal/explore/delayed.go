package explore

import (
	"slices"
	"strconv"
	"strings"
)

// A delayed trigger comes when its sender is over, and so is whatever was at work by then: a delay stands for more time than both have. On the queue it is its group, and behind that
// first who sent it, and then those that are still at work.
const (
	sentBy   = ", sent by "
	waitsFor = ", after "
)

// delay brings the delayed triggers of a state up to date, after something in it has ended.
func (w *world) delay(s *state) *state {
	if !slices.ContainsFunc(s.queues.triggers, func(t string) bool { return strings.Contains(t, ", ") }) {
		return s
	}
	work := s.atWork()
	next := *s
	next.queues = w.change(s.queues, func(p *queuesPart) {
		triggers := p.triggers
		p.triggers = nil
		for _, t := range triggers {
			group, sender, fresh := strings.Cut(t, sentBy)
			group, list, _ := strings.Cut(group, waitsFor)
			left := slices.DeleteFunc(strings.Split(list, ", "), func(name string) bool { return !slices.Contains(work, name) })
			switch {
			case fresh && slices.Contains(work, sender):
				p.triggers = append(p.triggers, t)
			case fresh && len(work) > 0:
				p.triggers = append(p.triggers, group+waitsFor+strings.Join(work, ", "))
			case len(left) > 0:
				p.triggers = append(p.triggers, group+waitsFor+strings.Join(left, ", "))
			default:
				p.trigger(group, w.scenario.Workers.Publish)
			}
		}
	})
	return &next
}

// extend has the delayed triggers that wait for a run wait for its late write too.
func (w *world) extend(p *queuesPart, r *run, late *call) {
	for i, t := range p.triggers {
		if _, list, ok := strings.Cut(t, waitsFor); ok && slices.Contains(strings.Split(list, ", "), r.name) {
			p.triggers[i] += ", " + late.name()
		}
	}
}

// atWork names the workers that may commit something, and the writes that are on their way.
func (s *state) atWork() []string {
	var names []string
	for _, r := range s.runs {
		if r.kind != publishes {
			names = append(names, r.name)
		}
	}
	for _, c := range s.late {
		names = append(names, c.name())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// name names a call that is on its way.
func (c *call) name() string { return "call " + strconv.Itoa(int(c.id)) }
