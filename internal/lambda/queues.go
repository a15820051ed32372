package lambda

import (
	"context"
	"errors"
	"time"

	"github.com/effectively-once/once/internal/process"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// queues are the queues of a deployment. SQS has a message durably when it answers, so that every order of calls is kept.
type queues struct {
	ingress, ingressFIFO queue.Queue
	publish, publishFIFO queue.Queue // delayed triggers, and the others: one publisher a group
	dead, deadPublish    queue.Queue

	byNumber map[string]bool // the streams whose order comes from numbers
	now      func() time.Time
}

// entrance is the ingress queue for a message: first-in-first-out, but for numbered messages, which would block their own predecessors in it.
func (q *queues) entrance(m *record.Message) queue.Queue {
	if q.byNumber[m.Stream] && m.Route == "" {
		return q.ingress
	}
	return q.ingressFIFO
}

// Enqueue puts a message on its ingress queue. See api.Queue.
func (q *queues) Enqueue(ctx context.Context, m record.Message) error {
	return q.entrance(&m).Send(ctx, []queue.Message{wire.ToQueue(m)})[0].Err
}

// Trigger asks for publishing. See record.Queues.
func (q *queues) Trigger(ctx context.Context, groups []record.GroupKey, delay time.Duration) error {
	to := q.publishFIFO
	if delay > 0 { // which no first-in-first-out queue takes for one message
		to = q.publish
	}
	messages := make([]queue.Message, len(groups))
	for i, key := range groups {
		messages[i] = wire.ToTrigger(key)
		messages[i].Delay = delay
	}
	return send(ctx, to, messages)
}

// Return puts messages back on the ingress queue. See record.Queues.
func (q *queues) Return(ctx context.Context, messages []record.Message) error {
	return q.later(ctx, messages, func(*record.Message) time.Duration { return 0 })
}

// Defer puts messages back on the ingress queue for later, the older the longer. See process.Defer.
func (q *queues) Defer(ctx context.Context, messages []record.Message) error {
	now := q.now()
	return q.later(ctx, messages, func(m *record.Message) time.Duration { return process.Backoff(m, now) })
}

func (q *queues) later(ctx context.Context, messages []record.Message, delay func(*record.Message) time.Duration) error {
	out := make([]queue.Message, len(messages))
	for i, m := range messages {
		out[i] = wire.ToQueue(m)
		out[i].Delay = delay(&m)
	}
	return send(ctx, q.ingress, out)
}

// DeadLetter puts refused messages and effects on their dead-letter queues. See record.Queues.
func (q *queues) DeadLetter(ctx context.Context, refused []record.Refused) error {
	var messages, effects []queue.Message
	for _, r := range refused {
		if r.Delivery != nil {
			effects = append(effects, wire.ToDeadLetter(r))
			continue
		}
		messages = append(messages, wire.ToDeadLetter(r))
	}
	return errors.Join(send(ctx, q.dead, messages), send(ctx, q.deadPublish, effects))
}

func send(ctx context.Context, to queue.Queue, messages []queue.Message) error {
	var errs []error
	for _, r := range to.Send(ctx, messages) {
		errs = append(errs, r.Err)
	}
	return errors.Join(errs...)
}

// An inlet puts messages on their ingress queues for the stream destinations.
type inlet struct{ *queues }

// Enqueue sends in rounds, each with the next message of every group: in a batch with two of a group the first could fail and the second not. See stream.Queue.
func (q inlet) Enqueue(ctx context.Context, messages []record.Message) []error {
	errs := make([]error, len(messages))
	stopped := map[record.GroupKey]error{}
	for left := indexes(len(messages)); len(left) > 0; {
		var now, later []int
		taken := map[record.GroupKey]bool{}
		for _, i := range left {
			key := messages[i].GroupKey()
			switch {
			case stopped[key] != nil:
				errs[i] = stopped[key]
			case taken[key]:
				later = append(later, i)
			default:
				taken[key] = true
				now = append(now, i)
			}
		}
		q.enqueue(ctx, messages, now, errs)
		for _, i := range now {
			stopped[messages[i].GroupKey()] = errs[i]
		}
		left = later
	}
	return errs
}

// enqueue sends messages of different groups together.
func (q inlet) enqueue(ctx context.Context, messages []record.Message, now []int, errs []error) {
	byQueue := map[queue.Queue][]int{}
	for _, i := range now {
		to := q.entrance(&messages[i])
		byQueue[to] = append(byQueue[to], i)
	}
	for to, list := range byQueue {
		out := make([]queue.Message, len(list))
		for j, i := range list {
			out[j] = wire.ToQueue(messages[i])
		}
		for j, r := range to.Send(ctx, out) {
			errs[list[j]] = r.Err
		}
	}
}

func indexes(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
