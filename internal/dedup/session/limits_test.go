package session

import (
	"fmt"
	"testing"
	"time"
)

func TestThePresenceIsBoundedAndForgetsLeasesThatHaveEnded(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := newPresence(now)
	p.limit = 2
	id := func(i int) ID { return ID{Stream: "work", Name: fmt.Sprint(i)} }
	minute := now.Add(time.Minute)
	if !p.renew(id(1), 7, minute, now) || !p.renew(id(2), 7, minute.Add(time.Minute), now) || p.renew(id(3), 7, minute, now) {
		t.Error("the limit is not two")
	}
	if !p.renew(id(1), 8, minute, now) || !p.renew(id(1), 7, minute.Add(time.Hour), now) {
		t.Error("a known session has no place")
	}
	if until := p.until(id(1), &state{Fence: 8}); !until.Equal(minute) {
		t.Errorf("an earlier open has changed the lease to %s", until)
	}
	if until := p.until(id(1), &state{Fence: 9}); !until.Equal(now) {
		t.Errorf("a later open has the lease of another: %s", until)
	}
	if !p.renew(id(3), 7, minute.Add(time.Hour), minute) || len(p.leases) != 2 {
		t.Errorf("%d leases after one has ended", len(p.leases))
	}
}

// Sessions of a full pool that have processed everything can be dealt a range each.
func TestTheSizeOfAPoolHasRoomForARangeOfEachSession(t *testing.T) {
	const large = 1<<42 - 1 // a time in 2109, in milliseconds, and more entries than are ever sent
	p := pool{Members: map[string]member{}}
	for i := range 50 {
		p.Members[fmt.Sprint(i)] = member{Life: large, Dropped: large, Known: large}
	}
	empty := p.size()
	for name, m := range p.Members {
		m.Spans = []span{{Part: 255, Incarnation: large, First: large, Last: 2 * large, Until: 2 * large}}
		p.Members[name] = m
	}
	if full := p.size(); full > empty {
		t.Errorf("%d bytes with ranges, %d without", full, empty)
	}
}
