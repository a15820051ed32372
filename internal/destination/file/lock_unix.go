//go:build unix

package file

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps other processes from writing. It ends with the handle, and so with the process.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}
