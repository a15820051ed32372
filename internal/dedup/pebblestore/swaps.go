package pebblestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

var _ record.TokenSwapper = (*Store)(nil)

// SwapTokens implements record.TokenSwapper: one view of the database, and one write.
func (s *Store) SwapTokens(ctx context.Context, swaps []record.Swap) []record.Swapped {
	results := make([]record.Swapped, len(swaps))
	err := s.swapTokens(ctx, swaps, results)
	for i := range results {
		r := &results[i]
		if err != nil {
			*r = record.Swapped{Err: err}
		}
		if r.Err != nil {
			r.Err = fmt.Errorf("swap token %s: %w", swaps[i].Next.Key, r.Err)
		}
	}
	return results
}

func (s *Store) swapTokens(ctx context.Context, swaps []record.Swap, results []record.Swapped) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	keys := make([][]byte, len(swaps))
	for i := range swaps {
		keys[i] = tokenKey(swaps[i].Next.Key)
	}
	unlock := s.tokens.lockAll(keys)
	defer unlock()
	batch, sync := s.db.NewBatch(), pebble.NoSync
	err := s.read(func(r *reader) error {
		for i := range swaps {
			old, next := &swaps[i].Old, &swaps[i].Next
			stored, err := s.token(r, next.Key, keys[i])
			switch {
			case err != nil:
				results[i].Err = err
				continue
			case same(&stored, old):
				if err := s.putToken(batch, next); err != nil {
					return err
				}
				if durability(next) == pebble.Sync {
					sync = pebble.Sync
				}
			case !same(&stored, next):
				results[i] = record.Swapped{Token: stored, Err: record.ErrConflict}
				continue
			}
			results[i].Token = *next
		}
		return nil
	})
	if err != nil || batch.Empty() {
		return errors.Join(err, batch.Close())
	}
	return s.apply(batch, sync)
}
