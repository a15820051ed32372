package dedup

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

const (
	// patience is how long the groups of a batch are planned one after the other. Only a handler,
	// or another step that waits for something, takes that long.
	patience = 5 * time.Millisecond
	// mostTogether is how many groups are committed with one write.
	mostTogether = 128
)

// A convoy plans the groups of a batch one after the other and commits them together, so that they
// need neither a goroutine nor a write each. If that takes longer than patience, the convoy
// disperses: the plans that are ready are committed, and the groups that have no plan yet are
// processed concurrently. So no group waits long for the handler of another one.
type convoy struct {
	*Engine
	parts []*part

	mu        sync.Mutex
	next      int     // index of the next part to be planned
	ready     []*plan // to be committed together
	over      bool    // all parts are planned
	dispersed sync.WaitGroup
}

// advanceAll advances several parts.
func (e *Engine) advanceAll(ctx context.Context, parts []*part) {
	if !e.commitsTogether {
		e.each(parts, func(p *part) { p.err = e.advance(ctx, p); e.leave(p) })
		return
	}
	c := &convoy{Engine: e, parts: parts}
	if e.cfg.Parallel > 1 {
		timer := time.AfterFunc(patience, func() { c.disperse(ctx) })
		defer timer.Stop()
	}
	for p := c.take(); p != nil; p = c.take() {
		if pl := e.firstPlan(ctx, p); pl != nil {
			e.commitAll(ctx, c.add(pl))
		}
	}
	e.commitAll(ctx, c.end())
	c.dispersed.Wait()
}

// take returns the next part to be planned, or nil.
func (c *convoy) take() *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == len(c.parts) {
		return nil
	}
	c.next++
	return c.parts[c.next-1]
}

// add adds a plan to those that are ready. If there are many, it returns them all, to be committed.
func (c *convoy) add(pl *plan) (full []*plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready = append(c.ready, pl); len(c.ready) == mostTogether {
		full, c.ready = c.ready, nil
	}
	return full
}

// end returns the plans that are left to be committed. From now on the convoy can't disperse.
func (c *convoy) end() []*plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.ready
}

// disperse ends the convoy, unless it is over.
func (c *convoy) disperse(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	rest, ready := c.parts[c.next:], c.ready
	c.next, c.ready = len(c.parts), nil
	c.dispersed.Go(func() { c.commitAll(ctx, ready) })
	c.dispersed.Go(func() { c.each(rest, func(p *part) { p.err = c.advance(ctx, p); c.leave(p) }) })
}

// firstPlan returns the first plan of a part, to be committed together with others. It returns nil
// if there is nothing to commit, or if something has to be done right before the commit: then it
// advances the part.
func (e *Engine) firstPlan(ctx context.Context, p *part) *plan {
	if p.err = e.begin(ctx, p); p.err != nil {
		e.leave(p)
		return nil
	}
	pl, err := e.plan(ctx, p)
	if err == nil && pl.changed && !p.early && len(pl.staged) == 0 && len(pl.refused) == 0 && len(pl.failing) == 0 {
		return pl
	}
	p.err = e.proceed(ctx, p, pl, err)
	e.leave(p)
	return nil
}

// commitAll commits plans with one write, and advances those of their parts that have more to do.
func (e *Engine) commitAll(ctx context.Context, plans []*plan) {
	if len(plans) == 0 {
		return
	}
	grace, cancel := outbox.WithGrace(ctx)
	defer cancel()
	commits := make([]record.Commit, len(plans))
	for i, pl := range plans {
		pl.next.Succeed(&pl.part.view, pl.now, pl.part.stream.RecordRetention(pl.next.State))
		commits[i] = pl.commit()
	}
	var again []*part
	for i, err := range record.CommitAll(grace, e.cfg.Store, commits) {
		pl := plans[i]
		p := pl.part
		p.err = e.committed(grace, p, pl, err)
		r := refusal(p.err)
		switch {
		case p.err == nil:
			if p.accept(pl); pl.more {
				again = append(again, p)
				continue
			}
		case r != nil && p.blame(pl, r.Detail), errors.Is(p.err, record.ErrFull):
			again = append(again, p)
			continue
		}
		e.leave(p)
	}
	e.each(again, func(p *part) {
		pl, err := e.plan(ctx, p)
		p.err = e.proceed(ctx, p, pl, err)
		e.leave(p)
	})
}
