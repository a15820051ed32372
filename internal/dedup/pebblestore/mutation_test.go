package pebblestore

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// mutated returns a value with one change: some bytes from an offset on are replaced by others, not
// necessarily as many.
func mutated(value []byte, at, cut uint16, put []byte) []byte {
	from := int(at) % (len(value) + 1)
	to := min(from+int(cut), len(value))
	return append(append(bytes.Clone(value[:from]), put...), value[to:]...)
}

// FuzzMutatedRecord changes stored records: each way to read them must report that they are
// corrupt, and never that they are absent.
func FuzzMutatedRecord(f *testing.F) {
	db, err := pebbledb.Open("data", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	s := New(db, Options{Now: func() time.Time { return time.Unix(1e9, 0) }})
	f.Add(uint16(0), uint16(1), []byte{format + 1}) // a newer format
	f.Add(uint16(0), uint16(1<<15), []byte{})       // nothing left
	f.Add(uint16(5), uint16(1<<15), []byte{})       // cut
	f.Add(uint16(1), uint16(8), make([]byte, 8))    // expires never
	f.Add(uint16(1), uint16(8), []byte{0, 0, 0, 0, 0, 0, 0, 1})
	f.Add(uint16(1<<15), uint16(0), []byte{0}) // an additional byte
	f.Fuzz(func(t *testing.T, at, cut uint16, put []byte) {
		for _, k := range kinds() {
			value := k.encode(k.record)
			changed := mutated(value, at, cut, put)
			if bytes.Equal(value, changed) {
				continue
			}
			if err := db.Set(k.key, changed, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
			checkCorrupt(t, s, k)
		}
	})
}

// checkCorrupt reads a damaged record in every way.
func checkCorrupt(t *testing.T, s *Store, k kind) {
	t.Helper()
	var errs []error
	load := func(groups []record.GroupKey, tokens []record.TokenKey) {
		_, _, err := s.Load(t.Context(), groups, tokens)
		errs = append(errs, err)
	}
	switch x := k.record.(type) {
	case record.Group:
		load([]record.GroupKey{x.Key}, nil)
		first := record.Group{Key: x.Key, Incarnation: 1, Version: 1}
		errs = append(errs, s.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: x.Key}, Next: first}),
			s.Clear(t.Context(), record.Clear{Group: x.Key, Incarnation: x.Incarnation}))
	case record.Token:
		load(nil, []record.TokenKey{x.Key})
		_, err := s.SwapToken(t.Context(), record.Token{Key: x.Key}, record.Token{Key: x.Key, State: record.Issued})
		errs = append(errs, err)
	case record.Chunk:
		_, err := s.ReadLog(t.Context(), record.LogRange{Group: x.Group, Incarnation: x.Incarnation, After: x.First, Last: x.Last})
		errs = append(errs, err)
	case record.Held:
		_, err := s.Held(t.Context(), keyOf(&x.Message), 1)
		errs = append(errs, err)
	}
	for i, err := range errs {
		if !errors.Is(err, record.ErrCorrupt) {
			t.Fatalf("%s, way %d: got %v, want %v", k.name, i+1, err, record.ErrCorrupt)
		}
	}
}
