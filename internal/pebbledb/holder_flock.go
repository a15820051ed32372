//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pebbledb

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Holder returns the id of the process that has the database in a folder open, or 0 if there is
// none or it is not known. Call it only after Open returned [ErrLocked]: in a process that has the
// database open, it would release the lock.
func Holder(dir string) int {
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDWR, 0) //nolint:gosec // a name in the data folder
	if err != nil {
		return 0
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock); err != nil || lock.Type == syscall.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}
