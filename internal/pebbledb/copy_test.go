package pebbledb_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/effectively-once/once/internal/pebbledb"
)

// lacks returns a key that was written and is not in a database as it was written, or "".
func lacks(t *testing.T, files vfs.FS, dir string, written map[string]string) string {
	t.Helper()
	db, err := pebbledb.Open(dir, small(files))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for key, want := range written {
		value, closer, err := db.Get([]byte(key))
		if err != nil || string(value) != want {
			return key
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return ""
}

// TestACopyHasWhatWasDurableBeforeItAndBothSurviveAPowerFailure writes while a copy is made. In one
// of about thirty runs, the log grows between two reads in a way that leaves a gap.
func TestACopyHasWhatWasDurableBeforeItAndBothSurviveAPowerFailure(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	files, w := vfs.NewCrashableMem(), &writer{acked: map[string]string{}}
	db, err := pebbledb.Open("db", small(files))
	if err != nil {
		t.Fatal(err)
	}
	w.db = db
	for i := range 8 {
		w.write(t, rng, 150, 1000)
		before, dir := maps.Clone(w.acked), fmt.Sprintf("copy%d", i)
		copied := make(chan error)
		go func() { copied <- pebbledb.Copy(db, files, dir) }()
		w.write(t, rng, 100, 1000)
		if err := <-copied; err != nil {
			t.Fatal(err)
		}
		off := files.CrashClone(vfs.CrashCloneCfg{})
		if key := lacks(t, off, dir, before); key != "" {
			t.Errorf("copy %d lacks %s", i, key)
		}
		if key := lacks(t, off, "db", w.acked); key != "" {
			t.Errorf("after copy %d the database lacks %s", i, key)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedLogOfACopyIsNoticed(t *testing.T) {
	files, w := vfs.NewMem(), &writer{acked: map[string]string{}}
	db, err := pebbledb.Open("db", small(files))
	if err != nil {
		t.Fatal(err)
	}
	w.db = db
	w.write(t, rand.New(rand.NewPCG(2, 0)), 20, 100)
	if err := errors.Join(pebbledb.Copy(db, files, "copy"), db.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := files.List("copy")
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := files.OpenReadWrite("copy/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte("damage"), 40)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		damaged++
	}
	var damage *pebbledb.DamageError
	if _, err := pebbledb.Open("copy", small(files)); damaged == 0 || !errors.As(err, &damage) {
		t.Errorf("%d damaged logs: %v", damaged, err)
	}
}

// TestACopyThatFailsLeavesTheDatabaseAsItIs lets each operation on the files of a copy fail, as on
// a full disk.
func TestACopyThatFailsLeavesTheDatabaseAsItIs(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 0))
	var at, seen atomic.Int64
	full := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasPrefix(op.Path, "copy") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && seen.Add(1) == at.Load() {
			return errorfs.ErrInjected
		}
		return nil
	})
	disk, w := vfs.NewCrashableMem(), &writer{acked: map[string]string{}}
	files := errorfs.Wrap(disk, full)
	options := small(files)
	db, err := pebbledb.Open("db", options)
	if err != nil {
		t.Fatal(err)
	}
	w.db = db
	w.write(t, rng, 200, 1000)
	failed := 0
	for n := int64(1); ; n++ {
		at.Store(n)
		seen.Store(0)
		if pebbledb.Copy(db, files, fmt.Sprintf("copy%d", n)) != nil {
			failed++
		}
		w.write(t, rng, 3, 1000)
		if seen.Load() < n {
			break
		}
	}
	if died := options.Logger.(*survivor).last.Load(); died != nil || failed < 10 {
		t.Errorf("%d copies failed, and the process ended: %v", failed, died)
	}
	if key := lacks(t, disk.CrashClone(vfs.CrashCloneCfg{}), "db", w.acked); key != "" {
		t.Errorf("the database lacks %s", key)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
