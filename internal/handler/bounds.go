package handler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Bounds limit the attempts of one stream's handler in time, and how many run at a time.
type Bounds struct {
	timeout time.Duration
	slots   chan struct{} // one for each attempt that runs
	now     func() time.Time
}

// NewBounds returns the bounds of a stream. If before is not nil and its concurrency is the same,
// the attempts of both count together: before is replaced while some of its attempts run.
func NewBounds(s *record.Stream, before *Bounds, now func() time.Time) *Bounds {
	b := &Bounds{timeout: s.Timeout, now: now}
	if before != nil && cap(before.slots) == s.Concurrency {
		b.slots = before.slots
	} else {
		b.slots = make(chan struct{}, s.Concurrency)
	}
	return b
}

// Handler returns a handler within the bounds. If an attempt has to wait for too long, its error
// wraps a [*record.LaterError] and [record.ErrUntried].
func (b *Bounds) Handler(h record.Handler) record.Handler {
	return func(ctx context.Context, a *record.Attempt, m record.Message) error {
		if err := b.enter(ctx); err != nil {
			return err
		}
		defer b.leave() // after a panic, too
		bounded, cancel := context.WithTimeoutCause(ctx, b.timeout, fmt.Errorf("the handler took longer than its timeout of %v", b.timeout))
		defer cancel()
		err := h(bounded, a, m)
		if err != nil && bounded.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", context.Cause(bounded), err)
		}
		return err
	}
}

// slotTime is how long a message waits for one of the attempts of its handler. It is short, because
// the messages of other streams may wait behind it.
const slotTime = time.Second

// enter waits until one more attempt may run. The caller must leave. The error says that the
// handler was not called: it is no failed try.
func (b *Bounds) enter(ctx context.Context) error {
	select {
	case b.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(slotTime)
	defer timer.Stop()
	select {
	case b.slots <- struct{}{}:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return &record.LaterError{
		At:  b.now().Add(time.Duration(1 + rand.Int64N(int64(slotTime)))), //nolint:gosec // not a secret
		Err: fmt.Errorf("%w: all %d attempts of the handler are in use", record.ErrUntried, cap(b.slots)),
	}
}

func (b *Bounds) leave() { <-b.slots }
