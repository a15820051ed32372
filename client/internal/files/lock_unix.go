//go:build unix

package files

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ErrLocked says that another process has locked the file.
var ErrLocked = errors.New("another process has locked the file")

// Lock locks a file against other processes, until it is closed or the process ends. It does not
// wait: it returns [ErrLocked] if the file is locked.
func Lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	if err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}
