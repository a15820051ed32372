package pebbledb_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/pebbledb"
)

// TestAnErrorAtTheListOfSyncedFilesIsNeverPassedOver lets each operation on the list, and on its
// folder, fail once: Open returns the error, or the process ends with a message.
func TestAnErrorAtTheListOfSyncedFilesIsNeverPassedOver(t *testing.T) {
	failures := 0
	for failing := int64(1); ; failing++ {
		var count atomic.Int64
		var failed atomic.Pointer[string]
		inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
			ofList := strings.HasSuffix(op.Path, "SYNCED") && op.Kind != errorfs.OpFileClose
			if !ofList && op.Kind != errorfs.OpOpenDir || count.Add(1) != failing {
				return nil
			}
			text := fmt.Sprintf("%+v", op)
			failed.Store(&text)
			return syscall.EIO
		})
		end, ended := make(ending, 1), make(chan error, 1)
		go func() { // it never returns if the process would end
			db, err := pebbledb.Open("db", &pebble.Options{FS: errorfs.Wrap(vfs.NewMem(), inject), Logger: end, MemTableSize: 64 << 10})
			for n := int64(0); err == nil && n < 100; n++ {
				err = db.Set(key(n), make([]byte, 3000), pebble.Sync)
			}
			if err == nil {
				err = db.Close()
			}
			ended <- err
		}()
		var passedOver bool
		select {
		case <-end:
		case err := <-ended:
			passedOver = err == nil
		case <-time.After(30 * time.Second):
			t.Fatalf("operation %d fails, and the process hangs", failing)
		}
		if failed.Load() == nil {
			break
		}
		if failures++; passedOver {
			t.Errorf("passed over: %s", *failed.Load())
		}
	}
	t.Logf("%d operations failed", failures)
	if failures < 20 {
		t.Errorf("only %d operations failed", failures)
	}
}

// TestACutManifestIsRefused cuts the file that lists the tables: at its end, it can lack a table
// whose log is already gone.
func TestACutManifestIsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for age, f := range folders(t, rng) {
		for _, name := range kinds(t, f.fs)["MANIFEST"] {
			path := f.fs.PathJoin("db", name)
			whole := read(t, f.fs, path)
			for n := 0; n < len(whole); n += 1 + len(whole)/20 {
				fs := f.copy()
				write(t, fs, path, whole[:n])
				missing, err := look(pebbledb.Open, fs, f.acked)
				if missing > 0 {
					t.Errorf("%s folder: %s cut to %d of %d bytes: %d keys are missing, error %v", age, name, n, len(whole), missing, err)
				}
				if err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%s folder: %s cut to %d of %d bytes: %v", age, name, n, len(whole), err)
				}
			}
		}
	}
}

// TestAMarkerWhoseLossIsAcceptedIsRestored removes markers, which are empty: nothing is lost with
// them.
func TestAMarkerWhoseLossIsAcceptedIsRestored(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for age, f := range folders(t, rng) {
		for _, name := range kinds(t, f.fs)["marker"] {
			fs := f.copy()
			if err := fs.Remove(fs.PathJoin("db", name)); err != nil {
				t.Fatal(err)
			}
			var lost []string
			accepting := func(dir string, o *pebble.Options) (*pebble.DB, error) {
				return pebbledb.OpenAccepting(dir, o, func(d pebbledb.Damage) { lost = append(lost, d.String()) })
			}
			missing, err := look(accepting, fs, f.acked)
			if err != nil || missing > 0 || len(lost) != 1 || !strings.Contains(lost[0], name) || !strings.Contains(lost[0], "was restored") {
				t.Errorf("%s folder without %s: %d keys are missing, error %v, said %q", age, name, missing, err, lost)
			}
			if missing, err := look(pebbledb.Open, fs, f.acked); err != nil || missing > 0 {
				t.Errorf("%s folder: the next start: %d keys are missing, error %v", age, missing, err)
			}
		}
	}
}
