package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/outbox"
	"github.com/effectively-once/once/internal/record"
)

// errSlow says that a sweep may soon take an attempt's blobs for strays.
var errSlow = errors.New("it took too long from its first blob to its commit")

// commit makes a plan real, or finds out that another attempt was first. It outlives ctx by a moment: a handler that runs until the end would else undo those before it in
// its batch, each time anew, and never be blamed.
func (e *Engine) commit(ctx context.Context, p *part, pl *plan) error {
	ctx, cancel := outbox.Noting(ctx)
	defer cancel()
	if len(pl.staged) > 0 {
		if e.cfg.Now().Sub(pl.since) > outbox.StagedTime {
			p.alone = true // it may be the other messages of the batch that take so long
			return pl.abandon(ctx, errSlow)
		}
		ctx, cancel = context.WithTimeout(ctx, outbox.StagedTime)
		defer cancel()
	}
	pl.next.Succeed(&p.view, pl.now, p.stream.GroupRetention)
	if p.early && pl.added > 0 && (p.sweeping || pl.next.HasEffects()) {
		if err := e.cfg.Queues.Trigger(ctx, []record.GroupKey{p.key}, e.cfg.LateDelay); err != nil {
			return pl.abandon(ctx, fmt.Errorf("trigger ahead of commit: %w", err))
		}
	}
	if err := admission.Handover(ctx, e.cfg.Queues, pl.refused, pl.failing); err != nil {
		return pl.abandon(ctx, fmt.Errorf("give back held messages: %w", err))
	}
	err := e.cfg.Store.Commit(ctx, record.Commit{Loaded: pl.loaded, Next: pl.next, Attempt: pl.attempt, Hold: pl.hold, Unhold: pl.unhold})
	switch {
	case errors.Is(err, record.ErrConflict):
		e.discard(ctx, pl.staged)
		e.observe(record.EventConflict, p.stream.Name, 1)
		return fmt.Errorf("commit group: %w", err)
	case refusal(err) != nil, errors.Is(err, record.ErrFull): // nothing was applied
		return pl.abandon(ctx, fmt.Errorf("commit group: %w", err))
	case err != nil: // it may have been applied, or may be yet: undo nothing, look again
		p.doubts = append(p.doubts, pl)
		return fmt.Errorf("commit group: %w", err)
	}
	p.view = pl.next
	p.trigger = true
	for _, entry := range pl.next.Pending[len(pl.next.Pending)-pl.added:] {
		if len(entry.Effects) == 0 {
			p.mark(entry, pl.now)
		}
	}
	for _, event := range pl.events {
		e.cfg.Observe(event)
	}
	e.resolveDoubts(ctx, p)
	return nil
}

// refusal tells why the store will never take a commit; nil where it did not say so.
func refusal(err error) *record.RefusedError {
	r, _ := errors.AsType[*record.RefusedError](err)
	return r
}

// blame finds the message that makes a commit too large for the store, so that the next plan refuses it: where several ran, or some are held besides, by having each that runs commit
// alone from now on. It reports whether there is one to be found.
func (p *part) blame(pl *plan, why string) bool {
	switch {
	case pl.runs == 0:
		return false
	case pl.runs > 1, len(pl.hold) > 0:
		p.alone = true
	case p.refused == nil:
		p.refused = map[record.TokenKey]string{pl.ran: why}
	default:
		p.refused[pl.ran] = why
	}
	return true
}

// resolveDoubts deletes the staged blobs of commits that can't land any more: the record has moved past them, and they are not in it. One that is neither in the record nor
// passed by it may still be on its way; a sweep deals with its blobs.
func (e *Engine) resolveDoubts(ctx context.Context, p *part) {
	p.doubts = slices.DeleteFunc(p.doubts, func(pl *plan) bool {
		won := slices.ContainsFunc(p.view.Pending, func(entry record.Pending) bool { return strings.HasPrefix(entry.Attempt, pl.attempt+".") })
		moved := p.view.Version >= pl.next.Version || p.view.Version > 0 && p.view.Incarnation != pl.next.Incarnation
		if moved && !won {
			e.discard(ctx, pl.staged)
		}
		return moved
	})
}

// discard deletes staged blobs. What can't be deleted now a sweep deletes later.
func (e *Engine) discard(ctx context.Context, staged []string) {
	if len(staged) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := e.cfg.Blobs.Discard(ctx, staged); err != nil {
		e.cfg.Log.Warn("staged blobs left for the sweep", "count", len(staged), "error", err)
	}
}
