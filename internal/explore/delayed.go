package explore

import (
	"slices"
	"strconv"
	"strings"
)

// A delayed trigger comes when its sender is over, and so is whatever was at work by then that may commit something to a group: a delay stands for more time than both have.
// Workers that take longer than half of it are not explored. On the queue it is its group, and behind that first who sent it, and then those that are still at work.
const (
	sentBy   = ", sent by "
	waitsFor = ", after "
)

// parseTrigger gives the group of a trigger, and whether it is a delayed one.
func parseTrigger(t string) (group string, delayed bool) {
	group, _, delayed = strings.Cut(t, ", ")
	return group, delayed
}

// delay brings the delayed triggers of a state up to date, after something in it has ended.
func (w *world) delay(s *state) *state {
	if !slices.ContainsFunc(s.queues.triggers, func(t string) bool { _, delayed := parseTrigger(t); return delayed }) {
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

// extend has the delayed triggers that wait for a run wait for its late commit too.
func (p *queuesPart) extend(r *run, late *call) {
	for i, t := range p.triggers {
		if _, list, ok := strings.Cut(t, waitsFor); ok && slices.Contains(strings.Split(list, ", "), r.name) {
			p.triggers[i] += ", " + late.name()
		}
	}
}

// atWork names the workers that may commit something to a group, and the commits that are on their way.
func (s *state) atWork() []string {
	var names []string
	for _, r := range s.runs {
		switch r.kind {
		case processes, serves, sweeps, closes:
			names = append(names, r.name)
		case publishes, collects, guards, kinds:
		}
	}
	for _, c := range s.late {
		if c.op == opCommit {
			names = append(names, c.name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// name names a call that is on its way.
func (c *call) name() string { return "call " + strconv.Itoa(int(c.id)) }
