//go:build crashpoints

package backup

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

var steps atomic.Int64

// crash kills the process, as kill -9 does, at the step of a restore or a stamp whose number
// ONCE_CRASH_RESTORE has.
func crash() {
	if n, err := strconv.ParseInt(os.Getenv("ONCE_CRASH_RESTORE"), 10, 64); err == nil && steps.Add(1) == n {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal may take a moment; nothing more is to happen
	}
}
