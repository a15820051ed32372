// Package memqueue is a queue in memory, for tests that need no disk: those under virtual time, and
// simulations. It passes the suite of the port. Nothing survives the process.
//
// # Limits
//
// It does not deduplicate. Every receive looks at the messages from the first one on, so it is for
// queues that are short most of the time.
package memqueue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/queue"
)

// Options configure a queue. Zero fields take the defaults in their comments.
type Options struct {
	// DeadLetter gets the messages that were received MaxReceives times. Defaults to none.
	DeadLetter  *Queue
	MaxReceives int
	// Now defaults to time.Now.
	Now func() time.Time
}

// A Queue implements [queue.Queue].
type Queue struct {
	name    string
	options Options

	mu      sync.Mutex
	last    int // the number of the last message that was sent
	items   []*item
	changed chan struct{} // closed when a message may have become visible, and then replaced
	deepest int
}

var _ queue.Queue = (*Queue)(nil)

// An item is a message on the queue.
type item struct {
	queue.Delivery
	visible time.Time // from then on
}

// New returns an empty queue. If its name ends in ".fifo", it is first-in-first-out.
func New(name string, o Options) *Queue {
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the one default clock
	}
	return &Queue{name: name, options: o, changed: make(chan struct{})}
}

// Name implements [queue.Queue].
func (q *Queue) Name() string { return q.name }

// Largest returns [queue.MaxLarge], see [queue.Largest].
func (q *Queue) Largest() int { return queue.MaxLarge }

// AllOrNone is for [queue.AllOrNone]: Send puts all valid messages.
func (q *Queue) AllOrNone() bool { return true }

// Deepest returns the largest number of messages that the queue has held.
func (q *Queue) Deepest() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.deepest
}

// Len returns how many messages the queue holds, hidden ones included.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Send implements [queue.Queue].
func (q *Queue) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Now()
	out := make([]queue.SendResult, len(messages))
	for i, m := range messages {
		if out[i].Err = ctx.Err(); out[i].Err == nil {
			out[i].Err = m.ValidateLarge(q.name)
		}
		if out[i].Err != nil {
			continue
		}
		q.last++
		out[i].ID = strconv.Itoa(q.last)
		if queue.FIFO(q.name) {
			out[i].SequenceNumber = out[i].ID
		}
		d := queue.Delivery{Message: m, Queue: q.name, ID: out[i].ID, SequenceNumber: out[i].SequenceNumber, Sent: now}
		q.items = append(q.items, &item{Delivery: d, visible: now.Add(m.Delay)})
	}
	q.deepest = max(q.deepest, len(q.items))
	q.wake()
	return out
}

// wake wakes the waiting receivers. The caller holds the lock.
func (q *Queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Receive implements [queue.Queue].
func (q *Queue) Receive(ctx context.Context, limit int, visibility, wait time.Duration) ([]queue.Delivery, error) {
	end := q.options.Now().Add(wait)
	for {
		out, changed, next := q.take(limit, visibility)
		left := end.Sub(q.options.Now())
		switch {
		case len(out) > 0, wait > 0 && left <= 0, wait <= 0:
			return out, nil
		}
		if next > 0 {
			left = min(left, next)
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// take receives without waiting. If there is no message, it returns a channel that is closed when
// there may be one, and the time until the next hidden message is visible, or 0.
func (q *Queue) take(limit int, visibility time.Duration) (out []queue.Delivery, changed <-chan struct{}, next time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Now()
	var hidden map[string]bool // groups with a message that another receiver has
	if queue.FIFO(q.name) {
		hidden = q.hidden(now)
	}
	for i := 0; i < len(q.items) && len(out) < limit; i++ {
		it := q.items[i]
		if it.visible.After(now) {
			if until := it.visible.Sub(now); next == 0 || until < next {
				next = until
			}
			continue
		}
		if hidden[it.Group] {
			continue
		}
		if q.options.DeadLetter != nil && it.Receives >= q.options.MaxReceives {
			q.options.DeadLetter.put(it)
			q.items = slices.Delete(q.items, i, i+1)
			i--
			continue
		}
		it.Receives++
		it.Receipt = it.ID + "-" + strconv.Itoa(it.Receives)
		it.visible = now.Add(visibility)
		if it.FirstReceived.IsZero() {
			it.FirstReceived = now
		}
		out = append(out, it.Delivery)
	}
	return out, q.changed, next
}

// hidden returns the groups with a hidden message.
func (q *Queue) hidden(now time.Time) map[string]bool {
	out := map[string]bool{}
	for _, it := range q.items {
		if it.visible.After(now) {
			out[it.Group] = true
		}
	}
	return out
}

// put adds a dead letter.
func (q *Queue) put(letter *item) {
	m := letter.Message
	m.Delay = 0
	q.Send(context.Background(), []queue.Message{m})
}

// Delete implements [queue.Queue].
func (q *Queue) Delete(ctx context.Context, receipts []string) []error {
	errs := make([]error, len(receipts))
	if err := ctx.Err(); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Now()
	gone := make(map[string]bool, len(receipts))
	for _, r := range receipts {
		gone[r] = true
	}
	q.items = slices.DeleteFunc(q.items, func(it *item) bool {
		return it.Receipt != "" && gone[it.Receipt] && it.visible.After(now)
	})
	q.wake()
	return errs
}

var errReceipt = errors.New("the receipt is not valid any more")

// ChangeVisibility implements [queue.Queue].
func (q *Queue) ChangeVisibility(ctx context.Context, receipt string, visibility time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Now()
	i := slices.IndexFunc(q.items, func(it *item) bool { return it.Receipt == receipt && it.visible.After(now) })
	if receipt == "" || i < 0 {
		return errReceipt
	}
	q.items[i].visible = now.Add(visibility)
	q.wake()
	return nil
}
