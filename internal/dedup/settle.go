package dedup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// mark adds the token of a committed message to those that settle marks done.
func (p *part) mark(entry record.Pending, now time.Time) {
	p.marks = append(p.marks, entry.DoneToken(p.key, now))
}

// settle marks tokens done and triggers publishing, for all parts together, and only then returns
// the outcomes. Like commit, it runs on a context that outlives ctx.
func (e *Engine) settle(ctx context.Context, parts []*part) {
	ctx, cancel := outbox.WithGrace(ctx)
	defer cancel()
	var marks []record.Token
	var unpublished []*part
	for _, p := range parts {
		if p.err != nil {
			continue
		}
		marks = append(marks, p.marks...)
		if p.trigger && p.view.HasEffects() || p.numbered && p.stranded() {
			unpublished = append(unpublished, p)
		}
	}
	err := e.publisher.MarkDone(ctx, marks)
	if err == nil && len(unpublished) > 0 {
		err = e.release(ctx, unpublished)
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

// release triggers publishing of the parts' groups. It publishes the groups of direct messages
// itself if the configuration allows it, and triggers only those that fail.
func (e *Engine) release(ctx context.Context, parts []*part) error {
	if parts[0].direct {
		if e.cfg.Recalls {
			parts = e.publish(ctx, parts)
		}
		if len(parts) == 0 {
			return nil
		}
		parts[0].pending.Store(true)
	}
	groups := make([]record.GroupKey, len(parts))
	for i, p := range parts {
		groups[i] = p.key
	}
	if err := e.cfg.Queues.Trigger(ctx, groups, 0); err != nil {
		return fmt.Errorf("trigger publishing: %w", err)
	}
	return nil
}

// publish publishes the parts' groups, and returns the parts for which that failed.
func (e *Engine) publish(ctx context.Context, parts []*part) (failed []*part) {
	views := make([]record.Group, len(parts))
	for i, p := range parts {
		views[i] = p.view
	}
	for i, err := range e.publisher.PublishViews(ctx, views) {
		if err != nil {
			failed = append(failed, parts[i])
		}
	}
	return failed
}

// stranded reports whether the token of an entry without effects would never be marked: a held
// message has no delivery any more when it is run, so no redelivery would mark it.
func (p *part) stranded() bool {
	return slices.ContainsFunc(p.view.Leftovers(), func(entry record.Pending) bool {
		return p.tokens.get(entry.Token).State != record.Done && !slices.ContainsFunc(p.marks, func(t record.Token) bool { return t.Key == entry.Token })
	})
}
