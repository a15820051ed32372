package pebblestore

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// stripes is the number of latches. With 256 concurrent writers, about one in thirty waits for the
// sync of a writer with a different key.
const stripes = 8192

// latches are locks by key; keys with the same hash share one.
//
// A goroutine that holds a latch may wait for another one only in lockAll, which locks in a fixed
// order, so there is no deadlock.
type latches struct {
	seed  maphash.Seed
	locks [stripes]latch
}

func newLatches() *latches { return &latches{seed: maphash.MakeSeed()} }

// lock locks and returns the latch of a key.
func (l *latches) lock(key []byte) *latch {
	latch := l.of(key)
	latch.Lock()
	return latch
}

// of returns the latch of a key, which the caller holds.
func (l *latches) of(key []byte) *latch { return &l.locks[l.stripe(key)] }

func (l *latches) stripe(key []byte) int { return int(maphash.Bytes(l.seed, key) % stripes) }

// lockAll locks the latches of keys and returns a function that unlocks them.
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

// A latch is held while a record is read, and until a write of it is durable. Readers exclude each
// other too: a plain mutex costs less than concurrent reads would save.
//
// It remembers the head of the group that was read or written last, because most commits follow a
// load of their group.
type latch struct {
	sync.Mutex
	key  []byte
	head head
}

// A head holds the fields that the condition of a commit compares. It is zero if there is no
// record.
type head struct {
	incarnation, version uint64
	expires              int64
}

// at returns the head at a time: the zero head if the record has expired.
func (h head) at(now time.Time) head {
	if expired(h.expires, now) {
		return head{}
	}
	return h
}

// recall returns the head of a key, if it is remembered.
func (l *latch) recall(key []byte) (head, bool) {
	if !bytes.Equal(l.key, key) {
		return head{}, false
	}
	return l.head, true
}

// remember stores the head of a key. It keeps a reference to key.
func (l *latch) remember(key []byte, h head) { l.key, l.head = key, h }

// forget makes the next condition read the record, because no key is empty. A writer calls it
// before it writes, because a failed write may have been applied.
func (l *latch) forget() { l.key = nil }
