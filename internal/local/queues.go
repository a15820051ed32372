package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// queues are the queues of a deployment. They share the store's database and so its write-ahead log, which is why most writes need not wait
// for the disk: one is lost only together with everything that was written after it.
type queues struct {
	ingress, ingressFIFO *pebblequeue.Queue
	publish, publishFIFO *pebblequeue.Queue // delayed triggers, and the others: one publisher a group
	dead, deadPublish    *pebblequeue.Queue // refused messages and refused effects

	byNumber map[string]bool // the streams whose order comes from numbers
}

// openQueues opens them without a limit on receives: the functions refuse what is hopeless, with a reason, and what waits for a destination may wait as long as that takes.
func openQueues(db *pebble.DB, now func() time.Time) (*queues, error) {
	q := &queues{}
	for name, at := range map[string]**pebblequeue.Queue{
		"ingress": &q.ingress, "ingress.fifo": &q.ingressFIFO, "publish": &q.publish, "publish.fifo": &q.publishFIFO,
		"ingress-dead": &q.dead, "publish-dead": &q.deadPublish,
	} {
		opened, err := pebblequeue.Open(db, name, pebblequeue.Options{Now: now})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open queue %s: %w", name, err), q.Close())
		}
		*at = opened
	}
	return q, nil
}

// all lists the open queues, dead-letter queues last.
func (q *queues) all() []*pebblequeue.Queue {
	var open []*pebblequeue.Queue
	for _, x := range append([]*pebblequeue.Queue{q.ingress, q.ingressFIFO, q.publish, q.publishFIFO}, q.deads()...) {
		if x != nil {
			open = append(open, x)
		}
	}
	return open
}

func (q *queues) deads() []*pebblequeue.Queue {
	return []*pebblequeue.Queue{q.dead, q.deadPublish}
}

// Close wakes whoever waits on a queue.
func (q *queues) Close() error {
	var errs []error
	for _, x := range q.all() {
		errs = append(errs, x.Close())
	}
	return errors.Join(errs...)
}

// entrance is the ingress queue for a message: first-in-first-out, but for numbered messages, which would block their own predecessors in it.
func (q *queues) entrance(m *record.Message) *pebblequeue.Queue {
	if q.byNumber[m.Stream] && m.Route == "" {
		return q.ingress
	}
	return q.ingressFIFO
}

// Enqueue puts a message on its ingress queue, durably.
func (q *queues) Enqueue(ctx context.Context, m record.Message) error {
	crash("before-enqueue")
	x := q.entrance(&m)
	result := x.Send(ctx, []queue.Message{inbound(x, m)})[0]
	crash("after-enqueue")
	return result.Err
}

// inbound is a message as the queue takes it.
func inbound(x *pebblequeue.Queue, m record.Message) queue.Message {
	out := wire.ToQueue(m)
	if !queue.FIFO(x.Name()) {
		out.Group, out.DedupID = "", ""
	}
	out.Sender = wire.Sender
	return out
}

// An ordered puts messages on their ingress queues for the stream destinations.
type ordered struct{ *queues }

// Enqueue puts messages on their ingress queues, no later than anything that is written afterwards.
func (q ordered) Enqueue(ctx context.Context, messages []record.Message) []error {
	errs := make([]error, len(messages))
	stopped := map[record.GroupKey]error{}
	for i, m := range messages {
		if errs[i] = stopped[m.GroupKey()]; errs[i] != nil {
			continue
		}
		x := q.entrance(&m)
		errs[i] = x.SendOrdered(ctx, []queue.Message{inbound(x, m)})[0].Err
		stopped[m.GroupKey()] = errs[i]
	}
	return errs
}

// Trigger asks for publishing. See [record.Queues].
func (q *queues) Trigger(ctx context.Context, groups []record.GroupKey, delay time.Duration) error {
	crash("before-trigger")
	x := q.publishFIFO
	if delay > 0 {
		x = q.publish
	}
	messages := make([]queue.Message, len(groups))
	for i, key := range groups {
		messages[i] = wire.ToTrigger(key)
		messages[i].Sender, messages[i].Delay = wire.Sender, delay
		if delay > 0 {
			messages[i].Group, messages[i].DedupID = "", ""
		}
	}
	err := sendAll(ctx, x, messages)
	crash("after-trigger")
	return err
}

// Return puts messages back on the ingress queue.
func (q *queues) Return(ctx context.Context, messages []record.Message) error {
	return q.later(ctx, messages, 0)
}

// Defer puts messages back on the ingress queue for later.
func (q *queues) Defer(ctx context.Context, messages []record.Message) error {
	return q.later(ctx, messages, time.Second)
}

func (q *queues) later(ctx context.Context, messages []record.Message, delay time.Duration) error {
	out := make([]queue.Message, len(messages))
	for i, m := range messages {
		out[i] = inbound(q.ingress, m)
		out[i].Delay = delay
	}
	return sendAll(ctx, q.ingress, out)
}

// DeadLetter puts refused messages and effects on their dead-letter queues.
func (q *queues) DeadLetter(ctx context.Context, refused []record.Refused) error {
	for _, r := range refused {
		x := q.dead
		if r.Delivery != nil {
			x = q.deadPublish
		}
		m := wire.ToDeadLetter(r)
		m.Sender, m.Group, m.DedupID = wire.Sender, "", ""
		if err := sendAll(ctx, x, []queue.Message{m}); err != nil {
			return err
		}
	}
	return nil
}

func sendAll(ctx context.Context, x *pebblequeue.Queue, messages []queue.Message) error {
	var errs []error
	for _, r := range x.SendOrdered(ctx, messages) {
		errs = append(errs, r.Err)
	}
	return errors.Join(errs...)
}
