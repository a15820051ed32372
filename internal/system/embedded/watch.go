package embedded

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// maxWatched is how many groups a watch keeps, which takes about 30 MB.
const maxWatched = 100_000

// A watch is a store that keeps the set of groups with pending entries or held messages, so that
// sweeps need not visit all groups. The set may contain idle groups until the next sweep. It misses
// a group only if a sweep reads the group before a commit that is applied but returns an error; the
// next commit or start adds it. If the set is full, it misses further groups until a walk through
// the store finds them, see [System.walk].
type watch struct {
	record.Store
	now   func() time.Time
	limit int // of active

	mu     sync.Mutex
	active map[record.GroupKey]activity
	missed bool // a group was left out, because the set was full
}

// activity is the unfinished work of a group, as of one version of its record.
type activity struct {
	incarnation, version uint64
	pending              []uint64  // numbers of the entries that are pending, or may be, in order
	held                 bool      // messages are held
	since                time.Time // when it was last committed to, or swept
}

func newWatch(store record.Store, now func() time.Time) *watch {
	return &watch{Store: store, now: now, limit: maxWatched, active: map[record.GroupKey]activity{}}
}

// CommitsDone implements record.DoneCommitter.
func (w *watch) CommitsDone() bool { return record.CommitsDone(w.Store) }

// SwapTokens implements record.TokenSwapper.
func (w *watch) SwapTokens(ctx context.Context, swaps []record.Swap) []record.Swapped {
	return record.SwapTokens(ctx, w.Store, swaps)
}

// Commit records the expected work before the commit, because the answer may be lost, and the
// actual work after it.
func (w *watch) Commit(ctx context.Context, c record.Commit) error {
	if len(c.Next.Pending) > 0 || c.Next.HasHeld() {
		w.expect(&c)
	}
	if err := w.Store.Commit(ctx, c); err != nil {
		return err
	}
	w.committed(&c)
	return nil
}

// CommitsTogether implements record.GroupsCommitter.
func (w *watch) CommitsTogether() bool { return record.CommitsTogether(w.Store) }

// CommitAll implements record.GroupsCommitter. It records the same work as Commit.
func (w *watch) CommitAll(ctx context.Context, commits []record.Commit) []error {
	for i := range commits {
		if c := &commits[i]; len(c.Next.Pending) > 0 || c.Next.HasHeld() {
			w.expect(c)
		}
	}
	errs := record.CommitAll(ctx, w.Store, commits)
	for i, err := range errs {
		if err == nil {
			w.committed(&commits[i])
		}
	}
	return errs
}

// committed records the work that a commit has left.
func (w *watch) committed(c *record.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.active[c.Next.Key].pending
	// if an entry was loaded and is no longer recorded, it was cleared meanwhile
	w.put(&c.Next, w.now(), func(n uint64) bool {
		_, pending := slices.BinarySearch(known, n)
		return pending || !hasEntry(&c.Loaded, n)
	})
}

// Clear forgets the group when the last of its entries is cleared.
func (w *watch) Clear(ctx context.Context, c record.Clear) error {
	if err := w.Store.Clear(ctx, c); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a, known := w.active[c.Group]
	if !known || a.incarnation != c.Incarnation {
		return nil
	}
	for _, n := range c.Numbers {
		if i, pending := slices.BinarySearch(a.pending, n); pending {
			a.pending = slices.Delete(a.pending, i, i+1)
		}
	}
	w.active[c.Group] = a
	if len(a.pending) == 0 && !a.held {
		delete(w.active, c.Group)
	}
	return nil
}

// expect records the entries of a commit as pending before the commit is made.
func (w *watch) expect(c *record.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := &c.Next
	if !w.room(g.Key) {
		return
	}
	a := w.active[g.Key]
	a.held = a.held || g.HasHeld()
	for i := range g.Pending {
		n := g.Pending[i].Number
		if at, known := slices.BinarySearch(a.pending, n); !known && !hasEntry(&c.Loaded, n) {
			a.pending = slices.Insert(a.pending, at, n)
		}
	}
	a.since = w.now()
	w.active[g.Key] = a
}

// room reports whether a group is in the set or can be added. The caller holds the lock.
func (w *watch) room(key record.GroupKey) bool {
	if _, known := w.active[key]; known || len(w.active) < w.limit {
		return true
	}
	w.missed = true
	return false
}

func hasEntry(g *record.Group, number uint64) bool {
	_, found := slices.BinarySearchFunc(g.Pending, number, func(p record.Pending, n uint64) int { return cmp.Compare(p.Number, n) })
	return found
}

// note records a group as it was read, with the time of its last change, unless a newer version of
// the group is recorded.
func (w *watch) note(g *record.Group, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(g, since, func(uint64) bool { return true })
}

// put records a group, with those of its entries for which pending is true, unless a newer version
// of the group is recorded.
func (w *watch) put(g *record.Group, since time.Time, pending func(number uint64) bool) {
	a := w.active[g.Key]
	if cmp.Or(cmp.Compare(a.incarnation, g.Incarnation), cmp.Compare(a.version, g.Version)) > 0 {
		return
	}
	a = activity{incarnation: g.Incarnation, version: g.Version, held: g.HasHeld(), since: since}
	for i := range g.Pending {
		if n := g.Pending[i].Number; pending(n) {
			a.pending = append(a.pending, n)
		}
	}
	if len(a.pending) == 0 && !a.held {
		delete(w.active, g.Key)
		return
	}
	if w.room(g.Key) {
		w.active[g.Key] = a
	}
}

// misses reports whether a group was left out since the last call, because the set was full.
func (w *watch) misses() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	missed := w.missed
	w.missed = false
	return missed
}

// miss makes the next walk look for groups that are not in the set.
func (w *watch) miss() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed = true
}

// knows reports whether a group is in the set.
func (w *watch) knows(key record.GroupKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.active[key]
	return known
}

// due returns the groups without any change for the given time. They are due again after that time.
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

// dueIn makes a group due after a time, if it has unfinished work. If the set is full and the group
// is not in it, the group is due all the same: it may have been left out.
func (w *watch) dueIn(key record.GroupKey, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, known := w.active[key]; known || len(w.active) >= w.limit {
		a.since = w.now().Add(after - lostAfter)
		w.active[key] = a
	}
}

// held returns the groups with held messages.
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

// unfinished returns the groups that hold messages, and those whose pending effects did not change
// for the given time.
func (w *watch) unfinished(patience time.Duration) []record.GroupKey {
	now := w.now()
	var keys []record.GroupKey
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, a := range w.active {
		if a.held || now.Sub(a.since) >= patience {
			keys = append(keys, key)
		}
	}
	return keys
}
