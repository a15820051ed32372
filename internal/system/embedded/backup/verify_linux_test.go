package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/effectively-once/once/internal/pebbledb"
)

// nobody is a user who owns no file of a test.
const nobody = 65534

// asNobody calls f without the right of root to open everything.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		err := syscall.Setfsuid(nobody)
		f()
		done <- err
	}()
	if err := <-done; err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
}

func TestAFolderThatMayNotBeOpenedIsNotDamaged(t *testing.T) {
	dir := t.TempDir()
	database := filepath.Join(dir, databaseName)
	db, err := pebbledb.Open(database, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(db.Close(), os.Chmod(filepath.Join(database, "LOCK"), 0))
	for _, folder := range []string{database, dir, filepath.Dir(dir)} {
		err = errors.Join(err, os.Chmod(folder, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		if v, err := Verify(t.Context(), dir, func(int) {}); !errors.Is(err, fs.ErrPermission) || v.Damaged > 0 {
			t.Errorf("%+v, %v", v, err)
		}
	})
}
