package pebblestore

import (
	"fmt"

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
func Readable(s *Store, key any) bool { return Users(s, key) == 0 }

// Users returns how many callers hold the latch of a record or wait for it.
func Users(s *Store, key any) int {
	latches := s.tokens
	if _, ok := key.(record.GroupKey); ok {
		latches = s.groups
	}
	hash := s.place(Key(key)).hash
	b := &latches[hash%buckets]
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.used {
		if l.hash == hash {
			return l.users
		}
	}
	return 0
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
