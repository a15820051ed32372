package pebblestore

import (
	"fmt"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// Key returns the database key of a record, for tests that damage it.
func Key(key any) []byte {
	switch k := key.(type) {
	case record.GroupKey:
		return groupKey(k)
	case record.HeldKey:
		return heldKey(k)
	case record.Chunk:
		return chunkKey(k.Group, k.Incarnation, k.Last)
	case record.TokenKey:
		return tokenKey(k)
	}
	panic(fmt.Sprintf("no record has a %T", key))
}

// Readable reports whether a reader of a record would not have to wait.
func Readable(s *Store, key any) bool {
	latches := s.tokens
	if _, ok := key.(record.GroupKey); ok {
		latches = s.groups
	}
	hash := s.place(Key(key)).hash
	b := &latches[hash%buckets]
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(b.used, func(l *latch) bool { return l.hash == hash })
}

// Gathered returns how many synced writes wait to be written together.
func Gathered(s *Store) int {
	s.synced.mu.Lock()
	defer s.synced.mu.Unlock()
	if s.synced.open == nil {
		return 0
	}
	return len(s.synced.open.batches)
}
