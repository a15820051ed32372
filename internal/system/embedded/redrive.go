package embedded

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// DeadLetters lists dead letters without removing them.
func (s *System) DeadLetters(_ context.Context, o admin.DeadLettersOptions) ([]admin.DeadLetter, error) {
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return nil, err
	}
	if o.Limit == 0 {
		o.Limit = admin.DefaultLimit
	}
	out := []admin.DeadLetter{}
	all := o.Stream+o.Reason+o.ID == ""
	for _, q := range queues {
		n := q.Len()
		if all {
			n = min(n, o.Limit-len(out))
		}
		letters, err := q.Peek(n)
		if err != nil {
			return nil, fmt.Errorf("read dead letters: %w", err)
		}
		for _, d := range letters {
			letter := deadletter.Read(q.Name(), d, trusting().Trusted)
			if len(out) < o.Limit && letter.Matches(deadletter.Filter{Stream: o.Stream, Reason: o.Reason, ID: o.ID}) {
				out = append(out, letter.InfoWithContent(o.Content))
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

// releaseTime bounds returning the dead letters that stay.
const releaseTime = 15 * time.Second

// Redrive puts dead letters back under their identities; see package deadletter. If a message is
// refused again while it runs, it stays.
func (s *System) Redrive(ctx context.Context, o admin.RedriveOptions) (admin.RedriveInfo, error) {
	var info admin.RedriveInfo
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return info, err
	}
	options := deadletter.Options{
		Filter: deadletter.Filter{Stream: o.Stream, Reason: o.Reason, ID: o.ID}, Until: s.options.Now(), Answered: o.Answered, By: o.By, Log: s.options.Log,
	}
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
	g := s.now()
	r, err := deadletter.Redrive(ctx, w, pipeline.Back{Queues: g.door, Engine: g.pipeline.Engine}, o)
	if !r.Through {
		r.Left = max(r.Left, q.Len()-r.Failed-r.Answered) // with the dead letters that were not received
	}
	info.Redriven += r.Redriven
	info.Left += r.Left
	info.Answered += r.Answered
	info.Failed += r.Failed
	for _, f := range r.Failures {
		info.Failures = append(info.Failures, f.Info(q.Name()))
	}
	return err
}

// Drop deletes dead letters forever.
func (s *System) Drop(ctx context.Context, o admin.DropOptions) (admin.DropInfo, error) {
	info := admin.DropInfo{Letters: []admin.DeadLetter{}}
	if err := o.Validate(); err != nil {
		return info, err
	}
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return info, err
	}
	options := deadletter.Options{
		Filter: deadletter.Filter{Stream: o.Stream, Reason: o.Reason, ID: o.ID, MessageIDs: o.MessageIDs}, Until: o.Until, By: o.By, Log: s.options.Log,
	}
	if options.Until.IsZero() {
		options.Until = s.options.Now()
	}
	for _, q := range queues {
		w := &deadletter.Walk{Queue: q, Trusted: trusting().Trusted}
		r, err := deadletter.Drop(ctx, w, options)
		w.Release(ctx, releaseTime)
		info.Dropped += r.Dropped
		info.Letters = append(info.Letters, r.Letters...)
		if err != nil {
			return info, err
		}
	}
	return info, nil
}

// Skip makes a pending effect a dead letter, which is on the disk when Skip returns.
func (s *System) Skip(ctx context.Context, o admin.SkipOptions) (admin.SkipInfo, error) {
	info, err := s.now().pipeline.Skip(ctx, o)
	if err != nil {
		return info, err
	}
	s.dirty.Store(true)
	s.flush()
	return info, nil
}
