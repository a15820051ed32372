package pebblestore

import (
	"bytes"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/effectively-once/once/internal/pebbledb"
)

// encoded gives the value that put writes under a key.
func encoded(t testing.TB, key []byte, put func(batch *pebble.Batch) error) []byte {
	t.Helper()
	db, err := pebbledb.Open("", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // a file system in memory
	batch := db.NewIndexedBatch()
	if err := put(batch); err != nil {
		t.Fatal(err)
	}
	value, closer, err := batch.Get(key)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close() //nolint:errcheck // memory
	return bytes.Clone(value)
}
