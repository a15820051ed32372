package log_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// benchEngine returns an engine on a database in a folder, with a numbered stream that has logs,
// and one that has none.
func benchEngine(b *testing.B) (*dedup.Engine, *pebblestore.Store) {
	b.Helper()
	db, err := pebbledb.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	handler := func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.State = make([]byte, 100)
		return nil
	}
	store := pebblestore.New(db, pebblestore.Options{})
	e, err := dedup.New(dedup.Config{
		Store: store, Queues: noQueues{},
		Streams: []record.Stream{
			{Name: "plain", Admission: record.BySequence, Handler: handler},
			{Name: "logged", Admission: record.BySequence, Handler: handler, LogRetention: time.Hour, LogMessages: true},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return e, store
}

// batchOf returns the next batch of a hundred messages of 100 bytes of one sender.
func batchOf(stream string, n int) []record.Message {
	out := make([]record.Message, 100)
	for i := range out {
		out[i] = record.Message{Stream: stream, Source: "sender", Sequence: uint64(n*len(out) + i + 1), ContentType: "text/plain", Body: make([]byte, 100)}
	}
	return out
}

// BenchmarkBatchOf100 processes batches of a hundred messages of one sender: with a log, at most
// 1.3 times the time that it takes without.
func BenchmarkBatchOf100(b *testing.B) {
	for _, stream := range []string{"plain", "logged"} {
		b.Run(stream, func(b *testing.B) {
			e, _ := benchEngine(b)
			n := 0
			for b.Loop() {
				for _, out := range e.Process(b.Context(), batchOf(stream, n)) {
					if out.Kind != record.Processed {
						b.Fatal(out)
					}
				}
				n++
			}
		})
	}
}

// BenchmarkRead reads a log of 100,000 entries of 100 bytes as CBOR.
func BenchmarkRead(b *testing.B) {
	e, store := benchEngine(b)
	key := record.GroupKey{Stream: "logged", Group: ""}
	const entries = 100_000
	for n := range entries / 100 {
		messages := batchOf("logged", n)
		for _, out := range e.Process(b.Context(), messages) {
			if out.Kind != record.Processed {
				b.Fatal(out)
			}
		}
		key = messages[0].GroupKey()
	}
	var buffer []byte
	for b.Loop() {
		at, seen := log.Offset{}, 0
		for seen < entries {
			page, err := log.Read(b.Context(), store, key, at, math.MaxInt32)
			if err != nil || len(page.Entries) == 0 {
				b.Fatal(fmt.Errorf("after %d entries: %w", seen, err))
			}
			buffer = buffer[:0]
			for i := range page.Entries {
				buffer = page.Entries[i].AppendCBOR(buffer, page.Next.Incarnation, "")
			}
			at, seen = page.Next, seen+len(page.Entries)
		}
	}
	b.ReportMetric(float64(b.N*entries)/b.Elapsed().Seconds(), "entries/s")
}
