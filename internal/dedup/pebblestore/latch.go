package pebblestore

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// shards is the number of independent parts of latches, and of heads.
const shards = 64

// latches are locks by key. A key has a lock only while a caller holds it or waits for it, so the
// sync of one writer never delays the readers and writers of other keys. Two keys whose 64-bit
// hashes are equal share a lock.
//
// A goroutine that holds a latch may wait for another one of the same latches only in lockAll, which
// locks in a fixed order. It may wait for a token's latch while it holds those of groups, but not the
// other way round. So there is no deadlock.
type latches struct {
	seed   maphash.Seed
	shards [shards]latchShard
}

type latchShard struct {
	mu   sync.Mutex
	used map[uint64]*latch // by hash
	free []*latch
}

// A latch is held while a record is read, and until a write of it is durable. Readers exclude each
// other too: a plain mutex costs less than concurrent reads would save.
type latch struct {
	sync.Mutex
	users int // holders and waiters; guarded by the shard
}

// maxFree is how many latches a shard keeps for later use.
const maxFree = 64

func newLatches() *latches {
	l := &latches{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].used = map[uint64]*latch{}
	}
	return l
}

// lock locks the latch of a key and returns what unlocks it.
func (l *latches) lock(key []byte) heldLatch { return l.lockHash(maphash.Bytes(l.seed, key)) }

func (l *latches) lockHash(hash uint64) heldLatch {
	shard := &l.shards[hash%shards]
	held := heldLatch{shard: shard, hash: hash, latch: shard.use(hash)}
	held.latch.Lock()
	return held
}

// use returns the latch of a hash, and counts the caller as a user.
func (s *latchShard) use(hash uint64) *latch {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.used[hash]
	if l == nil {
		if n := len(s.free); n > 0 {
			l, s.free = s.free[n-1], s.free[:n-1]
		} else {
			l = &latch{}
		}
		s.used[hash] = l
	}
	l.users++
	return l
}

// A heldLatch is a latch that the caller holds.
type heldLatch struct {
	shard *latchShard
	hash  uint64
	latch *latch
}

// Unlock unlocks the latch, and deletes it if no other caller waits for it.
func (h heldLatch) Unlock() {
	h.latch.Unlock()
	s := h.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	h.latch.users--
	if h.latch.users > 0 {
		return
	}
	delete(s.used, h.hash)
	if len(s.free) < maxFree {
		s.free = append(s.free, h.latch)
	}
}

// lockAll locks the latches of keys and returns a function that unlocks them.
func (l *latches) lockAll(keys [][]byte) (unlock func()) {
	if len(keys) == 1 {
		return l.lock(keys[0]).Unlock
	}
	hashes := make([]uint64, len(keys))
	for i, key := range keys {
		hashes[i] = maphash.Bytes(l.seed, key)
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	held := make([]heldLatch, len(hashes))
	for i, hash := range hashes {
		held[i] = l.lockHash(hash)
	}
	return func() {
		for _, h := range held {
			h.Unlock()
		}
	}
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
type heads struct {
	seed  maphash.Seed
	slots [8192]headSlot
}

type headSlot struct {
	mu   sync.Mutex
	key  []byte // nil if the slot is empty
	head head
}

func newHeads() *heads { return &heads{seed: maphash.MakeSeed()} }

func (h *heads) slot(key []byte) *headSlot {
	return &h.slots[maphash.Bytes(h.seed, key)%uint64(len(h.slots))]
}

// recall returns the head of a key, if it is remembered.
func (h *heads) recall(key []byte) (head, bool) {
	s := h.slot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(s.key, key) {
		return head{}, false
	}
	return s.head, true
}

// remember stores the head of a key. It keeps a reference to key.
func (h *heads) remember(key []byte, now head) {
	s := h.slot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.head = key, now
}

// forget makes the next condition read the record. A writer calls it before it writes, because a
// failed write may have been applied.
func (h *heads) forget(key []byte) {
	s := h.slot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(s.key, key) {
		s.key = nil
	}
}
