package dedup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/outbox"
	"github.com/effectively-once/once/internal/record"
)

// mark notes that a committed message's token is to be marked done.
func (p *part) mark(entry record.Pending, now time.Time) {
	p.marks = append(p.marks, entry.DoneToken(p.key, now))
}

// settle marks tokens done and triggers publishing, for all the parts together; only then are outcomes given out. It outlives ctx by a moment, as commit does.
func (e *Engine) settle(ctx context.Context, parts []*part) {
	ctx, cancel := outbox.Noting(ctx)
	defer cancel()
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
	err := e.publisher.MarkDone(ctx, marks)
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
		return p.tokens[entry.Token].State != record.Done && !slices.ContainsFunc(p.marks, func(t record.Token) bool { return t.Key == entry.Token })
	})
}
