package durable

import (
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// uses remembers the last reads of streams with a TTL, each until the read extends it no longer.
type uses struct {
	mu    sync.Mutex
	reads map[record.GroupKey]use
	bound int // if there are more reads, those that have passed are removed
}

type use struct{ at, until time.Time }

// lowestBound is the lowest bound of uses.
const lowestBound = 1000

func newUses() *uses {
	return &uses{reads: map[record.GroupKey]use{}, bound: lowestBound}
}

// last returns the time of the last read of a stream, or the zero time.
func (u *uses) last(key record.GroupKey) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reads[key].at
}

// note notes a read of a stream.
func (u *uses) note(key record.GroupKey, now time.Time, ttl time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reads[key] = use{now, now.Add(ttl)}
	if len(u.reads) <= u.bound {
		return
	}
	for key, x := range u.reads {
		if !x.until.After(now) {
			delete(u.reads, key)
		}
	}
	u.bound = max(lowestBound, 2*len(u.reads))
}

// forget forgets the reads of a stream that is deleted.
func (u *uses) forget(key record.GroupKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.reads, key)
}
