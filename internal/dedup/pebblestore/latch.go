package pebblestore

import (
	"hash/maphash"
	"slices"
	"sync"
)

// stripes is how many latches there are: with 256 writers at once, about one in thirty waits for a stranger's sync.
const stripes = 8192

// latches are locks by key; keys that hash alike share one.
//
// Who holds one may wait for another only through lockAll, which takes them in one order: nobody waits in a circle.
type latches struct {
	seed  maphash.Seed
	locks [stripes]sync.RWMutex
}

func newLatches() *latches { return &latches{seed: maphash.MakeSeed()} }

func (l *latches) of(key []byte) *sync.RWMutex { return &l.locks[l.stripe(key)] }

func (l *latches) stripe(key []byte) int { return int(maphash.Bytes(l.seed, key) % stripes) }

// lockAll locks the latches of keys for writing and gives what unlocks them.
func (l *latches) lockAll(keys [][]byte) (unlock func()) {
	held := make([]int, len(keys))
	for i, key := range keys {
		held[i] = l.stripe(key)
	}
	slices.Sort(held)
	held = slices.Compact(held)
	for _, i := range held {
		l.locks[i].Lock()
	}
	return func() {
		for _, i := range held {
			l.locks[i].Unlock()
		}
	}
}
