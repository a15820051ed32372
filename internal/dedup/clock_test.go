package dedup_test

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/effectively-once/once/internal/outbox"
)

// stepped is what time.Now gives after the wall clock was set forward, or the machine has slept: its monotonic reading does not show that.
func stepped(t *testing.T, now time.Time, forward time.Duration) time.Time {
	t.Helper()
	then := now
	*(*uint64)(unsafe.Pointer(&then)) += uint64(forward/time.Second) << 30 // where a time of two readings keeps the wall clock's seconds
	if then.Sub(now) != 0 || then.Round(0).Sub(now.Round(0)) != forward {
		t.Fatal("times of this version of Go are made otherwise")
	}
	return then
}

// A sweep knows the age of a staged blob by the wall clock: one that has become too old for it must not be named by a commit.
func TestACommitSeesThatTheWallClockWasSetForwardSinceItsFirstBlob(t *testing.T) {
	l := newLab(t)
	l.now = time.Now() // with both readings
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
