package explore

import (
	"slices"
	"strconv"
	"strings"
)

// A delayed trigger is delivered when its sender has ended, and when every worker has ended that
// was running then and may commit to a group: the delay stands for more time than both take.
// Workers that take longer than half the delay are not explored. On the queue a delayed trigger is
// written as its group, followed first by its sender, and after that has ended by the workers that
// are still running.
const (
	sentBy   = ", sent by "
	waitsFor = ", after "
)

// parseTrigger returns the group of a trigger, and whether it is a delayed one.
func parseTrigger(t string) (group string, delayed bool) {
	group, _, delayed = strings.Cut(t, ", ")
	return group, delayed
}

// delay updates the delayed triggers of a state, after a worker in it has ended.
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

// extend makes the delayed triggers that wait for a run wait for its late commit too.
func (p *queuesPart) extend(r *run, late *call) {
	for i, t := range p.triggers {
		if _, list, ok := strings.Cut(t, waitsFor); ok && slices.Contains(strings.Split(list, ", "), r.name) {
			p.triggers[i] += ", " + late.name()
		}
	}
}

// atWork returns the names of the workers that may commit to a group, and of the commits in flight.
func (s *state) atWork() []string {
	var names []string
	for _, r := range s.runs {
		switch r.kind {
		case processes, serves, sweeps, closes:
			names = append(names, r.name)
		case publishes, collects, skips, guards, follows, moves, reopens, kinds: // a reopening changes nothing in a group
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

// name returns the name of a call in flight.
func (c *call) name() string { return "call " + strconv.Itoa(int(c.id)) }
