package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// sweepBatch is how many rows one statement deletes, so that it holds few locks for a short
	// time.
	sweepBatch = 100
	// sweepGrace is how long an expired row stays, in case the clocks of replicas differ.
	sweepGrace = time.Minute
)

// Sweep deletes the rows that expired more than a minute ago, and returns how many. It finds them
// by the index, and deletes them by their keys in batches, each on the condition that the row is
// still expired: a row that a request has taken over in the meantime stays. Several sweeps may run
// at the same time.
func (s *Store) Sweep(ctx context.Context) (deleted int, err error) {
	before := s.now().Add(-sweepGrace).UnixMilli()
	for {
		ids, err := s.expired(ctx, before)
		if err == nil && len(ids) > 0 {
			var n int64
			n, err = s.remove(ctx, ids, before)
			deleted += int(n)
		}
		if err != nil {
			return deleted, fmt.Errorf("sweep table %s: %w", s.table, err)
		}
		if len(ids) < sweepBatch {
			return deleted, nil
		}
	}
}

// expired returns the keys of some rows that had expired at a time, in order of the keys: two
// sweeps then lock rows in the same order.
func (s *Store) expired(ctx context.Context, before int64) (ids []any, err error) {
	query := s.dialect.Bind(fmt.Sprintf("SELECT id FROM %s WHERE expires <= ? AND format = %s ORDER BY expires LIMIT %d", s.table, theFormat, sweepBatch))
	rows, err := s.db.QueryContext(ctx, query, before)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b any) int { return slices.Compare(a.([]byte), b.([]byte)) })
	return ids, rows.Err()
}

func (s *Store) remove(ctx context.Context, ids []any, before int64) (int64, error) {
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", ")
	statement := s.dialect.Bind("DELETE FROM " + s.table + " WHERE id IN (" + marks + ") AND expires + 0 <= ? AND format = " + theFormat)
	result, err := s.db.ExecContext(ctx, statement, append(ids, before)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
