package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// errSlow says that an attempt took so long that a sweep may delete its staged blobs as orphans.
var errSlow = errors.New("too much time between the first blob and the commit")

// commit writes a plan to the store. It returns record.ErrConflict if another attempt was first.
//
// commit runs on a context that outlives ctx by 1.5 s. Without it, a handler that uses up the whole
// deadline would discard the results of the messages before it in the batch, on every redelivery,
// and the slow message would never be identified.
func (e *Engine) commit(ctx context.Context, p *part, pl *plan) error {
	ctx, cancel := outbox.WithGrace(ctx)
	defer cancel()
	if len(pl.staged) > 0 {
		if e.cfg.Now().Sub(pl.since) > outbox.StagedTime {
			p.alone = true // the other messages of the batch may be the slow ones
			return pl.abandon(ctx, errSlow)
		}
		ctx, cancel = context.WithTimeout(ctx, outbox.StagedTime)
		defer cancel()
	}
	pl.next.Succeed(&p.view, pl.now, p.stream.RecordRetention(pl.next.State))
	if p.early && pl.added > 0 && (p.sweeping || pl.next.HasEffects()) {
		if err := e.cfg.Queues.Trigger(ctx, []record.GroupKey{p.key}, e.cfg.LateDelay); err != nil {
			return pl.abandon(ctx, fmt.Errorf("trigger ahead of commit: %w", err))
		}
	}
	if err := admission.Handover(ctx, e.cfg.Queues, pl.refused, pl.failing); err != nil {
		return pl.abandon(ctx, fmt.Errorf("return held messages: %w", err))
	}
	return e.committed(ctx, p, pl, e.cfg.Store.Commit(ctx, pl.commit()))
}

// commit returns the write of a plan.
func (pl *plan) commit() record.Commit {
	return record.Commit{Loaded: pl.loaded, Next: pl.next, Attempt: pl.attempt, Hold: pl.hold, Unhold: pl.unhold, Done: pl.done, Append: pl.chunks()}
}

// committed brings a part up to date with the result of its commit.
func (e *Engine) committed(ctx context.Context, p *part, pl *plan, err error) error {
	switch {
	case errors.Is(err, record.ErrConflict):
		e.discard(ctx, pl.staged)
		e.observe(record.EventConflict, p.stream.Name, 1)
		return fmt.Errorf("commit group: %w", err)
	case refusal(err) != nil, errors.Is(err, record.ErrFull): // nothing was applied
		return pl.abandon(ctx, fmt.Errorf("commit group: %w", err))
	// The commit may have been applied, or may be applied later: undo nothing, load again.
	case err != nil:
		p.doubts = append(p.doubts, pl)
		return fmt.Errorf("commit group: %w", err)
	}
	p.view, p.done = pl.next, append(p.done, pl.done...)
	p.trigger = true
	if !pl.entries.Empty() {
		e.cfg.Appended(p.key)
	}
	for _, entry := range pl.next.Pending[len(pl.next.Pending)-pl.added:] {
		if len(entry.Effects) == 0 && !entry.Kept() {
			p.mark(entry, pl.now)
		}
	}
	for _, event := range pl.events {
		e.cfg.Observe(event)
	}
	e.resolveDoubts(ctx, p)
	return nil
}

// refusal returns the error with which the store refused a commit for good, or nil if err is
// another one.
func refusal(err error) *record.RefusedError {
	r, _ := errors.AsType[*record.RefusedError](err)
	return r
}

// blame looks for the message that makes a commit too large for the store, so that the next plan
// refuses it. If the plan ran several messages, or has others beside one, blame makes each that
// runs commit alone from now on. If it ran a single message, that is the one. If the plan has
// nothing but refusals, the record is too full to remember them: the next plan refuses without
// that. blame reports whether another plan may fit.
func (p *part) blame(pl *plan, why string) bool {
	switch {
	case pl.runs == 0 && pl.remembered == 0:
		return false
	case pl.runs > 1, pl.runs > 0 && len(pl.hold) > 0, pl.accepted && pl.remembered > 0 && !p.alone:
		p.alone = true
	case pl.remembered > 0:
		p.unremembered = true
	case p.refused == nil:
		p.refused = map[record.TokenKey]string{pl.ran.Token(): why}
	default:
		p.refused[pl.ran.Token()] = why
	}
	return true
}

// resolveDoubts deletes the staged blobs of commits in doubt that can no longer be applied: the
// record has a later version, and does not contain them. If the record has not moved past a commit,
// the commit may still be in flight; a sweep deletes its blobs later.
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

// discard deletes staged blobs. If that fails, a sweep deletes them later.
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
