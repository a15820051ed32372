package dedup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// Sweep finishes the work that crashed workers left in one group: it marks and clears entries
// without effects, runs held messages that are next, acts on gaps, and triggers the publishing of
// pending effects.
func (e *Engine) Sweep(ctx context.Context, key record.GroupKey) error {
	if key.OfSessions() {
		return e.sweepSession(ctx, key)
	}
	s, ok := e.streams[key.Stream]
	if !ok {
		return fmt.Errorf("sweep group %s: %w", key, record.ErrNoStream)
	}
	if err := e.publisher.ClearLeftovers(ctx, key); err != nil {
		return fmt.Errorf("sweep group %s: %w", key, err)
	}
	p := newPart(key, s)
	p.trigger = true
	return e.visit(ctx, p)
}

// CloseGaps runs held messages that are next and acts on gaps, as Sweep does, but leaves pending
// entries alone. It is cheap enough to be called often.
func (e *Engine) CloseGaps(ctx context.Context, key record.GroupKey) error {
	s, ok := e.streams[key.Stream]
	if !ok {
		return fmt.Errorf("close gaps of group %s: %w", key, record.ErrNoStream)
	}
	return e.visit(ctx, newPart(key, s))
}

// visit processes a group without a message. No queue would redeliver this work, so it triggers
// before its commits, as Call does.
func (e *Engine) visit(ctx context.Context, p *part) error {
	p.sweeping, p.early = true, true
	e.settleAll(ctx, []*part{p})
	if errors.As(p.err, new(*busyError)) {
		return nil // the call that works on the group does this, or a later visit
	}
	if p.err != nil {
		return fmt.Errorf("sweep group %s: %w", p.key, p.err)
	}
	return nil
}

// closeGaps applies the gap policy to the numbers that did not arrive in time.
func (pl *plan) closeGaps(ctx context.Context) error {
	gap := pl.part.stream.Gap
	for _, key := range slices.Sorted(maps.Keys(pl.next.Sources)) {
		src := pl.next.Sources[key]
		if len(src.Held) == 0 || src.Held.Contains(src.Next) {
			continue
		}
		age := pl.now.Sub(src.GapSince)
		pl.waits(age)
		if gap.Policy == record.GapWait || age < gap.After {
			continue
		}
		// A single number far ahead must not cause all numbers below it to be skipped.
		if gap.Policy == record.GapFail || src.Held.First()-src.Next > pl.part.stream.Bounds.Distance {
			if err := pl.evict(ctx, key, admission.Gap(src.Next)); err != nil {
				return err
			}
			pl.more = len(pl.next.Sources[key].Held) > 0
			continue
		}
		if !pl.fits((&record.Entry{}).Size()) {
			pl.more = true
			return nil
		}
		if err := pl.skip(key, src); err != nil {
			return err
		}
	}
	return nil
}

// skip continues after the missing numbers, remembers them as skipped, and sends an event.
func (pl *plan) skip(key string, src record.Source) error {
	event := admission.GapEvent{Source: record.PlainSource(key), Epoch: src.Epoch, First: src.Next, Last: src.Held.First() - 1}
	src.Skipped = src.Skipped.Add(event.First, event.Last)
	src.Next = src.Held.First()
	pl.put(key, src)
	pl.next.FoldSkipped(pl.part.stream.Limits)
	pl.changed = true
	if err := pl.appendGap(key, event); err != nil {
		return err
	}
	pl.event(record.EventSkipped, int(event.Last-event.First+1), "") //nolint:gosec // bounded by Bounds.Distance
	if len(pl.part.stream.Events) == 0 {
		return nil
	}
	attempt := fmt.Sprintf("%s.gap.%d", pl.attempt, event.First)
	pl.take(record.Pending{Identity: fmt.Sprintf("gap/%s/%d/%d", key, src.Epoch, event.First), Attempt: attempt, Effects: []record.Effect{event.Effect(pl.part.stream.Events)}})
	return nil
}
