// Package presence keeps a filter of the keys of a Pebble database in memory. It answers most
// lookups of keys that do not exist, which are most lookups of new identities.
//
// The filter can err in one direction only: a key that exists is never reported absent. Three rules
// ensure this:
//
//   - A key is added before the batch that writes it is committed. So it does not matter whether a
//     failed commit was applied.
//   - Nothing is ever removed. A deleted key stays until the filter is filled again.
//   - The filter answers after a scan of the database, which begins when all commits that did not
//     add their keys have ended. Commits during the scan add their keys too.
//
// The hash has a random seed, so a sender can't choose identities that collide.
//
// # Limits
//
// All keys with the prefixes of a filter must be written by its Commit. The filter is empty after a
// restart, and is filled again. It uses 31 MB at most, and twice as much while it is filled again
// because most of its keys were deleted. That suffices for 26 million keys; with more, it reports
// fewer keys absent.
package presence

import (
	"bytes"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// A Filter reports which keys of a database certainly do not exist. A nil Filter knows nothing.
type Filter struct {
	db       *pebble.DB
	prefixes []byte
	seed     maphash.Seed
	size     size

	epoch   atomic.Pointer[epoch]
	deleted atomic.Int64  // keys deleted since the fill began
	stale   chan struct{} // holds one value while the filter should be filled again
}

// An epoch is the time between two changes of the sets.
type epoch struct {
	answering *set // nil until a fill is complete
	filling   *set // nil if no fill is in progress
	// commits is held for reading by each commit that adds its keys to the sets of this epoch.
	commits sync.RWMutex
}

// New returns a filter of the keys with one of the prefixes. It knows nothing until Run has filled
// it.
func New(db *pebble.DB, prefixes ...byte) *Filter {
	f := &Filter{db: db, prefixes: prefixes, seed: maphash.MakeSeed(), size: defaultSize(), stale: make(chan struct{}, 1)}
	f.epoch.Store(&epoch{})
	return f
}

// Absent reports whether a key certainly does not exist. It must not be called while a commit of
// the key is in progress.
func (f *Filter) Absent(key []byte) bool {
	if f == nil {
		return false
	}
	known := f.epoch.Load().answering
	return known != nil && !known.has(f.hash(key))
}

// Commit adds the keys of a batch to the filter, and commits the batch. The batch may have keys
// with other prefixes too.
func (f *Filter) Commit(batch *pebble.Batch, options *pebble.WriteOptions) error {
	if f == nil {
		return batch.Commit(options)
	}
	e := f.enter()
	defer e.commits.RUnlock()
	if err := f.addBatch(e, batch); err != nil {
		return err
	}
	return batch.Commit(options)
}

// enter returns the current epoch, and holds its commits for reading.
func (f *Filter) enter() *epoch {
	for {
		if e := f.epoch.Load(); f.join(e) {
			return e
		}
	}
}

// join holds the commits of an epoch for reading. It reports false, and does not hold them, if
// another epoch has begun, which may no longer wait for this commit.
func (f *Filter) join(e *epoch) bool {
	e.commits.RLock()
	if f.epoch.Load() == e {
		return true
	}
	e.commits.RUnlock()
	return false
}

func (f *Filter) addBatch(e *epoch, batch *pebble.Batch) error {
	if e.answering == nil && e.filling == nil {
		return nil
	}
	deleted := 0
	for r := batch.Reader(); ; {
		kind, key, _, ok, err := r.Next()
		if !ok || err != nil {
			f.noteDeleted(e, deleted)
			return err
		}
		switch {
		case !f.covers(key):
		case kind == pebble.InternalKeyKindDelete:
			deleted++
		default:
			e.add(f.hash(key))
		}
	}
}

func (f *Filter) covers(key []byte) bool {
	return len(key) > 0 && bytes.IndexByte(f.prefixes, key[0]) >= 0
}

func (f *Filter) hash(key []byte) uint64 { return maphash.Bytes(f.seed, key) }

func (e *epoch) add(hash uint64) {
	for _, s := range [...]*set{e.answering, e.filling} {
		if s != nil {
			s.add(hash)
		}
	}
}
