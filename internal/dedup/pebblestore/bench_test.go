//go:build unix

package pebblestore_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

const writers = 256

// smallGroup returns a group with a small state and one pending entry with one effect of 200 bytes.
func smallGroup(key record.GroupKey) record.Group {
	return record.Group{
		Key: key, Incarnation: 1, Version: 1, State: []byte(`{"cents":1200}`), Last: 1,
		Pending: []record.Pending{{
			Number: 1, Identity: "0123456789abcdef", Principal: "tenant", Attempt: "0123456789abcdef0123456789abcdef",
			Token: record.NewTokenKey("tenant", "orders", "1"), Fingerprint: record.Fingerprint{1, 2, 3}, Marks: true, Retention: time.Hour,
			Effects: []record.Effect{{
				To: []string{"ledger", "shop"}, ID: "0123456789abcdef", ContentType: "application/json",
				Headers: map[string]string{"traceparent": "00-1-2-01"}, Body: bytes.Repeat([]byte("x"), 200),
			}},
		}},
	}
}

func openBench(b *testing.B) (*pebble.DB, *pebblestore.Store) {
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
	return db, pebblestore.New(db, pebblestore.Options{})
}

// cost is the time that a benchmark took.
type cost struct{ wall, cpu time.Duration }

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// at runs f n times on many goroutines.
func at(b *testing.B, n int, f func(writer, i int) error) cost {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	start, cpu := time.Now(), cpuTime(b)
	for w := range writers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := f(w, int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return cost{wall: time.Since(start), cpu: cpuTime(b) - cpu} // real time: what a benchmark measures
}

// BenchmarkCommit loads and commits a different group on each of 256 goroutines, next to synced
// puts of as many bytes. ratio is how many times slower a load and a commit are than a put,
// cpu-ratio the same for processor time.
func BenchmarkCommit(b *testing.B) {
	db, store := openBench(b)
	ctx := context.Background()
	keys, next, raw := make([]record.GroupKey, writers), make([]record.Group, writers), make([][]byte, writers)
	for w := range writers {
		keys[w] = record.GroupKey{Stream: "orders", Group: fmt.Sprintf("customer-%06d", w)}
		raw[w] = []byte("raw " + keys[w].String())
		next[w] = smallGroup(keys[w])
		if err := store.Commit(ctx, record.Commit{Loaded: record.Group{Key: keys[w]}, Next: next[w]}); err != nil {
			b.Fatal(err)
		}
	}
	value := make([]byte, len(mustGet(b, db, pebblestore.Key(keys[0]))))
	b.ReportAllocs()
	b.ResetTimer()
	commits := at(b, b.N, func(w, _ int) error {
		groups, _, err := store.Load(ctx, keys[w:w+1], nil)
		if err != nil {
			return err
		}
		next[w].Version++
		next[w].Pending[0].Number++
		return store.Commit(ctx, record.Commit{Loaded: groups[0], Next: next[w]})
	})
	b.StopTimer()
	puts := at(b, b.N, func(w, _ int) error { return db.Set(raw[w], value, pebble.Sync) })
	b.ReportMetric(float64(commits.wall)/float64(puts.wall), "ratio")
	b.ReportMetric(float64(commits.cpu)/float64(puts.cpu), "cpu-ratio")
	b.ReportMetric(float64(commits.cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(len(value)), "bytes/record")
}

func mustGet(b *testing.B, db *pebble.DB, key []byte) []byte {
	b.Helper()
	value, closer, err := db.Get(key)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := closer.Close(); err != nil {
			b.Fatal(err)
		}
	}()
	return bytes.Clone(value)
}

func BenchmarkLoad(b *testing.B) {
	_, store := openBench(b)
	key, token := record.GroupKey{Stream: "orders", Group: "customer"}, record.NewTokenKey("", "orders", "1")
	if err := store.Commit(b.Context(), record.Commit{Loaded: record.Group{Key: key}, Next: smallGroup(key)}); err != nil {
		b.Fatal(err)
	}
	if err := store.MarkDone(b.Context(), []record.Token{{Key: token, State: record.Done, Expires: time.Now().Add(time.Hour)}}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := store.Load(b.Context(), []record.GroupKey{key}, []record.TokenKey{token}); err != nil {
			b.Fatal(err)
		}
	}
}
