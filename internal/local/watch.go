package local

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A watch is a store that notes which groups have something pending or held, so that sweeps need not walk through all of them. It may note a group too many, never
// one too few.
type watch struct {
	record.Store
	now func() time.Time

	mu     sync.Mutex
	active map[record.GroupKey]activity
}

// activity is what is under way in a group, as of one version of its record.
type activity struct {
	incarnation, version uint64
	last                 uint64    // number of the last pending entry
	held                 bool      // messages are held
	since                time.Time // when it was last committed to, or swept
}

func newWatch(store record.Store, now func() time.Time) *watch {
	return &watch{Store: store, now: now, active: map[record.GroupKey]activity{}}
}

// Commit notes what the commit would bring before it commits, because the answer may be lost, and what is so after it.
func (w *watch) Commit(ctx context.Context, c record.Commit) error {
	if c.Next.HasEffects() || c.Next.HasHeld() {
		w.expect(&c.Next)
	}
	if err := w.Store.Commit(ctx, c); err != nil {
		return err
	}
	w.note(&c.Next, w.now())
	return nil
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

// expect adds what a commit may bring to what is known.
func (w *watch) expect(g *record.Group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.active[g.Key]
	a.held = a.held || g.HasHeld()
	a.last = max(a.last, lastPending(g))
	a.since = w.now()
	w.active[g.Key] = a
}

// note takes a group up as it is, last touched then, if nothing newer is known.
func (w *watch) note(g *record.Group, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.active[g.Key]
	if cmp.Or(cmp.Compare(a.incarnation, g.Incarnation), cmp.Compare(a.version, g.Version)) > 0 {
		return
	}
	if len(g.Pending) == 0 && !g.HasHeld() {
		delete(w.active, g.Key)
		return
	}
	w.active[g.Key] = activity{incarnation: g.Incarnation, version: g.Version, last: lastPending(g), held: g.HasHeld(), since: since}
}

func lastPending(g *record.Group) uint64 {
	if len(g.Pending) == 0 {
		return 0
	}
	return g.Pending[len(g.Pending)-1].Number
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
