package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// Sweep finishes what a process that died has left of one record: the return of the entries of a
// closed session, or the end of a stream. Of an open session of the log of one group it reports
// entries that wait for long. It does nothing for records of other kinds. It can be called for all
// records, any number of times.
func (s *Sessions) Sweep(ctx context.Context, key record.GroupKey) error {
	if id, ok := ParseKey(key); ok && s.validate(id) == nil { // else its pool is not configured any more
		return errors.Join(s.Finish(ctx, id), s.lateInLog(ctx, id))
	}
	if stream, ok := strings.CutSuffix(key.Group, "/end"); ok && key.Stream == record.PoolsStream {
		return s.sweepEnd(ctx, stream)
	}
	return nil
}

// SweepEnds continues the ends of all streams. It costs one load for each pool whose stream is
// open, and none for an end that is complete.
func (s *Sessions) SweepEnds(ctx context.Context) error {
	var errs []error
	for _, stream := range slices.Sorted(maps.Keys(s.cfg.Pools)) {
		if s.isSettled(stream) {
			continue
		}
		closed, err := s.Closed(ctx, stream)
		if closed {
			err = s.sweepEnd(ctx, stream)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// isSettled reports whether the end of a stream is complete, as far as this process knows. If a
// retirement then returns entries, it makes dead letters of them itself, and a process that
// finishes it does so too.
func (s *Sessions) isSettled(stream string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled[stream]
}

// sweepEnd sends the end to the logs that have none, ends the pool if it can end, and makes dead
// letters of entries that were returned since.
func (s *Sessions) sweepEnd(ctx context.Context, stream string) error {
	if _, ok := s.cfg.Pools[stream]; !ok {
		return nil
	}
	_, p, err := s.pool(ctx, stream)
	if err == nil && !p.Ended {
		if err = s.sendEnds(ctx, stream); err == nil {
			err = s.settle(ctx, stream)
		}
	}
	if err == nil {
		err = s.letterUnread(ctx, stream)
	}
	if err != nil {
		return fmt.Errorf("sweep end of %s: %w", stream, err)
	}
	if p.Ended {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settled[stream] = true
	}
	return nil
}
