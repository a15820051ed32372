//go:build unix

package file

import (
	"errors"
	"os"
	"syscall"
)

// lock locks the file against other processes, until the handle is closed or the process ends.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	}
	return err
}
