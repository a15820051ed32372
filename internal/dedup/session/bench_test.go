package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

const (
	benchEntries = 100_000
	benchBatch   = 1_000
)

// benchStore returns a store with the log of a partition: chunks of 1,000 entries of 100 bytes.
func benchStore(b *testing.B, fs vfs.FS, dir string) *pebblestore.Store {
	b.Helper()
	db, err := pebbledb.Open(dir, &pebble.Options{FS: fs})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	store := pebblestore.New(db, pebblestore.Options{})
	g := record.Group{Key: session.Partition(stream, 0)}
	for range benchEntries / benchBatch {
		next := g
		next.Incarnation, next.Version = 1, g.Version+1
		entries := make([]record.Entry, benchBatch)
		for i := range entries {
			next.Log.Last++
			entries[i] = record.Entry{Number: next.Log.Last, Kind: record.EntryMessage, ID: fmt.Sprint(next.Log.Last), Time: clock.Hybrid(next.Log.Last), Body: make([]byte, 100)}
		}
		next.Log.Until = time.Now().Add(time.Hour)
		next.Expires = next.Log.Until
		if err := store.Commit(b.Context(), record.Commit{Loaded: g, Next: next, Attempt: fmt.Sprint(next.Version), Append: log.Chunks(&next, entries)}); err != nil {
			b.Fatal(err)
		}
		g = next
	}
	return store
}

// BenchmarkReadAndCommit is one session that reads batches of 1,000 entries of 100 bytes as CBOR,
// and commits its cursor after each. With a window of 10,000 the pool is asked for every tenth.
func BenchmarkReadAndCommit(b *testing.B) {
	for name, fs := range map[string]vfs.FS{"memory": nil, "disk": vfs.Default} {
		for _, window := range []uint64{1_000, 10_000} {
			b.Run(fmt.Sprint(name, "/window=", window), func(b *testing.B) {
				dir := b.TempDir()
				if fs == nil {
					fs, dir = vfs.NewMem(), "data"
				}
				store := benchStore(b, fs, dir)
				s := session.New(store, session.Config{Pools: map[string]session.Pool{stream: {Window: window}}, Now: time.Now})
				var buffer []byte
				for n := 0; b.Loop(); n++ {
					buffer = consumeAll(b, s, session.ID{Stream: stream, Name: fmt.Sprint(n)}, buffer)
				}
				b.ReportMetric(float64(b.N*benchEntries)/b.Elapsed().Seconds(), "entries/s")
			})
		}
	}
}

// consumeAll reads and commits all entries, and returns them to the pool by a retire.
func consumeAll(b *testing.B, s *session.Sessions, id session.ID, buffer []byte) []byte {
	b.Helper()
	o, err := s.Open(b.Context(), id, session.Opening{})
	if err != nil {
		b.Fatal(err)
	}
	for at := uint64(0); at < benchEntries; {
		page, err := s.Read(b.Context(), id, session.Reading{Fence: o.Fence, Limit: benchBatch})
		if err != nil || len(page.Entries) != benchBatch {
			b.Fatal(len(page.Entries), err)
		}
		buffer = buffer[:0]
		for i := range page.Entries {
			buffer = page.Entries[i].AppendCBOR(buffer, page.Entries[i].Offset.Incarnation, "")
		}
		if err := s.Commit(b.Context(), id, session.Commit{Fence: o.Fence, From: at, To: page.Next}); err != nil {
			b.Fatal(err)
		}
		at = page.Next
	}
	start := uint64(0)
	if err := s.Retire(b.Context(), id, session.Retirement{Fence: o.Fence, Cursor: &start}); err != nil {
		b.Fatal(err)
	}
	return buffer
}
