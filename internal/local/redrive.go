package local

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// DeadLetters lists dead letters and leaves them where they are.
func (s *System) DeadLetters(_ context.Context, o admin.DeadLettersOptions) ([]admin.DeadLetter, error) {
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return nil, err
	}
	if o.Limit == 0 {
		o.Limit = admin.DefaultLimit
	}
	out := []admin.DeadLetter{}
	for _, q := range queues {
		letters, err := q.Peek(q.Len())
		if err != nil {
			return nil, fmt.Errorf("read dead letters: %w", err)
		}
		for _, d := range letters {
			letter := deadLetter(q.Name(), d)
			if len(out) < o.Limit && (o.Reason == "" || o.Reason == letter.Reason) {
				out = append(out, letter)
			}
		}
	}
	return out, nil
}

func (s *System) deadQueues(name string) ([]*pebblequeue.Queue, error) {
	if name == "" {
		return s.queues.deads(), nil
	}
	for _, q := range s.queues.deads() {
		if q.Name() == name {
			return []*pebblequeue.Queue{q}, nil
		}
	}
	return nil, fmt.Errorf("dead-letter queue %s: %w", name, admin.ErrNotFound)
}

func deadLetter(queueName string, d queue.Delivery) admin.DeadLetter {
	r, err := fromDeadLetter(d)
	letter := admin.DeadLetter{Queue: queueName, Reason: string(r.Reason), Detail: r.Detail, Sent: d.Sent}
	if err != nil && letter.Reason == "" {
		letter.Reason, letter.Detail = "unreadable", err.Error()
	}
	m := r.Message
	letter.Stream, letter.ID, letter.Group, letter.Source, letter.Epoch, letter.Sequence = m.Stream, m.ID, m.Group, m.Source, m.Epoch, m.Sequence
	if r.Delivery != nil {
		letter.Stream, letter.ID, letter.Group, letter.Destination = r.Delivery.Stream, r.Delivery.Identity, r.Delivery.Group, r.To
	}
	return letter
}

func fromDeadLetter(d queue.Delivery) (record.Refused, error) {
	return wire.FromDeadLetter(wire.Event("", []queue.Delivery{d}).Records[0], trusting())
}

// redriveVisibility is how long a dead letter is hidden while it is looked at.
const redriveVisibility = time.Minute

// Redrive puts dead letters back under their identities: first on the queue that they came to, then off the dead-letter queue. What crashes in between
// is there twice, which the engine is made for.
func (s *System) Redrive(ctx context.Context, o admin.RedriveOptions) (admin.RedriveInfo, error) {
	var info admin.RedriveInfo
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return info, err
	}
	for _, q := range queues {
		if err := s.redriveQueue(ctx, q, o, &info); err != nil {
			return info, err
		}
	}
	return info, nil
}

func (s *System) redriveQueue(ctx context.Context, q *pebblequeue.Queue, o admin.RedriveOptions, info *admin.RedriveInfo) error {
	var left []string
	defer func() {
		for _, receipt := range left {
			_ = q.ChangeVisibility(context.WithoutCancel(ctx), receipt, 0) // it comes back by itself otherwise
		}
	}()
	for seen, all := 0, q.Len(); seen < all; {
		if o.Max > 0 && info.Redriven >= o.Max {
			info.Left += all - seen
			return nil
		}
		batch, err := q.Receive(ctx, pollBatch, redriveVisibility, 0)
		if err != nil {
			return fmt.Errorf("receive dead letters: %w", err)
		}
		if len(batch) == 0 {
			return nil
		}
		seen += len(batch)
		for _, d := range batch {
			if o.Reason != "" && deadLetter(q.Name(), d).Reason != o.Reason || o.Max > 0 && info.Redriven >= o.Max {
				info.Left++
				left = append(left, d.Receipt)
				continue
			}
			if err := s.redriveOne(ctx, q, d); err != nil {
				s.options.Log.Warn("dead letter not redriven", "queue", q.Name(), "message_id", d.ID, "error", err)
				info.Failed++
				left = append(left, d.Receipt)
				continue
			}
			info.Redriven++
		}
	}
	return nil
}

func (s *System) redriveOne(ctx context.Context, q *pebblequeue.Queue, d queue.Delivery) error {
	r, err := fromDeadLetter(d)
	if err != nil {
		return fmt.Errorf("read dead letter: %w", err)
	}
	if err := s.door.Redrive(ctx, r); err != nil {
		return fmt.Errorf("send back: %w", err)
	}
	return q.Delete(ctx, []string{d.Receipt})[0]
}
