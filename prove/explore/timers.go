package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// Delayed effects and messages of timers wait in a store of delayed messages, by their names. A
// keeper moves those that are due to the ingress queue, and effects to the publish queue. A timer's
// name contains all that its message has, an effect's name its time and content.

// ourselves is the sender of messages on the publish queue.
const ourselves = "ourselves"

// dueHeader is the header of a delayed effect with the time when it is due.
const dueHeader = "Due"

// The beginnings of the names. No message of a scenario begins so.
const (
	timerPrefix   = "@"
	delayedPrefix = "later "
)

// aTimer is the message of a timer.
type aTimer struct {
	name   string
	setter string // the name of the message whose handler set it
	number uint64
	epoch  string
	due    time.Time
}

// String returns the name of the message on a queue.
func (t aTimer) String() string {
	return fmt.Sprintf("%s%s/%s/%d/%s/%d", timerPrefix, t.name, t.setter, t.number, t.epoch, int(t.due.Sub(start()).Seconds()))
}

// parseTimer is the reverse of String.
func parseTimer(item string) (aTimer, bool) {
	text, ok := strings.CutPrefix(item, timerPrefix)
	parts := strings.Split(text, "/")
	if !ok || len(parts) != 5 {
		return aTimer{}, false
	}
	number, err1 := strconv.ParseUint(parts[2], 10, 64)
	seconds, err2 := strconv.Atoi(parts[4])
	t := aTimer{parts[0], parts[1], number, parts[3], start().Add(time.Duration(seconds) * time.Second)}
	return t, err1 == nil && err2 == nil
}

// timerMessage returns the message of a timer, as received from a queue.
func (s *Scenario) timerMessage(t aTimer) record.Message {
	setter := s.message(t.setter)
	return record.Message{
		Stream: stream, Group: setter.Group, ID: fmt.Sprintf("timer:%s:%d", t.epoch, t.number), Timer: t.name, TimerNumber: t.number,
		Body: []byte(t.setter), Headers: map[string]string{nameHeader: t.String()}, Accepted: t.due, NotBefore: t.due,
	}
}

// isDelayed reports whether an item of the publish queue is a delayed effect.
func isDelayed(item string) bool { return strings.HasPrefix(item, delayedPrefix) }

// waitsAs returns the name of a delayed effect, or of the message of a timer.
func (w *world) waitsAs(d record.Delayed) string {
	if d.Delivery == nil {
		parts := strings.Split(d.Message.ID, ":")
		return aTimer{d.Message.Timer, string(d.Message.Body), d.Message.TimerNumber, parts[1], d.NotBefore}.String()
	}
	seconds := int(d.NotBefore.Sub(start()).Seconds())
	name := fmt.Sprintf("%s%s of %d at %d: %s", delayedPrefix, d.Identity(), d.Delivery.Incarnation, seconds, d.Delivery.Effect.Body)
	w.delayed[name] = d
	return name
}

// isDue reports whether a name is of something that is due.
func (w *world) isDue(name string, now time.Time) bool { return !w.dueTime(name).After(now) }

func (w *world) dueTime(name string) time.Time {
	if t, ok := parseTimer(name); ok {
		return t.due
	}
	return w.delayed[name].NotBefore
}

// Delay puts effects and messages of timers into the store of delayed messages.
func (q queuesPort) Delay(_ context.Context, delayed []record.Delayed) error {
	names := make([]string, len(delayed))
	for i, d := range delayed {
		names[i] = q.w.waitsAs(d)
	}
	return q.put("delay", names, func(p *queuesPart, name string) { p.waiting = append(p.waiting, name) })
}

// toPublish returns a message of the publish queue: a delayed effect, or a trigger of a group.
func (w *world) toPublish(item string) queue.Message {
	if isDelayed(item) {
		d := w.delayed[item]
		m := wire.ToRedelivery(d.To, *d.Delivery)
		m.Sender = ourselves
		return m
	}
	return wire.ToTrigger(record.GroupKey{Stream: stream, Group: item})
}

// takeDue adds the steps in which workers receive delayed effects, and in which keepers start.
func (w *world) takeDue(s *state, out []step) []step {
	q, limit := s.queues, w.scenario.Workers
	if s.working(publishes) < limit.Publish {
		for _, name := range slices.Compact(slices.Clone(q.due)) {
			out = append(out, w.take(s, publishes, []string{name}, func(p *queuesPart) { p.due = without(p.due, name) }))
		}
	}
	if s.working(moves) < max(limit.Keep, 1) && slices.ContainsFunc(q.waiting, func(name string) bool { return w.isDue(name, s.now) }) {
		out = append(out, w.take(s, moves, []string{"what is due"}, func(*queuesPart) {}))
	}
	return out
}

// awaits reports whether something is delayed and not due yet, while nobody works. A message that
// waits on its queue may be received before that time or after it. In a worker, time passes only if
// the scenario has ticks.
func (w *world) awaits(s *state) bool {
	return len(s.runs) == 0 && slices.ContainsFunc(s.queues.waiting, func(name string) bool { return !w.isDue(name, s.now) })
}

// keep runs the keeper of delayed messages once.
func (w *world) keep(ctx context.Context, a *host) {
	send := func(_ context.Context, _ string, messages []queue.Message) []error {
		return record.ErrorsOf(waitingPort{a}.move(messages), len(messages))
	}
	_, _ = delay.NewKeeper(waitingPort{a}, send, delay.Options{Now: a.clock}).MoveDue(ctx)
}

// waitingPort implements delay.Store for a keeper.
type waitingPort struct{ *host }

// Put is not called by a keeper.
func (waitingPort) Put(context.Context, []delay.Item) error { return errors.New("not explored") }

// Due lists the items that are due. The content of an item is its name.
func (p waitingPort) Due(_ context.Context, after delay.Key, before time.Time, limit int) ([]delay.Item, error) {
	if after != (delay.Key{}) { // more items fail than one call lists
		return nil, errors.New("not explored")
	}
	c := call{op: "list due", touches: touchQueues, reads: true, text: "list what is due"}
	c.apply = func(v view) outcome {
		var names []string
		for _, name := range v.queues.waiting {
			if p.w.dueTime(name).Before(before) {
				names = append(names, name)
			}
		}
		slices.SortStableFunc(names, func(a, b string) int { return p.w.dueTime(a).Compare(p.w.dueTime(b)) })
		names = names[:min(len(names), limit)]
		return outcome{view: v, answer: p.w.answerOf(keyOf("due", names), strings.Join(names, ", "), v.now, names, nil)}
	}
	a := p.ask(c, before, limit)
	names, _ := a.value.([]string)
	var items []delay.Item
	for _, name := range names {
		item := delay.Item{Key: delay.Key{Due: p.w.dueTime(name), Name: name}, Queue: "ingress", Message: queue.Message{Body: name}}
		if isDelayed(name) {
			item.Queue = "publish"
		}
		items = append(items, item)
	}
	return items, a.err
}

// Delete deletes items that were moved.
func (p waitingPort) Delete(_ context.Context, keys []delay.Key) error {
	var names []string
	for _, k := range keys {
		names = append(names, k.Name)
	}
	return queuesPort(p).put("delete delayed", names, func(q *queuesPart, name string) {
		q.waiting = slices.DeleteFunc(q.waiting, func(other string) bool { return other == name })
	})
}

// move puts items that are due on their queue.
func (p waitingPort) move(messages []queue.Message) error {
	var names []string
	for _, m := range messages {
		names = append(names, m.Body)
	}
	return queuesPort(p).put("move", names, func(q *queuesPart, name string) {
		if isDelayed(name) {
			q.due = append(q.due, name)
			return
		}
		p.w.append(q, name)
	})
}

// sendLater adds an effect of a message to an attempt, delayed if the scenario says so.
func (w *world) sendLater(a *record.Attempt, name string, e record.Effect) error {
	after := time.Duration(w.scenario.Messages[name].Later)
	if after > 0 {
		e.Headers = map[string]string{dueHeader: a.Now.Add(after).Format(time.RFC3339)}
	}
	return a.SendAfter(e, after)
}

// setTimers sets and cancels the timers of a message. The body of a timer is the message that set
// it.
func (w *world) setTimers(a *record.Attempt, name string) error {
	m := w.scenario.Messages[name]
	if m.Cancels != "" {
		if err := a.CancelTimer(m.Cancels); err != nil {
			return err
		}
	}
	if m.Sets == "" {
		return nil
	}
	return a.SetTimer(m.Sets, time.Duration(m.After), record.Effect{Body: []byte(name)})
}

// timersOf returns the timers that are set after some messages were applied, as the messages that
// set them, by group and name. It returns an error if a timer took effect that was not set.
func (w *world) timersOf(applied []string) (map[string]string, error) {
	set := map[string]string{}
	for _, line := range applied {
		name := nameIn(line)
		group := w.scenario.message(name).Group + "/"
		if t, ok := parseTimer(name); ok {
			if set[group+t.name] != t.setter {
				return nil, fmt.Errorf("a timer took effect that was cancelled, replaced or had fired: %q in %q", name, applied)
			}
			delete(set, group+t.name)
		}
		m := w.scenario.Messages[name]
		delete(set, group+m.Cancels)
		if m.Sets != "" {
			set[group+m.Sets] = name
		}
	}
	return set, nil
}

// isSet reports whether a timer is set, and has to take effect.
func (w *world) isSet(applied []string, t aTimer) bool {
	set, err := w.timersOf(applied)
	return err == nil && set[w.scenario.message(t.setter).Group+"/"+t.name] == t.setter
}

// timed checks a commit: no timer takes effect before it is due, or after it was cancelled or
// replaced, and the record has the timers that are set.
func (w *world) timed(applied, fresh []string, g *record.Group, now time.Time) error {
	for _, line := range fresh {
		if t, ok := parseTimer(nameIn(line)); ok && t.due.After(now) {
			return fmt.Errorf("a timer took effect before it is due: %q", line)
		}
	}
	set, err := w.timersOf(applied)
	if err != nil {
		return err
	}
	var want []string
	for name := range set {
		if timer, ok := strings.CutPrefix(name, g.Key.Group+"/"); ok {
			want = append(want, timer)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(g.Timers)); !slices.Equal(got, want) {
		return fmt.Errorf("the record has the timers %q, and %q are set", got, want)
	}
	return nil
}

// fired returns an error if a timer is left that has not taken effect, although nothing is left to
// do.
func (w *world) fired(applied []string) error {
	set, err := w.timersOf(applied)
	if err == nil && len(set) > 0 {
		err = fmt.Errorf("a timer never took effect: %v", set)
	}
	return err
}

// early returns an error if a delayed effect is sent before it is due.
func early(s sent, now time.Time) error {
	due, err := time.Parse(time.RFC3339, s.Due)
	if err == nil && due.After(now) {
		err = fmt.Errorf("sent before it is due at %s: %q", s.Due, s.Body)
	}
	return err
}

// checkDelays checks the timers and delays of a scenario.
func (s *Scenario) checkDelays() error {
	for name, m := range s.Messages {
		switch {
		case m.Sets == "" && m.Cancels == "" && m.Later == 0:
		case s.Tick == 0 || s.Tick%Duration(time.Second) != 0:
			return errors.New("delays need a tick of whole seconds")
		case s.FIFO, s.Forgets, s.Budget.Restores > 0, s.Stream.Stateless:
			return errors.New("delays are explored neither with fifo, restores or records that are forgotten, nor without state")
		case cmp.Or(m.Sets, m.Cancels) == "":
		case (m.Sets != "") != (m.After > 0):
			return fmt.Errorf("message %s: a timer needs a time", name)
		}
	}
	return nil
}

// nameAndNumber splits the name of a worker.
func nameAndNumber(worker string) (what, number string) {
	i := strings.LastIndex(worker, "#")
	return worker[:i], worker[i+1:]
}
