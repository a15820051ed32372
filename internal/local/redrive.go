package local

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/deadletter"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
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
			letter := deadletter.Read(q.Name(), d, trusting().Trusted)
			if len(out) < o.Limit && (o.Reason == "" || o.Reason == letter.Reason()) {
				out = append(out, letter.Info())
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

// releaseTime bounds giving back what stays.
const releaseTime = 15 * time.Second

// Redrive puts dead letters back under their identities; see package deadletter. What is refused again while it runs stays.
func (s *System) Redrive(ctx context.Context, o admin.RedriveOptions) (admin.RedriveInfo, error) {
	var info admin.RedriveInfo
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return info, err
	}
	options := deadletter.Options{Reason: o.Reason, Until: s.options.Now(), Log: s.options.Log}
	for _, q := range queues {
		if options.Max = max(0, o.Max-info.Redriven); o.Max > 0 && options.Max == 0 {
			info.Left += q.Len()
			continue
		}
		if err := s.redriveQueue(ctx, q, options, &info); err != nil {
			return info, err
		}
	}
	return info, nil
}

func (s *System) redriveQueue(ctx context.Context, q *pebblequeue.Queue, o deadletter.Options, info *admin.RedriveInfo) error {
	w := &deadletter.Walk{Queue: q, Trusted: trusting().Trusted}
	defer w.Release(ctx, releaseTime)
	r, err := deadletter.Redrive(ctx, w, s.door, o)
	if !r.Through {
		r.Left = max(r.Left, q.Len()-r.Failed) // with those that nobody looked at
	}
	info.Redriven += r.Redriven
	info.Left += r.Left
	info.Failed += r.Failed
	return err
}
