package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/pebbledb"
)

// Expire implements record.Lister. It reads the store until it has found limit records, about a
// second for a million records. Corrupt records stay.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	n := 0
	for _, kind := range []struct {
		prefix  byte
		latches *latches
	}{{pebbledb.Tokens, s.tokens}, {pebbledb.Groups, s.groups}} {
		keys, err := s.expiredKeys(ctx, kind.prefix, limit-n)
		if err != nil {
			return n, fmt.Errorf("expire records: %w", err)
		}
		for _, key := range keys {
			deleted, err := s.expire(key, kind.latches)
			if err != nil {
				return n, fmt.Errorf("expire records: %w", err)
			}
			n += deleted
		}
	}
	deleted, err := s.expireChunks(ctx, limit-n)
	if err != nil {
		return n + deleted, fmt.Errorf("expire records: %w", err)
	}
	return n + deleted, nil
}

// expiredKeys returns up to limit keys of expired records, judging by their headers only.
func (s *Store) expiredKeys(ctx context.Context, prefix byte, limit int) (keys [][]byte, err error) {
	now := s.now()
	err = s.walk(ctx, bounds{lower: []byte{prefix}, upper: []byte{prefix + 1}}, func(key, value []byte) (bool, error) {
		if len(keys) >= limit {
			return false, nil
		}
		if r, ok := peek(value); ok && expired(r.expires, now) {
			keys = append(keys, bytes.Clone(key))
		}
		return true, ctx.Err()
	})
	return keys, err
}

// expire deletes the record of a key if it is still expired, under the latch so that it can't be
// renewed meanwhile. It returns how many records it deleted. A crash may undo the deletion.
func (s *Store) expire(key []byte, l *latches) (int, error) {
	at := s.place(key)
	defer l.lock(at).Unlock()
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	r, corrupt := open(key, value)
	gone := corrupt == nil && expired(r.expires, s.now())
	if err := closer.Close(); err != nil {
		return 0, err
	}
	if !gone {
		return 0, nil
	}
	s.heads.forget(at)
	batch := s.db.NewBatch()
	if err := batch.Delete(key, nil); err != nil {
		return 0, errors.Join(err, batch.Close())
	}
	return 1, s.apply(batch, pebble.NoSync)
}
