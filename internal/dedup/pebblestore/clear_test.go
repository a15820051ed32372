package pebblestore

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

func TestAClearThatChangesNothingWritesNothing(t *testing.T) {
	db, err := pebbledb.Open("data", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, key := New(db, Options{}), record.GroupKey{Stream: "orders", Group: "a"}
	next := record.Group{Key: key, Incarnation: 1, Version: 1, Retention: time.Hour, Pending: []record.Pending{{Number: 1}}}
	if err := s.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: key}, Next: next}); err != nil {
		t.Fatal(err)
	}
	one := record.Clear{Group: key, Incarnation: 1, Numbers: []uint64{1}}
	for _, step := range []struct {
		name   string
		clear  record.Clear
		writes bool
	}{
		{"a number that is not there", record.Clear{Group: key, Incarnation: 1, Numbers: []uint64{2}}, false},
		{"a number that is there", one, true},
		{"the same number", one, false},
		{"an end of what is idle", record.Clear{Group: key, Incarnation: 1, Now: time.Now()}, true},
	} {
		before := db.Metrics().WAL.BytesIn
		if err := s.Clear(t.Context(), step.clear); err != nil {
			t.Fatal(err)
		}
		if written := db.Metrics().WAL.BytesIn - before; step.writes != (written > 0) {
			t.Errorf("%s: %d bytes written", step.name, written)
		}
	}
}
