package pebblestore

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// stripes is how many latches there are: with 256 writers at once, about one in thirty waits for a stranger's sync.
const stripes = 8192

// latches are locks by key; keys that hash alike share one.
//
// Who holds one may wait for another only through lockAll, which takes them in one order: nobody waits in a circle.
type latches struct {
	seed  maphash.Seed
	locks [stripes]latch
}

func newLatches() *latches { return &latches{seed: maphash.MakeSeed()} }

// lock gives the latch of a key, locked.
func (l *latches) lock(key []byte) *latch {
	latch := l.of(key)
	latch.Lock()
	return latch
}

// of gives the latch of a key, for who holds it.
func (l *latches) of(key []byte) *latch { return &l.locks[l.stripe(key)] }

func (l *latches) stripe(key []byte) int { return int(maphash.Bytes(l.seed, key) % stripes) }

// lockAll locks the latches of keys and gives what unlocks them.
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

// A latch is held while a record is read, and until a write of it is durable. Readers exclude each other too: a plain mutex costs less than
// what they could gain.
//
// It remembers the head of the group that was read or written last, because a commit mostly follows the load of its group.
type latch struct {
	sync.Mutex
	key  []byte
	head head
}

// A head is what the condition of a commit is on; of no record it is zero.
type head struct {
	incarnation, version uint64
	expires              int64
}

// at gives the head as it is at a time: that of no record when the record has expired.
func (h head) at(now time.Time) head {
	if expired(h.expires, now) {
		return head{}
	}
	return h
}

// recall gives the head of a key, if it is remembered.
func (l *latch) recall(key []byte) (head, bool) {
	if !bytes.Equal(l.key, key) {
		return head{}, false
	}
	return l.head, true
}

// remember keeps the head of a key. It keeps the key's bytes, too.
func (l *latch) remember(key []byte, h head) { l.key, l.head = key, h }

// forget makes the next condition read the record, because no key is empty: whoever writes forgets first, because a write that fails may have been applied.
func (l *latch) forget() { l.key = nil }
