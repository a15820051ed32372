package pebbledelay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// A Store implements [delay.Store].
type Store struct {
	db *pebble.DB

	scanning sync.Mutex // held by Due

	mu      sync.Mutex // held during a write to the log's memory, never during a sync
	waiting int
	// floor is a time before which there is no item, as a [delay.Ordinal]. A scan that begins there
	// passes none of the items that were deleted: they stay on disk until they are compacted.
	floor uint64
	// lowest is the earliest time that was put since the scan under way began.
	lowest uint64
	// corrupt are the errors of the records that can't be read, by their keys. The floor passes
	// them, so that they are read once; they are reported as long as they are there.
	corrupt map[string]error
}

var (
	_ delay.Store   = (*Store)(nil)
	_ delay.Counter = (*Store)(nil)
)

// Open opens the store of a database. The database may have been opened to be read only: then only
// Due and Stats may be called.
func Open(db *pebble.DB) (*Store, error) {
	s := &Store{db: db, corrupt: map[string]error{}}
	it, err := s.iterator(0, math.MaxUint64)
	if err != nil {
		return nil, fmt.Errorf("open delayed messages: %w", err)
	}
	for it.First(); it.Valid(); it.Next() {
		s.waiting++
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return nil, fmt.Errorf("open delayed messages: %w", err)
	}
	return s, nil
}

// iterator returns an iterator over the items that are due from one time on and before another.
func (s *Store) iterator(from, before uint64) (*pebble.Iterator, error) {
	bounds := &pebble.IterOptions{LowerBound: timeKey(nil, from), UpperBound: timeKey(nil, before)}
	if before == math.MaxUint64 {
		bounds.UpperBound = []byte{pebbledb.Delays + 1}
	}
	return s.db.NewIter(bounds)
}

// Put implements [delay.Store].
func (s *Store) Put(ctx context.Context, items []delay.Item) error {
	if err := s.put(ctx, items); err != nil {
		return fmt.Errorf("put delayed messages: %w", err)
	}
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return fmt.Errorf("sync delayed messages: %w", err)
	}
	return nil
}

// Ordered returns the same store with a Put that does not wait for the disk: the items become
// durable no later than any write to the database that begins after it has returned.
func (s *Store) Ordered() delay.Store { return ordered{s} }

type ordered struct{ *Store }

func (o ordered) Put(ctx context.Context, items []delay.Item) error {
	if err := o.put(ctx, items); err != nil {
		return fmt.Errorf("put delayed messages: %w", err)
	}
	return nil
}

// put writes items without waiting for the disk. A keeper may move them immediately: its writes are
// behind this one in the log.
func (s *Store) put(ctx context.Context, items []delay.Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(items) == 0 {
		return nil
	}
	batch := s.db.NewBatch()
	defer batch.Close()
	fresh := make(map[string]bool, len(items))
	for i := range items {
		key := keyOf(items[i].Key)
		fresh[string(key)] = true
		if err := batch.Set(key, encode(key, &items[i]), nil); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there, err := s.count(fresh)
	if err != nil {
		return err
	}
	for i := range items {
		due := delay.Ordinal(items[i].Due)
		s.floor, s.lowest = min(s.floor, due), min(s.lowest, due)
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return err
	}
	s.waiting += len(fresh) - there
	for key := range fresh {
		delete(s.corrupt, key)
	}
	return nil
}

// count returns how many of the keys there are. The caller holds the lock.
func (s *Store) count(keys map[string]bool) (n int, err error) {
	for key := range keys {
		_, closer, err := s.db.Get([]byte(key))
		switch {
		case errors.Is(err, pebble.ErrNotFound):
			continue
		case err == nil:
			err = closer.Close()
		}
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// Due implements [delay.Store].
func (s *Store) Due(ctx context.Context, after delay.Key, before time.Time, limit int) ([]delay.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read delayed messages: %w", err)
	}
	if after != (delay.Key{}) {
		return s.dueAfter(after, before, limit)
	}
	s.scanning.Lock()
	defer s.scanning.Unlock()
	s.mu.Lock()
	s.lowest = math.MaxUint64
	from, end := s.floor, delay.Ordinal(before)
	it, err := s.iterator(from, max(from, end))
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("read delayed messages: %w", err)
	}
	items, corrupt, err := read(it, limit)
	if err := errors.Join(err, it.Close()); err != nil {
		return nil, fmt.Errorf("read delayed messages: %w", err)
	}
	if len(items) > 0 {
		end = delay.Ordinal(items[0].Due)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if end > from {
		s.floor = min(end, s.lowest)
	}
	maps.Copy(s.corrupt, corrupt)
	return items, unreadable(s.corrupt)
}

// unreadable returns an error that names the earliest of the records that can't be read, or nil if
// there are none.
func unreadable(corrupt map[string]error) error {
	if len(corrupt) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(corrupt)))
	return fmt.Errorf("read delayed messages: %d can't be read: %w", len(corrupt), corrupt[first])
}

// dueAfter returns the items that come after a key. It leaves the floor as it is.
func (s *Store) dueAfter(after delay.Key, before time.Time, limit int) ([]delay.Item, error) {
	first, end := append(keyOf(after), 0), timeKey(nil, delay.Ordinal(before))
	if bytes.Compare(first, end) >= 0 {
		return nil, nil
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: first, UpperBound: end})
	if err != nil {
		return nil, fmt.Errorf("read delayed messages: %w", err)
	}
	items, corrupt, err := read(it, limit)
	if err := errors.Join(err, it.Close()); err != nil {
		return nil, fmt.Errorf("read delayed messages: %w", err)
	}
	return items, unreadable(corrupt)
}

// read returns the items that can be decoded, and the errors of those that can't, by their keys.
func read(it *pebble.Iterator, limit int) (items []delay.Item, corrupt map[string]error, err error) {
	bytes := 0
	for it.First(); it.Valid() && len(items) < limit && bytes < delay.PageBytes; it.Next() {
		data, err := it.ValueAndErr()
		if err != nil {
			return nil, nil, fmt.Errorf("record %q: %w", it.Key(), err)
		}
		item, err := decode(it.Key(), data)
		if err != nil {
			if corrupt == nil {
				corrupt = map[string]error{}
			}
			corrupt[string(it.Key())] = fmt.Errorf("record %q: %w", it.Key(), err)
			continue
		}
		items, bytes = append(items, item), bytes+item.Message.Size()
	}
	return items, corrupt, it.Error()
}

// Delete implements [delay.Store]. It does not wait for the disk.
func (s *Store) Delete(ctx context.Context, keys []delay.Key) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete delayed messages: %w", err)
	}
	batch := s.db.NewBatch()
	defer batch.Close()
	gone := make(map[string]bool, len(keys))
	for _, k := range keys {
		key := keyOf(k)
		gone[string(key)] = true
		if err := batch.Delete(key, nil); err != nil {
			return fmt.Errorf("delete delayed messages: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there, err := s.count(gone)
	if err == nil && there > 0 {
		err = batch.Commit(pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("delete delayed messages: %w", err)
	}
	s.waiting -= there
	for key := range gone {
		delete(s.corrupt, key)
	}
	return nil
}

// Stats implements [delay.Counter]. It counts records that can't be read, too.
func (s *Store) Stats(ctx context.Context) (delay.Stats, error) {
	first, err := s.Due(ctx, delay.Key{}, delay.OfOrdinal(math.MaxUint64), 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	out := delay.Stats{Waiting: s.waiting}
	if len(first) > 0 {
		out.Next = first[0].Due
	}
	if errors.Is(err, record.ErrCorrupt) {
		err = nil
	}
	return out, err
}
