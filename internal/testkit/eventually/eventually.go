// Package eventually waits in tests for what other processes do, if they have no channel on which
// they report it.
package eventually

import (
	"testing"
	"time"
)

// Succeeds calls check until it returns nil. It fails the test with the last error if check has not
// returned nil within two minutes, which only ends a hang.
func Succeeds(t testing.TB, check func() error) {
	t.Helper()
	// real time: other processes have no channel
	end, tick := time.After(2*time.Minute), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for err := check(); err != nil; err = check() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within two minutes: %v", err)
		}
	}
}
