package presence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// scanChunk is the number of keys that are read at a time. A new iterator for each chunk lets
	// Pebble delete the files that the last one read.
	scanChunk = 20_000
	// scanPause is the pause between two chunks. It is about as long as a chunk takes, so that a
	// scan uses at most half a processor.
	scanPause = 10 * time.Millisecond
)

// Run fills the filter, and fills it again whenever more than half of its keys were deleted. It
// returns when ctx ends, or with the error of a failed scan; then the filter answers as before.
func (f *Filter) Run(ctx context.Context) error {
	for {
		if err := f.Fill(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.stale:
		}
	}
}

// Fill fills the filter once. Until it returns, the filter answers as before. Only one call may be
// in progress.
func (f *Filter) Fill(ctx context.Context) error {
	next, err := newSet(f.size)
	if err != nil {
		return fmt.Errorf("fill filter of keys: %w", err)
	}
	old := f.epoch.Load().answering
	// Afterwards, each commit in progress adds its keys to next, and the scan finds all others.
	f.begin(&epoch{answering: old, filling: next})
	f.deleted.Store(0)
	for _, prefix := range f.prefixes {
		if err := f.scan(ctx, next, prefix); err != nil {
			f.begin(&epoch{answering: old})
			return fmt.Errorf("fill filter of keys: %w", err)
		}
	}
	f.begin(&epoch{answering: next})
	return nil
}

// begin begins an epoch, and waits until the commits of the previous epoch have ended. So commits
// of at most two epochs are in progress.
func (f *Filter) begin(e *epoch) {
	before := f.epoch.Swap(e)
	before.commits.Lock()
	before.commits.Unlock() //nolint:staticcheck // the lock is only waited for
}

// scan adds all keys with a prefix to a set.
func (f *Filter) scan(ctx context.Context, s *set, prefix byte) error {
	from, err := f.scanChunk(ctx, s, []byte{prefix})
	for from != nil && err == nil {
		if err = pause(ctx); err == nil {
			from, err = f.scanChunk(ctx, s, from)
		}
	}
	return err
}

// scanChunk adds the next keys to a set, and returns the first key of the next chunk, or nil if
// there is none.
func (f *Filter) scanChunk(ctx context.Context, s *set, from []byte) (next []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	iter, err := f.db.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: from, UpperBound: []byte{from[0] + 1}, KeyTypes: pebble.IterKeyTypePointsOnly,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	n := 0
	for ok := iter.First(); ok; ok = iter.Next() {
		if n++; n > scanChunk {
			return bytes.Clone(iter.Key()), nil
		}
		s.add(f.hash(iter.Key()))
	}
	return nil, iter.Error()
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(scanPause):
		return nil
	}
}

// noteDeleted counts deleted keys. If they are most keys of the answering set, and that set has
// grown, it asks Run to fill the filter again.
func (f *Filter) noteDeleted(e *epoch, n int) {
	if n == 0 || e.answering == nil {
		return
	}
	deleted := f.deleted.Add(int64(n))
	layers := *e.answering.layers.Load()
	if len(layers) == 1 || 2*deleted <= keysOf(layers) || e.filling != nil {
		return
	}
	select {
	case f.stale <- struct{}{}:
	default: // Run was asked already
	}
}
