//go:build unix

package client

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lock locks a file against other processes, until it is closed or the process ends.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another sender has the folder open")
	}
	if err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}
