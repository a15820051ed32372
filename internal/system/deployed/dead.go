package deployed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
)

const (
	// deadWait makes SQS ask all of its servers: a receive without a wait may miss messages.
	deadWait = time.Second
	// releaseTime bounds returning the received messages to the queue, also after an interrupt.
	releaseTime = 15 * time.Second
)

// DeadLetters lists dead letters without removing them: it receives them, which hides them from
// other receivers until the listing ends, two minutes at most.
func (s *System) DeadLetters(ctx context.Context, o admin.DeadLettersOptions) ([]admin.DeadLetter, error) {
	if o.Limit == 0 {
		o.Limit = admin.DefaultLimit
	}
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return nil, err
	}
	trusted, err := s.stack.trusted(ctx)
	if err != nil {
		return nil, err
	}
	out := &deadletter.Merged{Limit: o.Limit, Content: o.Content, List: []admin.DeadLetter{}}
	bodies := s.bodies
	if o.Content == 0 {
		bodies = unasked{}
	}
	trusts := func(d *queue.Delivery) bool { return wire.Defaults{Trusted: trusted}.Trusts(d) }
	for _, q := range queues {
		whole := queue.Named(q.queue.WithBodies(bodies, trusts), q.name)
		if err := list(ctx, whole, trusted, o, out); err != nil {
			return nil, explain(err)
		}
	}
	return out.List, nil
}

// list adds the dead letters of one queue, up to the limit. With an id it finds all copies.
func list(ctx context.Context, q queue.Queue, trusted []string, o admin.DeadLettersOptions, out *deadletter.Merged) error {
	if len(out.List) >= o.Limit {
		return nil
	}
	w := &deadletter.Walk{Queue: q, Trusted: trusted, Wait: deadWait}
	defer w.Release(ctx, releaseTime)
	_, err := w.Run(ctx, func(_ context.Context, l *deadletter.Letter) (deadletter.Verdict, bool) {
		if l.Matches(deadletter.Filter{Stream: o.Stream, Reason: o.Reason, ID: o.ID}) {
			out.Add(l)
		}
		return deadletter.Keep, o.ID != "" || len(out.List) < o.Limit
	})
	return err
}

// A deadQueue is a dead-letter queue by the name that people give it.
type deadQueue struct {
	name  string
	queue *sqsqueue.Queue
}

// unasked are the bodies for a listing that does not show them.
type unasked struct{}

var errUnasked = errors.New("not asked for")

func (unasked) Put(context.Context, string, []byte) error { return errUnasked }

func (unasked) Get(context.Context, string) (body []byte, ok bool, err error) {
	return nil, false, errUnasked
}

func (s *System) deadQueues(name string) ([]deadQueue, error) {
	if name == "" {
		return s.dead, nil
	}
	for _, q := range s.dead {
		if q.name == name {
			return []deadQueue{q}, nil
		}
	}
	return nil, fmt.Errorf("dead-letter queue %s: %w", name, admin.ErrNotFound)
}
