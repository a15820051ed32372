package explore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// queuesPort implements record.Queues for a worker.
type queuesPort struct{ *host }

// put changes the queues for each element of a list.
func (q queuesPort) put(op string, what []string, change func(*queuesPart, string)) error {
	c := call{op: op, touches: touchQueues, text: op + " " + strings.Join(what, ", "), parts: parts(len(what))}
	c.some = func(v view, n int) outcome {
		v.queues = q.w.change(v.queues, func(p *queuesPart) {
			for _, x := range part(what, n) {
				change(p, x)
			}
		})
		return outcome{view: v, answer: q.w.failed(v.now)}
	}
	c.apply = func(v view) outcome {
		o := c.some(v, c.parts)
		o.answer = q.w.done(v.now)
		return o
	}
	return q.ask(c, what).err
}

// Trigger puts triggers on the queue. For one with a delay see sentBy.
func (q queuesPort) Trigger(_ context.Context, groups []record.GroupKey, delay time.Duration) error {
	var what []string
	for _, g := range groups {
		t := g.Group
		if delay > 0 {
			t += sentBy + q.name
		}
		what = append(what, t)
	}
	return q.put("trigger", what, func(p *queuesPart, g string) { p.trigger(g, q.w.scenario.Workers.Publish) })
}

func (q queuesPort) Return(_ context.Context, messages []record.Message) error {
	return q.enqueue("return", messages)
}

// Defer puts messages back for later; the delay does not matter.
func (q queuesPort) Defer(_ context.Context, messages []record.Message) error {
	return q.enqueue("defer", messages)
}

// EnqueueAll implements api.Queue.
func (q queuesPort) EnqueueAll(_ context.Context, messages []record.Message) []error {
	if q.w.scenario.lined() {
		return record.ErrorsOf(q.putWhole(messages, true), len(messages))
	}
	return record.ErrorsOf(q.enqueue(opEnqueue, messages), len(messages))
}

func (q queuesPort) enqueue(op string, messages []record.Message) error {
	return q.put(op, namesOf(messages), q.w.append)
}

func (q queuesPort) DeadLetter(_ context.Context, refused []record.Refused) error {
	var what []string
	for _, r := range refused {
		if r.Delivery != nil {
			what = append(what, deadEffect(r.To, string(r.Delivery.Effect.Body)))
			continue
		}
		what = append(what, nameOf(r.Message)+": "+string(r.Reason))
	}
	return q.put("dead-letter", what, func(p *queuesPart, d string) { p.dead = append(p.dead, d) })
}

// deadEffect returns the name of an effect's dead letter.
func deadEffect(to, body string) string { return "to " + to + ", " + body }

// effectIn returns the body of the effect in a dead letter.
func effectIn(letter string) (body string, ok bool) {
	letter, ok = strings.CutPrefix(letter, "to ")
	_, body, _ = strings.Cut(letter, ", ")
	return body, ok
}

// Pause is the time between two tries, in which the worker's deadline may pass.
func (q queuesPort) Pause(context.Context, int) error {
	if !q.w.scenario.Hurries {
		return nil
	}
	c := call{op: "pause", reads: true, text: "pause"}
	c.apply = func(v view) outcome { return outcome{view: v, answer: q.w.done(v.now)} }
	return q.ask(c).err
}

var errUntaken = errors.New("not taken")

// senderPort implements record.Sender for a worker.
type senderPort struct {
	*host
	to string
}

func (s senderPort) Send(_ context.Context, deliveries []record.Delivery) []error {
	list := make([]sent, len(deliveries))
	for i, d := range deliveries {
		list[i] = sent{
			Identity: d.Identity, To: s.to, Path: d.Stream + "/" + d.Group, Incarnation: d.Incarnation, Number: d.Number, Sequence: d.Sequence, Body: string(d.Effect.Body), Due: d.Effect.Headers[dueHeader],
		}
	}
	c := call{op: opSend, touches: touchSends | touchPast, text: opSend + " " + showSent(list), parts: len(list)}
	if s.w.scenario.Skip > 0 || s.w.scenario.Stream.For > 0 {
		c.touches |= touchQueues | touchStore // for the dead letters and the effects that are pending
	}
	c.some = func(v view, n int) outcome { return s.w.send(v, list, n) }
	c.apply = func(v view) outcome { return c.some(v, len(list)) }
	a := s.ask(c, list)
	errs := make([]error, len(list))
	settled, _ := a.value.(int)
	for i := range errs {
		switch {
		case i >= settled, i > 0 && errors.Is(errs[i-1], errUntaken):
			errs[i] = errNoAnswer
		case s.w.untaken(list[i].Body):
			errs[i] = errUntaken
		case s.w.refuses(list[i].Body):
			errs[i] = &record.RefusedError{Reason: record.ReasonGone}
		}
	}
	return errs
}
