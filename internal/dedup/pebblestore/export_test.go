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
	latch := &latches.locks[latches.stripe(Key(key))]
	if !latch.TryLock() {
		return false
	}
	latch.Unlock()
	return true
}
