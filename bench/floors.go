package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/bbolt"

	"github.com/effectively-once/once/internal/pebbledb"
)

// recordBytes is about the size of a commit of the benchmark's group. Floors and peers write as
// much.
const recordBytes = 300

// openPut opens the floor of all that is stored in Pebble: one synced put a message.
func openPut(_ context.Context, dir string) (*worker, error) {
	db, err := pebbledb.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	put := func(key []byte) error { return db.Set(key, make([]byte, recordBytes), pebble.Sync) }
	return &worker{run: puts(put), close: db.Close}, nil
}

// chunkBytes is about the size of the chunk of a hundred entries of a log, with bodies of a hundred
// bytes.
const chunkBytes = 22 << 10

// openPutChunk returns synced puts of a hundred entries each, which do not compress.
func openPutChunk(_ context.Context, dir string) (*worker, error) {
	db, err := pebbledb.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	chunk := make([]byte, chunkBytes)
	_, _ = rand.Read(chunk) // never fails
	run := func(ctx context.Context, d time.Duration) (load, error) {
		round := time.Now().UnixNano()
		return hammer(ctx, batchCallers, d, func(_ context.Context, caller int, i uint64) (int, error) {
			return 100, db.Set(fmt.Appendf(nil, "%d-%02d-%012d", round, caller, i), chunk, pebble.Sync)
		})
	}
	return &worker{run: run, close: db.Close}, nil
}

// openBolt opens a peer: bbolt, whose Batch writes several callers' puts in one synced transaction.
func openBolt(_ context.Context, dir string) (*worker, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	put := func(key []byte) error {
		return db.Batch(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("records"))
			if err != nil {
				return err
			}
			return b.Put(key, make([]byte, recordBytes))
		})
	}
	return &worker{run: puts(put), close: db.Close}, nil
}

// openLog opens the floor of all that is durable: appends to one file, with an fdatasync for all
// that came during the one before.
func openLog(_ context.Context, dir string) (*worker, error) {
	file, err := vfs.Default.Create(filepath.Join(dir, "log"), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	l := &appendLog{file: file}
	l.turn = sync.NewCond(&l.mu)
	put := func(key []byte) error {
		return l.append(append(make([]byte, 0, recordBytes+len(key)), key...)[:recordBytes])
	}
	return &worker{run: puts(put), close: file.Close}, nil
}

// An appendLog is a file with synced appends.
type appendLog struct {
	file vfs.File

	mu      sync.Mutex
	turn    *sync.Cond // a sync has ended
	waiting []byte     // not yet in the file
	round   int        // of the next write
	synced  int        // rounds that are on disk
	busy    bool
	err     error
}

// append returns when b is on disk. Of the callers that wait, one writes and syncs for all.
func (l *appendLog) append(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, b...)
	for mine := l.round; l.synced <= mine && l.err == nil; {
		if l.busy {
			l.turn.Wait()
			continue
		}
		l.writeAll()
	}
	return l.err
}

func (l *appendLog) writeAll() {
	b := l.waiting
	l.waiting, l.busy = nil, true
	l.round++
	l.mu.Unlock()
	_, err := l.file.Write(b)
	err = errors.Join(err, l.file.SyncData())
	l.mu.Lock()
	l.busy, l.err, l.synced = false, err, l.round
	l.turn.Broadcast()
}

// puts calls put from all callers, each time with a new key.
func puts(put func(key []byte) error) func(context.Context, time.Duration) (load, error) {
	return func(ctx context.Context, d time.Duration) (load, error) {
		prefix := strconv.AppendInt(nil, time.Now().UnixNano(), 10)
		return hammer(ctx, callers, d, func(_ context.Context, caller int, i uint64) (int, error) {
			key := append(make([]byte, 0, 48), prefix...)
			key = strconv.AppendInt(append(key, '/'), int64(caller), 10)
			return 1, put(strconv.AppendUint(append(key, '/'), i, 10))
		})
	}
}
