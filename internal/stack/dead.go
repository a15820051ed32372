package stack

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

const (
	receiveBatch = 10
	// deadVisibility is how long a dead letter is hidden from others while it is looked at or put back.
	deadVisibility = 2 * time.Minute
	// deadWait makes SQS ask all of its servers: a receive without a wait may miss messages.
	deadWait = time.Second
	// releaseTime bounds giving back what was received, also after an interrupt.
	releaseTime = 15 * time.Second
)

// DeadLetters lists dead letters and leaves them where they are: it receives them, which hides them from other receivers until the listing ends, two minutes at most.
func (s *System) DeadLetters(ctx context.Context, o admin.DeadLettersOptions) ([]admin.DeadLetter, error) {
	if o.Limit == 0 {
		o.Limit = admin.DefaultLimit
	}
	trusted, err := s.stack.trusted(ctx)
	if err != nil {
		return nil, err
	}
	out := []admin.DeadLetter{}
	err = s.walk(ctx, o.Queue, trusted, func(_ context.Context, q queue.Queue, d *queue.Delivery, r record.Refused, err error) verdict {
		letter := deadLetter(q.Name(), d, r, err)
		if o.Reason == "" || o.Reason == letter.Reason {
			out = append(out, letter)
		}
		if len(out) >= o.Limit {
			return stop
		}
		return keep
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// verdict is what becomes of a dead letter, and of the walk.
type verdict uint8

const (
	keep   verdict = iota // leave the dead letter where it is
	remove                // it has been put back: delete it
	stop                  // leave it, and look at no others
)

// visitor looks at one dead letter; err says that it can't be read.
type visitor func(ctx context.Context, q queue.Queue, d *queue.Delivery, r record.Refused, err error) verdict

// walk shows every dead letter of one queue, or of all where the name is empty, to a visitor once.
func (s *System) walk(ctx context.Context, name string, trusted []string, visit visitor) error {
	queues, err := s.deadQueues(name)
	if err != nil {
		return err
	}
	for _, q := range queues {
		w := walker{queue: q, visit: visit, trusted: wire.Defaults{Trusted: trusted}, seen: map[string]bool{}}
		if ended, err := w.run(ctx); err != nil || ended {
			return err
		}
	}
	return nil
}

func (s *System) deadQueues(name string) ([]queue.Queue, error) {
	if name == "" {
		return s.dead, nil
	}
	for _, q := range s.dead {
		if q.Name() == name {
			return []queue.Queue{q}, nil
		}
	}
	return nil, fmt.Errorf("dead-letter queue %s: %w", name, admin.ErrNotFound)
}

// A walker goes through one dead-letter queue.
type walker struct {
	queue   queue.Queue
	visit   visitor
	trusted wire.Defaults
	seen    map[string]bool
	left    []string // receipts of what stays
}

func (w *walker) run(ctx context.Context) (ended bool, err error) {
	defer w.release(ctx)
	for {
		batch, err := w.queue.Receive(ctx, receiveBatch, deadVisibility, deadWait)
		if err != nil {
			return false, fmt.Errorf("receive dead letters: %w", Explain(err))
		}
		fresh := false
		for i := range batch {
			fresh = fresh || !w.seen[batch[i].ID]
		}
		if ended, err = w.batch(ctx, batch); ended || err != nil || !fresh {
			return ended, err
		}
	}
}

// batch shows a batch to the visitor. Once it has said stop, the rest is given back unseen.
func (w *walker) batch(ctx context.Context, batch []queue.Delivery) (ended bool, err error) {
	for i := range batch {
		d := &batch[i]
		v := keep
		if !ended && !w.seen[d.ID] && ctx.Err() == nil {
			w.seen[d.ID] = true
			r, err := wire.FromDeadLetter(wire.Event("", []queue.Delivery{*d}).Records[0], w.trusted)
			v = w.visit(ctx, w.queue, d, r, err)
		}
		ended = ended || v == stop
		if v != remove {
			w.left = append(w.left, d.Receipt)
			continue
		}
		// Its copy is where it belongs. Where this fails there are two for a while, under one identity.
		if deleted := w.queue.Delete(ctx, []string{d.Receipt})[0]; deleted != nil && err == nil {
			err = fmt.Errorf("delete dead letter that was put back: %w", Explain(deleted))
		}
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return ended, err
}

// release gives back what stays; without it, it would come back by itself when its time is over.
func (w *walker) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	for _, receipt := range w.left {
		_ = w.queue.ChangeVisibility(ctx, receipt, 0)
	}
}

func deadLetter(queueName string, d *queue.Delivery, r record.Refused, err error) admin.DeadLetter {
	letter := admin.DeadLetter{Queue: queueName, Reason: string(r.Reason), Detail: r.Detail, Sent: d.Sent}
	if err != nil && letter.Detail == "" {
		letter.Detail = err.Error()
	}
	m := r.Message
	letter.Stream, letter.ID, letter.Group, letter.Source, letter.Epoch, letter.Sequence = m.Stream, m.ID, m.Group, m.Source, m.Epoch, m.Sequence
	if r.Delivery != nil {
		letter.Stream, letter.ID, letter.Group, letter.Destination = r.Delivery.Stream, r.Delivery.Identity, r.Delivery.Group, r.To
	}
	return letter
}
