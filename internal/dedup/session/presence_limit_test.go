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
	if p.forget(id(1), 7); len(p.leases) != 2 {
		t.Error("an earlier open has ended the lease")
	}
	if !p.renew(id(3), 7, minute.Add(time.Hour), minute) || len(p.leases) != 2 {
		t.Errorf("%d leases after one has ended", len(p.leases))
	}
}
