package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// Groups implements record.Lister; the order is by stream, then group. Corrupt records are left
// out, so that they do not keep a sweep from all others; then the error names the first of them,
// and the returned groups are valid.
func (s *Store) Groups(ctx context.Context, stream string, after record.GroupKey, limit int) ([]record.Group, error) {
	from := bounds{lower: []byte{pebbledb.Groups}, upper: []byte{pebbledb.Groups + 1}}
	if stream != "" {
		from = streamBounds(stream)
	}
	if after != (record.GroupKey{}) {
		from.after(groupKey(after))
	}
	groups, err := list(ctx, s, from, limit, s.listGroup)
	if err != nil {
		return groups, fmt.Errorf("list groups: %w", err)
	}
	return groups, nil
}

// listGroup reads a record under its latch, because a record that the iterator shows may not be
// durable yet.
func (s *Store) listGroup(ctx context.Context, dbKey []byte) (record.Group, bool, error) {
	key, ok := parseGroupKey(dbKey)
	if !ok {
		return record.Group{}, false, fmt.Errorf("key of %d bytes: %w", len(dbKey), record.ErrCorrupt)
	}
	groups, _, err := s.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return record.Group{}, false, err
	}
	return groups[0], groups[0].Version != 0, nil
}

// Tokens implements record.Lister; the order is by the bytes of the keys. Corrupt records are left
// out and reported as in Groups.
func (s *Store) Tokens(ctx context.Context, after record.TokenKey, limit int) ([]record.Token, error) {
	from := bounds{lower: []byte{pebbledb.Tokens}, upper: []byte{pebbledb.Tokens + 1}}
	if after != (record.TokenKey{}) {
		from.after(tokenKey(after))
	}
	tokens, err := list(ctx, s, from, limit, s.listToken)
	if err != nil {
		return tokens, fmt.Errorf("list tokens: %w", err)
	}
	return tokens, nil
}

func (s *Store) listToken(ctx context.Context, dbKey []byte) (record.Token, bool, error) {
	key, ok := parseTokenKey(dbKey)
	if !ok {
		return record.Token{}, false, fmt.Errorf("key %x: %w", dbKey, record.ErrCorrupt)
	}
	_, tokens, err := s.Load(ctx, nil, []record.TokenKey{key})
	if err != nil {
		return record.Token{}, false, err
	}
	return tokens[0], tokens[0].State != record.Absent, nil
}

// bounds are a range of keys; upper is exclusive.
type bounds struct{ lower, upper []byte }

// after moves the start of the range behind a key, unless it is behind it already.
func (b *bounds) after(key []byte) {
	if next := append(key, 0); bytes.Compare(next, b.lower) > 0 {
		b.lower = next
	}
}

// list reads up to limit records of a range; read reports whether the key has a live record.
func list[T any](ctx context.Context, s *Store, from bounds, limit int, read func(ctx context.Context, key []byte) (T, bool, error)) ([]T, error) {
	var page []T
	var corrupt error
	err := s.walk(ctx, from, func(key, _ []byte) (bool, error) {
		if len(page) >= limit {
			return false, nil
		}
		found, there, err := read(ctx, key)
		switch {
		case errors.Is(err, record.ErrCorrupt):
			if corrupt == nil {
				corrupt = err
			}
		case err != nil:
			return false, err
		case there:
			page = append(page, found)
		}
		return true, nil
	})
	return page, errors.Join(corrupt, err)
}

// walk calls f with each key and value until f returns false. If lower is not below upper, the
// range is empty.
func (s *Store) walk(ctx context.Context, b bounds, f func(key, value []byte) (more bool, err error)) (err error) {
	if err := ctx.Err(); err != nil || bytes.Compare(b.lower, b.upper) >= 0 {
		return err
	}
	iter, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: b.lower, UpperBound: b.upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		if more, err := f(iter.Key(), iter.Value()); err != nil || !more {
			return err
		}
	}
	return iter.Error()
}
