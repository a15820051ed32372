package embedded

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

func TestAStartedSystemKnowsTheKeysThatExist(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	s := started(t, Options{Ready: func(string) { close(ready) }})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-ready
	old := []record.Message{{Stream: "messages", Group: "g", ID: "1", Body: []byte("x")}}
	if out := s.engine.Process(ctx, old); out[0].Kind != record.Processed {
		t.Fatalf("%+v", out[0])
	}
	await(func() bool { return s.keys.Absent([]byte{pebbledb.Tokens}) })
	await(func() bool {
		stats, err := s.Stats(ctx)
		return err != nil || stats.Idle
	})
	if out := s.engine.Process(ctx, old); out[0].Kind != record.Duplicate {
		t.Errorf("a message that was processed before is %s", out[0].Kind)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if kinds := s.keysThatExist(t); kinds[pebbledb.Groups] != 1 || kinds[pebbledb.Tokens] != 1 || kinds[pebbledb.Files] != 3 {
		t.Errorf("kinds of keys: %v", kinds)
	}
}

// keysThatExist counts the keys that the filter must know, by their prefix.
func (s *System) keysThatExist(t *testing.T) map[byte]int {
	t.Helper()
	it, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	kinds := map[byte]int{}
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		kinds[key[0]]++
		mark := key[0] == pebbledb.Files && len(key) > 18 // not the length or the owner
		if (mark || key[0] == pebbledb.Groups || key[0] == pebbledb.Tokens) && s.keys.Absent(key) {
			t.Errorf("%x exists and is reported absent", key)
		}
	}
	return kinds
}

func await(what func() bool) {
	for !what() {
		runtime.Gosched()
	}
}

func TestCloseEndsTheFillOfTheFilter(t *testing.T) {
	dir := t.TempDir()
	db, err := pebbledb.Open(filepath.Join(dir, "data", databaseFolder), nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := db.NewBatch()
	for i := range 100_000 { // five parts, with pauses between them
		if err := batch.Set(fmt.Appendf([]byte{pebbledb.Tokens}, "%032d", i), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	s.Tokens()
	if err := s.Close(); err != nil { // fails if an iterator is open
		t.Error(err)
	}
	if s.keys.Absent([]byte{pebbledb.Tokens}) {
		t.Error("the fill was complete before Close: this test tests nothing")
	}
}

func TestAProcessThatOnlyInspectsAFolderHasNoFilter(t *testing.T) {
	dir := t.TempDir()
	writer, err := Open(Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"read-only": {DataDir: dir, ReadOnly: true}, "inspect": {DataDir: dir, Inspect: true}} {
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(nil); err != nil {
			t.Fatal(err)
		}
		s.Tokens()
		if s.keys.Filter != nil {
			t.Errorf("%s: there is a filter", name)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
