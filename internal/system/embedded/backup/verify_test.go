package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A refusing file system has no locks.
type refusing struct {
	vfs.FS
	err error
}

func (r refusing) Lock(name string) (io.Closer, error) {
	return nil, fmt.Errorf("open %s: %w", name, r.err)
}

func TestAFolderOnAReadOnlyFileSystemNeedsNoLock(t *testing.T) {
	lock, err := readable{refusing{vfs.NewMem(), syscall.EROFS}}.Lock("LOCK")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	for _, want := range []error{syscall.EAGAIN, fs.ErrPermission} {
		if _, err := (readable{refusing{vfs.NewMem(), want}}).Lock("LOCK"); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
