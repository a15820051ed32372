package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

const callers = 256

// recordBytes is about the size of a commit of the benchmark's group. The raw side writes the same
// size.
const recordBytes = 300

// noQueues drops triggers: the benchmark has nothing to publish.
type noQueues struct{}

func (noQueues) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }
func (noQueues) Return(context.Context, []record.Message) error                  { return nil }
func (noQueues) DeadLetter(context.Context, []record.Refused) error              { return nil }

// touch is a handler with a state of a hundred bytes and no effects.
func touch(_ context.Context, a *record.Attempt, _ record.Message) error {
	state := make([]byte, 100)
	copy(state, a.State)
	binary.BigEndian.PutUint64(state, binary.BigEndian.Uint64(state)+1)
	a.State = state
	return nil
}

func newEngine(db *pebble.DB) (*dedup.Engine, error) {
	return dedup.New(dedup.Config{
		Store: pebblestore.New(db, pebblestore.Options{}), Queues: noQueues{},
		Streams: []record.Stream{
			{Name: "key", Handler: touch},
			{Name: "sequence", Admission: record.BySequence, Handler: touch},
		},
	})
}

// open makes a database in a new folder.
func open(o options) (*pebble.DB, func() error, error) {
	dir, err := os.MkdirTemp(o.dir, "once-bench-")
	if err != nil {
		return nil, nil, err
	}
	db, err := pebbledb.Open(filepath.Join(dir, "db"), nil)
	if err != nil {
		return nil, nil, err
	}
	return db, func() error { return errors.Join(db.Close(), os.RemoveAll(dir)) }, nil
}

// hammer calls do from many goroutines for a time; do returns how many messages it processed.
func hammer(ctx context.Context, n int, d time.Duration, do func(ctx context.Context, caller int, i uint64) (int, error)) (float64, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	start := time.Now()
	var wg sync.WaitGroup
	for caller := range n {
		wg.Go(func() {
			for i := uint64(1); time.Since(start) < d && ctx.Err() == nil; i++ {
				count, err := do(ctx, caller, i)
				if err != nil {
					failed.Store(&err)
					return
				}
				done.Add(int64(count))
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(start).Seconds(), ctx.Err()
}

func raw(db *pebble.DB) side {
	var run uint64
	return func(ctx context.Context, d time.Duration) (float64, error) {
		run++
		return hammer(ctx, callers, d, func(_ context.Context, caller int, i uint64) (int, error) {
			key := fmt.Appendf(nil, "raw/%d/%d/%d", run, caller, i)
			return 1, db.Set(key, make([]byte, recordBytes), pebble.Sync)
		})
	}
}

// process sends batches of new messages to the engine. Each batch is of one group.
func process(e *dedup.Engine, stream string, size int) side {
	return func(ctx context.Context, d time.Duration) (float64, error) {
		run := time.Now().UnixNano() // unique to the round
		return hammer(ctx, callers, d, func(ctx context.Context, caller int, i uint64) (int, error) {
			batch := make([]record.Message, size)
			for n := range batch {
				m := record.Message{Stream: stream, Body: []byte(`{"a":1}`)}
				switch {
				case stream == "sequence" && size > 1:
					m.Source = fmt.Sprintf("s-%d-%d", run, caller)
					m.Sequence = (i-1)*uint64(size) + uint64(n) + 1
				case stream == "sequence":
					m.Source, m.Sequence = fmt.Sprintf("s-%d-%d-%d", run, caller, i), 1
				default:
					m.ID, m.Group = fmt.Sprintf("m-%d-%d-%d-%d", run, caller, i, n), fmt.Sprintf("g-%d-%d-%d", run, caller, i)
				}
				batch[n] = m
			}
			for _, o := range e.Process(ctx, batch) {
				if o.Kind != record.Processed {
					return 0, fmt.Errorf("outcome %s: %s %w", o.Kind, o.Detail, o.Err)
				}
			}
			return size, nil
		})
	}
}

func engine(ctx context.Context, o options) (err error) {
	db, closing, err := open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	e, err := newEngine(db)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name, stream string
		size         int
		atLeast      float64
	}{
		{"sequence, one message a group, 256 callers", "sequence", 1, 0.5},
		{"key, one message a group, 256 callers", "key", 1, 0.5},
		{"sequence, batches of 100 of one group, per message", "sequence", 100, 10},
		{"key, batches of 100 of one group, per message", "key", 100, 10},
	} {
		if err := compare(ctx, o, c.name, process(e, c.stream, c.size), raw(db), c.atLeast); err != nil {
			return err
		}
	}
	return nil
}
