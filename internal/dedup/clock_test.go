package dedup_test

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/effectively-once/once/internal/dedup/outbox"
)

// stepped returns time.Now as it is after the wall clock was set forward, or after the machine has
// slept: the monotonic reading does not show that.
func stepped(t *testing.T, now time.Time, forward time.Duration) time.Time {
	t.Helper()
	then := now
	// a time with a monotonic reading keeps the wall clock's seconds in these bits
	*(*uint64)(unsafe.Pointer(&then)) += uint64(forward/time.Second) << 30
	if then.Sub(now) != 0 || then.Round(0).Sub(now.Round(0)) != forward { // virtual time: both are one reading
		t.Fatal("times of this version of Go are made otherwise")
	}
	return then
}

// A sweep determines the age of a staged blob by the wall clock. A commit must not refer to a blob
// that a sweep may delete.
func TestACommitSeesThatTheWallClockWasSetForwardSinceItsFirstBlob(t *testing.T) {
	l := newLab(t)
	l.now = time.Now() // with a monotonic reading
	w := l.worker(byKey)
	w.at = func(call string) fault {
		switch {
		case strings.HasPrefix(call, "stage "):
			l.now = stepped(t, l.now, outbox.StagedTime+time.Minute)
		case strings.HasPrefix(call, "commit "):
			t.Error("a commit names blobs that may be gone")
		}
		return works
	}
	same(t, "fates", w.process(keyed("a: blob=k")...), []string{"retry"})
	same(t, "staged", len(l.staged), 0)
}
