package backup_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/embedded/backup"
)

// TestAnEffectThatWasBeingSentIsOneLineInAFolderThatWasRestoredElsewhere sends the same effects
// again after the restore, as the engine does with those that it did not clear before the copy.
func TestAnEffectThatWasBeingSentIsOneLineInAFolderThatWasRestoredElsewhere(t *testing.T) {
	old, copied, restored := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "data")
	sent := []record.Delivery{
		{Identity: "orders/g#1/1", Stream: "orders", Group: "g", Incarnation: 1, Number: 1, Effect: record.Effect{ID: "o-1", Body: []byte("1")}},
		{Identity: "orders/o-2", Stream: "orders", Effect: record.Effect{ID: "o-2", Body: []byte("2")}},
	}
	next := record.Delivery{Identity: "orders/o-3", Stream: "orders", Effect: record.Effect{ID: "o-3", Body: []byte("3")}}

	var want int
	written(t, old, sent, func(out []byte, write func(string)) {
		want = bytes.Count(out, []byte("\n"))
		write(copied)
	})
	if _, err := backup.Restore(t.Context(), copied, restored, time.Now); err != nil {
		t.Fatal(err)
	}
	written(t, restored, append(sent, next), func(out []byte, _ func(string)) {
		if got := bytes.Count(out, []byte("\n")); got != want+1 {
			t.Errorf("%d lines, want %d and the one that is new:\n%s", got, want, out)
		}
	})
}

// written opens a data folder, sends deliveries to its output file, and calls then with the file's
// content and a function that writes a backup.
func written(t *testing.T, dataDir string, deliveries []record.Delivery, then func(out []byte, write func(dir string))) {
	t.Helper()
	db, err := pebbledb.Open(filepath.Join(dataDir, "db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dataDir, "out.jsonl")
	s, err := file.Open(db, path, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Send(t.Context(), deliveries)...); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	then(out, func(dir string) {
		if _, err := backup.Write(t.Context(), backup.Source{DB: db, DataDir: dataDir, Files: []string{path}}, dir); err != nil {
			t.Fatal(err)
		}
	})
	if err := errors.Join(s.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
}
