package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

func TestLinesOfAnotherDataFolderAreNotCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.jsonl")
	first, second := t.TempDir(), t.TempDir()
	write := func(dir, name string) error {
		db, err := pebbledb.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close() //nolint:errcheck // nothing to lose
		s, err := Open(db, path, Options{})
		if err != nil {
			return err
		}
		return errors.Join(errors.Join(s.Send(t.Context(), []record.Delivery{named(name)})...), s.Close())
	}
	if err := errors.Join(write(first, "a"), write(first, "b"), write(second, "c")); err != nil {
		t.Fatal(err)
	}
	var foreign *ForeignError
	if err := write(first, "d"); !errors.As(err, &foreign) {
		t.Errorf("the first folder again: %v", err)
	}
	content, err := os.ReadFile(path)
	if want := line("a") + line("b") + line("c"); err != nil || string(content) != want {
		t.Errorf("got %q, %v", content, err)
	}
}

func TestAFileHasOneWriterAtATime(t *testing.T) {
	b := newBench(t)
	b.send(b.open(Options{}), named("a"))
	db, err := pebbledb.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing to lose
	if _, err := Open(db, b.path, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("open: %v", err)
	}
}
