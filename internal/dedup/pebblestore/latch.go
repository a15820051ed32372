package pebblestore

import (
	"bytes"
	"slices"
	"sync"
	"time"
)

// A place is a key of the database and its hash.
type place struct {
	key  []byte
	hash uint64
}

// buckets is the number of independent parts of latches.
const buckets = 4096

// latches are locks by key. A key has a lock only while a caller holds it or waits for it, so the
// sync of one writer never delays the readers and writers of other keys. Two keys whose 64-bit
// hashes are equal share a lock.
//
// A goroutine that holds a latch may wait for another one of the same latches only in lockAll,
// which locks in a fixed order. It may wait for a token's latch while it holds those of groups, but
// not the other way round. So there is no deadlock.
type latches [buckets]bucket

// A bucket has the latches of the keys whose hashes have the same remainder: nearly always one or
// none.
type bucket struct {
	mu sync.Mutex
	// used are the latches that are held or waited for. The latches between its length and its
	// capacity are for later use.
	used []*latch
}

// A latch is held while a record is read, and until a write of it is durable. Readers exclude each
// other too: a plain mutex costs less than concurrent reads would save.
type latch struct {
	sync.Mutex
	hash  uint64
	users int // holders and waiters; guarded by the bucket
}

// lock locks the latch of a key and returns what unlocks it.
func (l *latches) lock(p place) heldLatch { return l.lockHash(p.hash) }

func (l *latches) lockHash(hash uint64) heldLatch {
	b := &l[hash%buckets]
	held := heldLatch{bucket: b, latch: b.use(hash)}
	held.latch.Lock()
	return held
}

// use returns the latch of a hash, and counts the caller as a user.
func (b *bucket) use(hash uint64) *latch {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.used {
		if l.hash == hash {
			l.users++
			return l
		}
	}
	n := len(b.used)
	if n == cap(b.used) {
		b.used = append(b.used, &latch{})
	} else if b.used = b.used[:n+1]; b.used[n] == nil {
		b.used[n] = &latch{}
	}
	b.used[n].hash, b.used[n].users = hash, 1
	return b.used[n]
}

// A heldLatch is a latch that the caller holds.
type heldLatch struct {
	bucket *bucket
	latch  *latch
}

// Unlock unlocks the latch, and frees it if no other caller waits for it.
func (h heldLatch) Unlock() {
	h.latch.Unlock()
	b := h.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	h.latch.users--
	if h.latch.users > 0 {
		return
	}
	i, last := slices.Index(b.used, h.latch), len(b.used)-1
	b.used[i], b.used[last] = b.used[last], h.latch
	b.used = b.used[:last]
}

// heldLatches are the latches that lockAll has locked.
type heldLatches struct {
	one  heldLatch // if there is a single key
	more []heldLatch
}

// Unlock unlocks the latches.
func (h heldLatches) Unlock() {
	if h.one.latch != nil {
		h.one.Unlock()
	}
	for _, held := range h.more {
		held.Unlock()
	}
}

// lockAll locks the latches of keys, which may repeat.
func (l *latches) lockAll(places []place) heldLatches {
	switch len(places) {
	case 0:
		return heldLatches{}
	case 1:
		return heldLatches{one: l.lock(places[0])}
	}
	hashes := make([]uint64, len(places))
	for i, p := range places {
		hashes[i] = p.hash
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	held := make([]heldLatch, len(hashes))
	for i, hash := range hashes {
		held[i] = l.lockHash(hash)
	}
	return heldLatches{more: held}
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

// heads remembers the heads of groups that were read or written last, because most commits follow a
// load of their group. The caller of each method holds the latch of the key.
type heads [8192]headSlot

type headSlot struct {
	mu   sync.Mutex
	key  []byte // empty if the slot is
	head head
}

func (h *heads) slot(p place) *headSlot { return &h[p.hash%uint64(len(h))] }

// recall returns the head of a key, if it is remembered.
func (h *heads) recall(p place) (head, bool) {
	s := h.slot(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(s.key, p.key) {
		return head{}, false
	}
	return s.head, true
}

// remember stores the head of a key.
func (h *heads) remember(p place, now head) {
	s := h.slot(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.head = append(s.key[:0], p.key...), now
}

// forget makes the next condition read the record. A writer calls it before it writes, because a
// failed write may have been applied.
func (h *heads) forget(p place) {
	s := h.slot(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(s.key, p.key) {
		s.key = s.key[:0]
	}
}
