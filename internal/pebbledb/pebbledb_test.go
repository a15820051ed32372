package pebbledb_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/effectively-once/once/internal/pebbledb"
)

func TestADatabaseOpenInAnotherProcessIsLocked(t *testing.T) {
	if dir := os.Getenv("ONCE_TEST_LOCKED_DATABASE"); dir != "" {
		if _, err := pebbledb.Open(dir, nil); !errors.Is(err, pebbledb.ErrLocked) {
			t.Fatalf("open: %v, want %v", err, pebbledb.ErrLocked)
		}
		return
	}
	dir := t.TempDir()
	db, err := pebbledb.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestADatabase")
	other.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "ONCE_TEST_LOCKED_DATABASE="+dir)
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("in the other process: %v\n%s", err, out)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
