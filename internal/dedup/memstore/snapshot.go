package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Snapshot returns an independent store with the same records, which uses another clock to decide
// expiry.
func (s *Store) Snapshot(now func() time.Time) *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	// records in the maps are never changed
	c := &Store{now: now, shares: s.shares, groups: maps.Clone(s.groups), helds: maps.Clone(s.helds), tokens: maps.Clone(s.tokens), chunks: maps.Clone(s.chunks)}
	for key, chunks := range c.chunks {
		c.chunks[key] = slices.Clip(chunks) // the first append copies the list
	}
	return c
}

// WithTokens returns a snapshot that has the tokens of an older one, as copies of two tables have
// that were not made at one moment.
func (s *Store) WithTokens(older *Store) *Store {
	out := s.Snapshot(s.now)
	older.mu.Lock()
	defer older.mu.Unlock()
	out.tokens = maps.Clone(older.tokens)
	return out
}

// Contents are all records of a store, including expired ones, sorted by key.
type Contents struct {
	Groups []record.Group
	Held   []record.Held
	Tokens []record.Token
	// Chunks are those of the logs, in the order of their groups and then of the commits.
	Chunks []record.Chunk
}

// Contents returns copies of all records.
func (s *Store) Contents() Contents {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c Contents
	for _, key := range slices.SortedFunc(maps.Keys(s.groups), compareGroups) {
		c.Groups = append(c.Groups, cloneGroup(s.groups[key]))
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.helds), compareHeld) {
		c.Held = append(c.Held, cloneHeld(s.helds[key]))
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.tokens), compareTokens) {
		c.Tokens = append(c.Tokens, cloneToken(s.tokens[key]))
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.chunks), compareGroups) {
		c.Chunks = append(c.Chunks, s.chunks[key]...) // their data is never changed
	}
	return c
}

func compareHeld(a, b record.HeldKey) int {
	return cmp.Or(compareGroups(a.Group, b.Group), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Sequence, b.Sequence))
}
