package oncetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Advance moves the clock of the system, and delivers the messages that become due, in the order of
// the due times: messages of timers to their handlers, delayed effects to their destinations. At
// each delivery the clock is at its due time, so timers that a handler sets on the way are
// delivered too. An Advance of 0 delivers the messages that are due now.
//
// It returns the errors of the handlers, after it has delivered the rest. A message whose handler
// failed is delivered again by the next Advance; one that its handler rejected is not.
func (s *System) Advance(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("advance the clock by %s: it can't go back", d)
	}
	b := s.backend
	if b.engine == nil {
		return errors.New("advance the clock: the system has processed nothing yet")
	}
	end := b.clock().Add(d)
	var errs []error
	var failed []record.Delayed
	for {
		next, ok := b.due(end)
		if !ok {
			break
		}
		again, err := b.deliver(ctx, &next)
		if errs = append(errs, err); again {
			failed = append(failed, next)
		}
		b.publish(ctx)
	}
	b.set(end)
	_ = b.Delay(ctx, failed)
	return errors.Join(errs...)
}

// Now returns the time of the system's clock.
func (s *System) Now() time.Time { return s.backend.clock() }

// deliver delivers one message, and reports whether it has to be delivered again.
func (b *backend) deliver(ctx context.Context, d *record.Delayed) (again bool, err error) {
	if d.Delivery != nil {
		err := b.engine.Deliver(ctx, d.To, *d.Delivery)
		return err != nil, err
	}
	switch out := b.engine.Process(ctx, []record.Message{d.Message})[0]; out.Kind {
	case record.Retry:
		return true, fmt.Errorf("timer %q of group %s: %w", d.Message.Timer, d.Message.GroupKey(), out.Err)
	case record.Rejected:
		return false, fmt.Errorf("timer %q of group %s: rejected: %s", d.Message.Timer, d.Message.GroupKey(), out.Detail)
	case record.Processed, record.Duplicate, record.HeldBack:
	}
	return false, nil
}

func (m *memory) clock() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// set moves the clock, never back.
func (m *memory) set(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.After(m.now) {
		m.now = now
	}
}

// due removes and returns the earliest delayed message that is due at a time, and moves the clock
// to when it is due.
func (m *memory) due(at time.Time) (record.Delayed, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.delayed) == 0 || m.delayed[0].NotBefore.After(at) {
		return record.Delayed{}, false
	}
	next := m.delayed[0]
	m.delayed = m.delayed[1:]
	if next.NotBefore.After(m.now) {
		m.now = next.NotBefore
	}
	return next, true
}

// Delay keeps messages in the order in which they are due, and those of one time in the order in
// which they came.
func (m *memory) Delay(_ context.Context, delayed []record.Delayed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delayed = append(slices.Clone(m.delayed), delayed...)
	slices.SortStableFunc(m.delayed, func(a, b record.Delayed) int { return a.NotBefore.Compare(b.NotBefore) })
	return nil
}
