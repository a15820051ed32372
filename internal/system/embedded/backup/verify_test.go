package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
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

func TestAFolderThatMayNotBeOpenedIsNotDamaged(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may open everything")
	}
	database := filepath.Join(t.TempDir(), databaseName)
	db, err := pebbledb.Open(database, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Close(), os.Chmod(filepath.Join(database, "LOCK"), 0)); err != nil {
		t.Fatal(err)
	}
	if v, err := Verify(t.Context(), filepath.Dir(database), func(int) {}); !errors.Is(err, fs.ErrPermission) || v.Damaged > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
