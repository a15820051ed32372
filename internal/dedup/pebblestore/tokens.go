package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// token reads a record, or returns an absent one. The caller must hold the latch.
func (s *Store) token(r *reader, key record.TokenKey, dbKey []byte) (record.Token, error) {
	c, ok, err := r.view(dbKey)
	if !ok || err != nil {
		return record.Token{Key: key}, err
	}
	return decodeToken(c, key)
}

// tokenNow is token with a new iterator.
func (s *Store) tokenNow(key record.TokenKey, dbKey []byte) (record.Token, error) {
	r := reader{store: s}
	t, err := s.token(&r, key, dbKey)
	return t, errors.Join(err, r.close())
}

// SwapToken implements record.Store. A next token that is Absent deletes the record.
func (s *Store) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	t, err := s.swapToken(ctx, &old, &next)
	if err != nil {
		return t, fmt.Errorf("swap token %s: %w", next.Key, err)
	}
	return t, nil
}

func (s *Store) swapToken(ctx context.Context, old, next *record.Token) (record.Token, error) {
	if err := ctx.Err(); err != nil {
		return record.Token{}, err
	}
	var memory keyMemory
	at := s.place(memory.token(next.Key))
	defer s.tokens.lock(at).Unlock()
	stored, err := s.tokenNow(next.Key, at.key)
	switch {
	case err != nil:
		return record.Token{}, err
	case same(&stored, old):
		err = s.putTokens(durability(next), *next)
	case !same(&stored, next):
		return stored, record.ErrConflict
	}
	return *next, err
}

// durability returns whether a swap must be synced. An issued token need not be, because the
// message that is enqueued after it is synced. An issued token that contains the request must be.
func durability(next *record.Token) *pebble.WriteOptions {
	if next.State == record.Issued && next.Request == nil {
		return pebble.NoSync
	}
	return pebble.Sync
}

// same reports whether two tokens are equal in the fields that the condition of a swap compares.
func same(a, b *record.Token) bool {
	if a.State == record.Absent {
		return b.State == record.Absent
	}
	return a.State == b.State && a.Owner == b.Owner && a.Epoch == b.Epoch
}

// MarkDone implements record.Store.
func (s *Store) MarkDone(ctx context.Context, tokens []record.Token) error {
	if len(tokens) == 0 {
		return nil
	}
	if err := s.markDone(ctx, tokens); err != nil {
		return fmt.Errorf("mark %d tokens done: %w", len(tokens), err)
	}
	return nil
}

// markDone takes the latches although it has no condition: a concurrent swap that has read a token
// must not overwrite the mark.
func (s *Store) markDone(ctx context.Context, tokens []record.Token) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer s.lockTokens(tokens).Unlock()
	return s.putTokens(pebble.NoSync, tokens...)
}

// lockTokens locks the latches of tokens. The caller holds no other latch of a token.
func (s *Store) lockTokens(tokens []record.Token) heldLatches {
	var memory keyMemory
	places := make([]place, 0, fewKeys)
	for i := range tokens {
		places = append(places, s.place(memory.token(tokens[i].Key)))
	}
	return s.tokens.lockAll(places)
}

func (s *Store) putTokens(sync *pebble.WriteOptions, tokens ...record.Token) error {
	batch := s.db.NewBatch()
	for i := range tokens {
		t := &tokens[i]
		if err := s.putToken(batch, t); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	return s.apply(batch, sync)
}

func (s *Store) putToken(batch *pebble.Batch, t *record.Token) error {
	var memory keyMemory
	key := memory.token(t.Key)
	if t.State == record.Absent {
		return batch.Delete(key, nil)
	}
	return s.encode.put(batch, key, func(e *encoding.Encoder) { encodeToken(e, t) })
}
