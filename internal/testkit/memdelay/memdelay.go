// Package memdelay is a store of delayed messages in memory, for tests that need no disk. It passes
// the suite of the port. Nothing survives the process.
package memdelay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/delay"
)

// A Store implements [delay.Store]. The zero value is empty.
type Store struct {
	mu    sync.Mutex
	items []delay.Item // in order
}

var (
	_ delay.Store   = (*Store)(nil)
	_ delay.Counter = (*Store)(nil)
)

// New returns an empty store.
func New() *Store { return &Store{} }

// Put implements [delay.Store].
func (s *Store) Put(ctx context.Context, items []delay.Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range items {
		if at, found := s.find(item.Key); found {
			s.items[at] = item
		} else {
			s.items = slices.Insert(s.items, at, item)
		}
	}
	return nil
}

// Due implements [delay.Store].
func (s *Store) Due(ctx context.Context, after delay.Key, before time.Time, limit int) ([]delay.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	from := 0
	if after != (delay.Key{}) {
		at, found := s.find(after)
		if from = at; found {
			from++
		}
	}
	n, _ := s.find(delay.Key{Due: before})
	to, bytes := from, 0
	for to < n && to-from < limit && bytes < delay.PageBytes {
		bytes += s.items[to].Message.Size()
		to++
	}
	return slices.Clone(s.items[from:to]), nil
}

// Delete implements [delay.Store].
func (s *Store) Delete(ctx context.Context, keys []delay.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		if at, found := s.find(k); found {
			s.items = slices.Delete(s.items, at, at+1)
		}
	}
	return nil
}

// Stats implements [delay.Counter].
func (s *Store) Stats(context.Context) (delay.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := delay.Stats{Waiting: len(s.items)}
	if len(s.items) > 0 {
		out.Next = s.items[0].Due
	}
	return out, nil
}

// find returns the place of a key. The caller holds the lock.
func (s *Store) find(k delay.Key) (int, bool) {
	return slices.BinarySearchFunc(s.items, k, func(item delay.Item, k delay.Key) int {
		switch {
		case item.Before(k):
			return -1
		case k.Before(item.Key):
			return 1
		}
		return 0
	})
}
