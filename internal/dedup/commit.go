package dedup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// commit makes a plan real, or finds out that another attempt was first.
func (e *Engine) commit(ctx context.Context, p *part, pl *plan) error {
	pl.next.Version = p.view.Version + 1
	if p.view.Version == 0 {
		pl.next.Incarnation = uint64(max(1, pl.now.UnixMilli()))
	}
	pl.next.Expires = time.Time{}
	if !pl.next.HasEffects() && !pl.next.HasHeld() {
		pl.next.Expires = pl.now.Add(p.stream.GroupRetention)
	}
	if p.early && pl.added > 0 && (p.sweeping || pl.next.HasEffects()) {
		if err := e.cfg.Queues.Trigger(ctx, []record.GroupKey{p.key}, e.cfg.CallDelay); err != nil {
			return pl.abandon(ctx, fmt.Errorf("trigger ahead of commit: %w", err))
		}
	}
	err := e.cfg.Store.Commit(ctx, record.Commit{Loaded: pl.loaded, Next: pl.next, Attempt: pl.attempt, Hold: pl.hold, Unhold: pl.unhold})
	switch {
	case errors.Is(err, record.ErrConflict):
		e.discard(ctx, pl.staged)
		e.observe(record.EventConflict, p.stream.Name, 1)
		return fmt.Errorf("commit group: %w", err)
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

// mark notes that a committed message's token is to be marked done.
func (p *part) mark(entry record.Pending, now time.Time) {
	p.marks = append(p.marks, entry.DoneToken(p.key, now))
}

// settle marks tokens done and triggers publishing, for all the parts together; only then are outcomes given out.
func (e *Engine) settle(ctx context.Context, parts []*part) {
	var marks []record.Token
	var groups []record.GroupKey
	for _, p := range parts {
		if p.err != nil {
			continue
		}
		marks = append(marks, p.marks...)
		if p.trigger && p.view.HasEffects() || p.numbered && p.stranded() {
			groups = append(groups, p.key)
		}
	}
	err := e.markDone(ctx, marks)
	if err == nil && len(groups) > 0 {
		if err = e.cfg.Queues.Trigger(ctx, groups, 0); err != nil {
			err = fmt.Errorf("trigger publishing: %w", err)
		}
	}
	for _, p := range parts {
		if p.err != nil {
			continue
		}
		if p.err = err; err != nil {
			continue
		}
		for _, it := range p.items {
			*it.out = it.fate
		}
	}
}

// stranded reports whether an entry without effects has nobody left who marks its token: a held message was acknowledged before it was run.
func (p *part) stranded() bool {
	return slices.ContainsFunc(p.view.Leftovers(), func(entry record.Pending) bool {
		return !slices.ContainsFunc(p.marks, func(t record.Token) bool { return t.Key == entry.Token })
	})
}

// markDone marks the tokens of committed messages.
func (e *Engine) markDone(ctx context.Context, marks []record.Token) error {
	if len(marks) == 0 {
		return nil
	}
	latest := make(map[record.TokenKey]record.Token, len(marks)) // no key twice in one batch write
	for _, t := range marks {
		latest[t.Key] = t
	}
	var messages, requests []record.Token
	for _, t := range slices.SortedFunc(maps.Values(latest), func(a, b record.Token) int { return slices.Compare(a.Key[:], b.Key[:]) }) {
		if t.OfRequest() {
			requests = append(requests, t)
		} else {
			messages = append(messages, t)
		}
	}
	if len(messages) > 0 {
		if err := e.cfg.Store.MarkDone(ctx, messages); err != nil {
			return fmt.Errorf("mark tokens done: %w", err)
		}
	}
	for _, t := range requests {
		if err := e.markRequest(ctx, t); err != nil {
			return fmt.Errorf("mark request done: %w", err)
		}
	}
	return nil
}

// markRequest marks a request's token done, if it is not, nor deleted.
func (e *Engine) markRequest(ctx context.Context, done record.Token) error {
	_, found, err := e.cfg.Store.Load(ctx, nil, []record.TokenKey{done.Key})
	if err != nil {
		return err
	}
	for old := found[0]; old.State != record.Done; {
		if old, err = e.cfg.Store.SwapToken(ctx, old, done); err != nil && !errors.Is(err, record.ErrConflict) {
			return err
		}
	}
	return nil
}

// entry gives the item's pending entry.
func (it *item) entry(g *record.Group) (record.Pending, bool) {
	for i := range g.Pending {
		if g.Pending[i].Token == it.token() {
			return g.Pending[i], true
		}
	}
	return record.Pending{}, false
}
