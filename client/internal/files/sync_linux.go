package files

import (
	"fmt"
	"os"
	"syscall"
)

// SyncData waits until the content of a file is durable, and its size.
func SyncData(f *os.File) error {
	if err := syscall.Fdatasync(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}
