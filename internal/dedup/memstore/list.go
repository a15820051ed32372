package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// Groups implements record.Lister; the order is by stream, then group.
func (s *Store) Groups(ctx context.Context, stream string, after record.GroupKey, limit int) ([]record.Group, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []record.Group
	for _, key := range slices.SortedFunc(maps.Keys(s.groups), compareGroups) {
		if compareGroups(key, after) <= 0 || stream != "" && key.Stream != stream || len(out) >= limit {
			continue
		}
		if g := s.group(key); g.Version != 0 {
			out = append(out, s.result(g))
		}
	}
	return out, nil
}

func compareGroups(a, b record.GroupKey) int {
	return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Group, b.Group))
}

// Tokens implements record.Lister; the order is by the bytes of the keys.
func (s *Store) Tokens(ctx context.Context, after record.TokenKey, limit int) ([]record.Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []record.Token
	for _, key := range slices.SortedFunc(maps.Keys(s.tokens), compareTokens) {
		if compareTokens(key, after) <= 0 || len(out) >= limit {
			continue
		}
		if t := s.token(key); t.State != record.Absent {
			out = append(out, cloneToken(t))
		}
	}
	return out, nil
}

func compareTokens(a, b record.TokenKey) int { return bytes.Compare(a[:], b[:]) }

// Expire implements record.Lister.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("expire records: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for key, g := range s.groups {
		if n < limit && s.expired(g.Expires) {
			delete(s.groups, key)
			n++
		}
	}
	for key, chunks := range s.chunks {
		kept := make([]record.Chunk, 0, len(chunks))
		for _, chunk := range chunks {
			if n < limit && s.expired(chunk.Expires) {
				n++
				continue
			}
			kept = append(kept, chunk)
		}
		s.chunks[key] = kept
	}
	for key, t := range s.tokens {
		if n < limit && s.expired(t.Expires) {
			delete(s.tokens, key)
			n++
		}
	}
	return n, nil
}
