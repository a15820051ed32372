package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// Delays say where messages wait that are due later.
type Delays struct {
	// Store keeps messages for longer than Horizon. If it is nil, such messages are refused with an
	// error.
	Store delay.Store
	// Horizon is the longest delay for which the standard queues keep a message themselves. It is
	// at most [queue.MaxDelay]. If it is 0, every delayed message goes through the store, and from
	// there to the queue on which it would be without a delay. Otherwise a delayed message goes
	// to a standard queue, because no first-in-first-out queue takes a delay for one message.
	Horizon time.Duration
}

// The names of the queues of delayed messages. They are stored with the messages, and are not the
// names of the queues in AWS.
const (
	delayedIngress     = "ingress"
	delayedIngressFIFO = "ingress.fifo"
	delayedPublish     = "publish"
	delayedPublishFIFO = "publish.fifo"
)

func (q *Queues) named(name string) queue.Queue {
	switch name {
	case delayedIngress:
		return q.ports.Ingress
	case delayedIngressFIFO:
		return q.ports.IngressFIFO
	case delayedPublish:
		return q.ports.Publish
	case delayedPublishFIFO:
		return q.ports.PublishFIFO
	}
	return nil
}

// Move sends messages that were delayed to the queue of that name, and returns an error for each.
// It is the function of a [delay.Keeper].
func (q *Queues) Move(ctx context.Context, name string, messages []queue.Message) []error {
	to := q.named(name)
	if to == nil {
		return record.ErrorsOf(fmt.Errorf("there is no queue %q for delayed messages", name), len(messages))
	}
	return record.ErrorsOf(send(ctx, to, messages...), len(messages))
}

// item returns a message as one that waits. Its age counts from the time when it is due.
func (q *Queues) item(m record.Message) delay.Item {
	m.Accepted = m.NotBefore
	name := delayedIngressFIFO
	if q.ports.Delays.Horizon > 0 || q.Unordered(&m) {
		name = delayedIngress
	}
	key := record.NewTokenKey(m.Principal, m.Stream, m.Identity())
	return delay.Item{Key: delay.Key{Due: m.NotBefore, Name: "m" + string(key[:])}, Queue: name, Message: wire.ToQueue(m)}
}

// postpone keeps messages until they are due, and returns an error for each. Repeating a message is
// harmless. Items that are due by then reach their queues immediately.
func (q *Queues) postpone(ctx context.Context, items []delay.Item) []error {
	errs := make([]error, len(items))
	byQueue := map[string][]int{}
	var stored []int
	now := q.now()
	for i := range items {
		item := &items[i]
		to := q.named(item.Queue)
		if !queue.FIFO(to.Name()) {
			item.Message.Group, item.Message.DedupID = "", ""
		}
		if errs[i] = valid(to, &item.Message); errs[i] != nil {
			continue
		}
		switch left := item.Due.Sub(now); {
		case left <= q.ports.Delays.Horizon && !queue.FIFO(to.Name()), left <= 0:
			item.Message.Delay = delay.Seconds(left)
			byQueue[item.Queue] = append(byQueue[item.Queue], i)
		case q.ports.Delays.Store == nil:
			errs[i] = errNoDelays
		default:
			stored = append(stored, i)
		}
	}
	for name, places := range byQueue {
		messages := make([]queue.Message, len(places))
		for k, i := range places {
			messages[k] = items[i].Message
		}
		put(ctx, q.named(name), messages, places, errs)
	}
	q.store(ctx, items, stored, errs)
	return errs
}

// valid checks a message before it waits: it can't be refused when it is due.
func valid(to queue.Queue, m *queue.Message) error {
	if queue.Largest(to) == queue.MaxLarge {
		return m.ValidateLarge(to.Name())
	}
	return m.Validate(to.Name())
}

var errNoDelays = errors.New("this system keeps no delayed messages")

// store puts items, named by their places, in the store. If one is too large, the others are put
// without it.
func (q *Queues) store(ctx context.Context, items []delay.Item, places []int, errs []error) {
	if len(places) == 0 {
		return
	}
	part := make([]delay.Item, len(places))
	for k, i := range places {
		part[k] = items[i]
	}
	err := q.ports.Delays.Store.Put(ctx, part)
	if errors.Is(err, delay.ErrTooLarge) && len(places) > 1 {
		for _, i := range places {
			errs[i] = q.ports.Delays.Store.Put(ctx, items[i:i+1])
		}
		return
	}
	for _, i := range places {
		errs[i] = err
	}
}
