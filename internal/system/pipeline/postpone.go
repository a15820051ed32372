package pipeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// Delays say where messages wait that are due later.
type Delays struct {
	// Store keeps messages for longer than Horizon. If it is nil, such messages are refused with an
	// error, and Horizon is [queue.MaxDelay].
	Store delay.Store
	// Horizon is the longest delay for which the standard queues keep a message themselves. It is
	// at most [queue.MaxDelay]. If it is 0, every delayed message goes through the store, and from
	// there to the queue on which it would be without a delay. Otherwise a delayed message goes
	// to a standard queue, because no first-in-first-out queue takes a delay for one message.
	Horizon time.Duration
}

func (d Delays) withDefaults() Delays {
	if d.Store == nil {
		d.Horizon = queue.MaxDelay
	}
	return d
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
// It is the function of a [delay.Keeper]. To a queue of AWS it makes concurrent requests.
func (q *Queues) Move(ctx context.Context, name string, messages []queue.Message) []error {
	to := q.named(name)
	if to == nil {
		return record.ErrorsOf(fmt.Errorf("there is no queue %q for delayed messages", name), len(messages))
	}
	if queue.AllOrNone(to) || queue.FIFO(to.Name()) {
		return record.ErrorsOf(send(ctx, to, messages...), len(messages))
	}
	errs := make([]error, len(messages))
	var g errgroup.Group
	g.SetLimit(sending)
	for at := 0; at < len(messages); at += sendSize {
		end := min(at+sendSize, len(messages))
		g.Go(func() error {
			copy(errs[at:end], record.ErrorsOf(send(ctx, to, messages[at:end]...), end-at))
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	return errs
}

// nameBytes is how much of the hash of an identity is the name of an item. It is enough to tell
// identities apart, and every byte is stored for each message that waits.
const nameBytes = 16

// item returns a message as one that waits. Its age counts from the time when it is due.
func (q *Queues) item(m record.Message) delay.Item {
	m.Accepted = m.NotBefore
	name := delayedIngressFIFO
	if q.ports.Delays.Horizon > 0 || q.Unordered(&m) {
		name = delayedIngress
	}
	key := record.NewTokenKey(m.Principal, m.Stream, m.Identity())
	return delay.Item{Key: delay.Key{Due: m.NotBefore, Name: "m" + string(key[:nameBytes])}, Queue: name, Message: wire.ToQueue(m)}
}

// Delay puts effects and messages of timers on their queues when they are due. See [record.Queues].
// An effect or a timer that is too large to wait becomes a dead letter: a retry could not succeed.
func (q *Queues) Delay(ctx context.Context, delayed []record.Delayed) error {
	items := make([]delay.Item, len(delayed))
	for i := range delayed {
		items[i] = delayedItem(&delayed[i])
	}
	errs := q.postpone(ctx, items)
	for i, d := range delayed {
		if err := errs[i]; errors.Is(err, delay.ErrTooLarge) {
			errs[i] = q.DeadLetter(ctx, []record.Refused{{Message: d.Message, Delivery: d.Delivery, To: d.To, Reason: record.ReasonUndeliverable, Detail: err.Error()}})
		}
	}
	return record.Each(errs)
}

// certain is a size of the content of effects and timers that every store and queue can hold,
// however it is written.
const certain = 32 << 10

// CheckDelay returns an error if the message or effect is too large to wait for its time. See
// [dedup.Config].
func (q *Queues) CheckDelay(d *record.Delayed) error {
	m := &d.Message
	if d.Delivery != nil {
		f := &d.Delivery.Effect
		m = &record.Message{ContentType: f.ContentType, Headers: f.Headers, Body: f.Body}
	}
	if m.Size() <= certain {
		return nil
	}
	item := delayedItem(d)
	to := q.named(item.Queue)
	item.Message.Group, item.Message.DedupID = "", "" // as in postpone
	if err := valid(to, &item.Message); err != nil {
		return err
	}
	store, ok := q.ports.Delays.Store.(delay.Limited)
	if !ok || item.Due.Sub(q.now()) <= q.ports.Delays.Horizon {
		return nil
	}
	if err := store.Fits(&item); err != nil {
		return errWaitsLong
	}
	return nil
}

// errWaitsLong says what fits for certain: the largest item is 390 KiB, and base64 takes a quarter.
var errWaitsLong = errors.New("too large to wait for more than 15 minutes: 280 KiB with its headers fit; send a reference to the content")

// delayedItem returns an effect, or the message of a timer, as one that waits. Both go to standard
// queues: they have no order among other effects and messages of their group.
func delayedItem(d *record.Delayed) delay.Item {
	if d.Delivery != nil {
		// After a group was forgotten or dropped, its numbers and so the identities begin again.
		incarnation := strconv.FormatUint(d.Delivery.Incarnation, 10)
		return delay.Item{Key: delayedKey(d, "e", d.Identity()+"@"+incarnation), Queue: delayedPublish, Message: wire.ToRedelivery(d.To, *d.Delivery)}
	}
	m := d.Message
	m.Accepted = d.NotBefore
	return delay.Item{Key: delayedKey(d, "t", d.Identity()), Queue: delayedIngress, Message: wire.ToQueue(m)}
}

func delayedKey(d *record.Delayed, kind, identity string) delay.Key {
	name := sha256.Sum256([]byte(identity))
	return delay.Key{Due: d.NotBefore, Name: kind + string(name[:nameBytes])}
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
			// it is random, so it takes much space, and no queue of delayed messages deduplicates
			item.Message.DedupID = ""
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
