package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// ReadLog implements record.LogReader. It takes no latch: the range ends where a durable record
// ends, and a chunk is never changed.
func (s *Store) ReadLog(ctx context.Context, r record.LogRange) (chunks []record.Chunk, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read log of group %s: %w", r.Group, err)
	}
	if r.After >= r.Last {
		return nil, nil
	}
	now, size := s.now(), 0
	err = s.walk(ctx, chunkBounds(r), func(key, value []byte) (bool, error) {
		if r.Enough(chunks, size) {
			return false, nil
		}
		c, err := open(key, value)
		if err != nil {
			return false, err
		}
		if expired(c.expires, now) {
			return true, nil
		}
		chunk, err := decodeChunk(c, r.Group, key)
		if err != nil {
			return false, err
		}
		chunks, size = append(chunks, chunk), size+len(chunk.Data)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read log of group %s: %w", r.Group, err)
	}
	return chunks, nil
}

// expireChunks deletes up to limit expired chunks. It reads one more chunk of each log, because the
// chunks of an incarnation expire in order. It takes no latch, because a chunk is never written
// again.
func (s *Store) expireChunks(ctx context.Context, limit int) (n int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	iter, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{pebbledb.Chunks}, UpperBound: []byte{pebbledb.Chunks + 1}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	now, batch := s.now(), s.db.NewBatch()
	for ok := iter.First(); ok && n < limit && err == nil; {
		r, corrupt := open(iter.Key(), iter.Value())
		switch {
		case corrupt == nil && !expired(r.expires, now):
			ok = iter.SeekGE(nextLog(iter.Key()))
			continue
		case corrupt == nil:
			n++
			err = batch.Delete(iter.Key(), nil)
		}
		ok, err = iter.Next(), errors.Join(err, ctx.Err())
	}
	if err := errors.Join(err, iter.Error()); err != nil || n == 0 {
		return 0, errors.Join(err, batch.Close())
	}
	return n, s.apply(batch, pebble.NoSync)
}

// nextLog returns a key after all chunks of the log of a chunk's key.
func nextLog(key []byte) []byte {
	next := bytes.Clone(key[:max(len(key)-8, 1)])
	return append(next, bytes.Repeat([]byte{math.MaxUint8}, 9)...)
}
