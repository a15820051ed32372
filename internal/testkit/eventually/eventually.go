// Package eventually waits in tests for what other processes do, if they have no channel on which
// they report it.
package eventually

import (
	"testing"
	"time"
)

// Succeeds calls check until it returns nil. It fails the test with the last error if check has not
// returned nil within two minutes, which only ends a hang. The pauses grow, so that waiting for long
// takes little of the processor.
func Succeeds(t testing.TB, check func() error) {
	t.Helper()
	for end, pause := time.Now().Add(2*time.Minute), time.Millisecond; ; pause = min(pause*5/4, 100*time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within two minutes: %v", err)
		}
		time.Sleep(pause) // real time: a poll
	}
}
