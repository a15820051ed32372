package session

import (
	"sync"
	"time"
)

// maxPresent is how many leases a presence has, which takes about 20 MB.
const maxPresent = 100_000

// A presence has the leases that were renewed since they were written. It is kept in memory, so it
// is for a process that alone serves the sessions. The lease decides only how long others wait, so
// nothing is lost with it: for one lease after the start of the process, the holder of a record may
// be present.
type presence struct {
	started time.Time
	limit   int

	mu     sync.Mutex
	leases map[ID]renewed
}

// A renewed lease belongs to the open with a fence.
type renewed struct {
	fence uint64
	until time.Time
}

func newPresence(started time.Time) *presence {
	return &presence{started: started, limit: maxPresent, leases: map[ID]renewed{}}
}

// renew notes a lease, and reports whether there was room for it.
func (p *presence) renew(id ID, fence uint64, until, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x, known := p.leases[id]
	if x.fence > fence { // of a later open
		return true
	}
	if !known && len(p.leases) >= p.limit {
		for id, x := range p.leases {
			if !x.until.After(now) {
				delete(p.leases, id)
			}
		}
		if len(p.leases) >= p.limit {
			return false
		}
	}
	p.leases[id] = renewed{fence, until}
	return true
}

// until returns until when the consumer of an open is present, as far as is known here.
func (p *presence) until(id ID, st *state) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.started.Add(st.lease())
	if x := p.leases[id]; x.fence == st.Fence && x.until.After(out) {
		out = x.until
	}
	return out
}

// leaseOf returns when the lease of a session ends; the zero time if nobody holds it.
func (s *Sessions) leaseOf(id ID, st *state) time.Time {
	if st.LeaseUntil == 0 || st.Closed {
		return time.Time{}
	}
	until := st.leaseUntil()
	if s.presence != nil {
		if here := s.presence.until(id, st); here.After(until) {
			until = here
		}
	}
	return until.UTC()
}

// seen notes in memory that the consumer of a session is present, and returns until when. It
// returns false if that can't be noted: other processes serve sessions, too, or memory is full.
func (s *Sessions) seen(id ID, st *state) (time.Time, bool) {
	if s.presence == nil || st.LeaseUntil == 0 {
		return time.Time{}, false
	}
	now := s.cfg.Now()
	until := now.Add(st.lease())
	return until.UTC(), s.presence.renew(id, st.Fence, until, now)
}
