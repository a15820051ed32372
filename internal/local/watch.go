package local

import (
	"context"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A watch is a store that notes which groups have something pending or held, so that sweeps need not walk through all of them.
type watch struct {
	record.Store
	now func() time.Time

	mu     sync.Mutex
	active map[record.GroupKey]activity
}

// activity is what is under way in a group.
type activity struct {
	last  uint64    // number of the last pending entry
	held  bool      // messages are held
	since time.Time // when it was last committed to, or swept
}

func newWatch(store record.Store, now func() time.Time) *watch {
	return &watch{Store: store, now: now, active: map[record.GroupKey]activity{}}
}

// Commit notes the group before it commits: the answer may be lost.
func (w *watch) Commit(ctx context.Context, c record.Commit) error {
	if c.Next.HasEffects() || c.Next.HasHeld() {
		w.note(&c.Next, w.now())
	}
	err := w.Store.Commit(ctx, c)
	if err == nil && !c.Next.HasEffects() && !c.Next.HasHeld() {
		w.forget(c.Next.Key)
	}
	return err
}

// Clear forgets the group when the last of its entries is cleared.
func (w *watch) Clear(ctx context.Context, c record.Clear) error {
	if err := w.Store.Clear(ctx, c); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.active[c.Group]
	for _, n := range c.Numbers {
		if n >= a.last && !a.held {
			delete(w.active, c.Group)
		}
	}
	return nil
}

// note takes a group up, as one that was last touched then.
func (w *watch) note(g *record.Group, since time.Time) {
	a := activity{held: g.HasHeld(), since: since}
	if len(g.Pending) > 0 {
		a.last = g.Pending[len(g.Pending)-1].Number
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active[g.Key] = a
}

func (w *watch) forget(key record.GroupKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.active, key)
}

// due takes the groups that nobody has touched for so long; they are due again after as long.
func (w *watch) due(patience time.Duration) []record.GroupKey {
	now := w.now()
	var keys []record.GroupKey
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, a := range w.active {
		if now.Sub(a.since) >= patience {
			a.since = now
			w.active[key] = a
			keys = append(keys, key)
		}
	}
	return keys
}

// held lists the groups that have messages held.
func (w *watch) held() []record.GroupKey {
	var keys []record.GroupKey
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, a := range w.active {
		if a.held {
			keys = append(keys, key)
		}
	}
	return keys
}
