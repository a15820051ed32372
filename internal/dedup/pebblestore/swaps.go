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
	places := make([]place, len(swaps))
	for i := range swaps {
		places[i] = s.place(tokenKey(swaps[i].Next.Key))
	}
	defer s.tokens.lockAll(places).Unlock()
	batch := s.db.NewBatch()
	sync, err := s.swapInto(batch, swaps, places, results)
	if err != nil || batch.Empty() {
		return errors.Join(err, batch.Close())
	}
	return s.apply(batch, sync)
}

// swapInto puts those swaps into a batch whose conditions hold, and returns whether the batch must
// be synced. The caller holds the latches.
func (s *Store) swapInto(batch *pebble.Batch, swaps []record.Swap, places []place, results []record.Swapped) (sync *pebble.WriteOptions, err error) {
	r := reader{store: s}
	defer func() { err = errors.Join(err, r.close()) }()
	sync = pebble.NoSync
	for i := range swaps {
		old, next := &swaps[i].Old, &swaps[i].Next
		stored, err := s.token(&r, next.Key, places[i].key)
		switch {
		case err != nil:
			results[i].Err = err
			continue
		case same(&stored, old):
			if err := s.putToken(batch, next); err != nil {
				return nil, err
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
	return sync, nil
}
