package function

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

const (
	// strayAfter is the age at which an object that no group knows is deleted. It is longer than
	// any attempt runs.
	strayAfter = time.Hour
	// sweepers is the number of groups that are swept at once.
	sweepers = 8
	listPage = 100
	// strayShare is the part of a sweep's time that is kept for strays: one in so many.
	strayShare = 4
)

// sweepAll finishes the work of crashed workers: in groups first, then in the bucket, even if
// groups failed. Before, it looks for entries of pools that wait for long.
func (s *System) sweepAll(ctx context.Context) (tasks.Swept, error) {
	lateErr := s.sessions.Late(ctx)
	if late(ctx, lateErr) {
		lateErr = nil
	}
	if !s.bucket {
		swept, err := s.sweep(ctx, s.unfinished(ctx), s.finishGroup())
		return swept, errors.Join(lateErr, err)
	}
	most, cancel := s.keep(ctx, func(left time.Duration) time.Duration { return left / strayShare })
	defer cancel()
	swept, groupsErr := s.sweep(most, s.unfinished(most), s.finishGroup())
	strays, through, straysErr := s.sweepStrays(ctx)
	swept.Strays, swept.Done = strays, swept.Done && through
	return swept, errors.Join(lateErr, groupsErr, straysErr)
}

const (
	// moveAhead is how long before they are due delayed messages are moved to SQS, which delays them
	// for the rest of the time. It is longer than several intervals of the sweep, so that a sweep
	// that fails makes no message late.
	moveAhead = 5 * time.Minute
	// moveBatch is how many delayed messages are read, moved and deleted at a time.
	moveBatch = 500
	// moveShare is the part of a sweep's time that delayed messages may take: one in so many.
	moveShare = 2
)

// moveDelayed moves the delayed messages that are due soon, as far as its part of the time allows.
// The next sweep continues.
func (s *System) moveDelayed(ctx context.Context) (moved int, through bool, err error) {
	ctx, cancel := s.keep(ctx, func(left time.Duration) time.Duration { return left / moveShare })
	defer cancel()
	moved, err = s.keeper.MoveDue(ctx)
	if through = !late(ctx, err); !through {
		s.log.Info("sweep ran out of time for delayed messages", "moved", moved)
		err = nil
	}
	return moved, through, err
}

// sweepEach sends the ticks of schedules, moves delayed messages, continues the ends of streams,
// which are few, and then closes gaps.
func (s *System) sweepEach(ctx context.Context) (tasks.Swept, error) {
	ticks := s.sendTicks(ctx)
	moved, through, moveErr := s.moveDelayed(ctx)
	ends := s.sessions.SweepEnds(ctx)
	if late(ctx, ends) {
		ends = nil
	}
	swept, err := s.sweep(ctx, s.store.Waiting(ctx), s.pipeline.Engine.CloseGaps)
	swept.Moved, swept.Done = moved, swept.Done && through
	return swept, errors.Join(ticks, moveErr, err, ends)
}

// sendTicks sends the ticks of schedules that are due before the next sweep.
func (s *System) sendTicks(ctx context.Context) error {
	if s.schedules == nil {
		return nil
	}
	if _, err := s.schedules.Send(ctx); err != nil && !late(ctx, err) {
		return fmt.Errorf("send schedules: %w", err)
	}
	return nil
}

// late reports whether an error means only that the context's time is over.
func late(ctx context.Context, err error) bool {
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded)
}

// sweep visits groups, several at once. If a visit fails, it is logged, and the next sweep tries
// the group again. If the groups can't be listed, that is an error, unless time was over after some
// were listed.
func (s *System) sweep(ctx context.Context, groups iter.Seq2[record.GroupKey, error], visit func(context.Context, record.GroupKey) error) (tasks.Swept, error) {
	var done, failed atomic.Int64
	var visits errgroup.Group
	visits.SetLimit(sweepers)
	listing := s.each(ctx, groups, func(key record.GroupKey) {
		visits.Go(func() error {
			err := visit(ctx, key)
			if late(ctx, err) {
				return nil
			}
			done.Add(1)
			if err != nil {
				failed.Add(1)
				s.log.LogAttrs(ctx, slog.LevelError, "group not swept", append(key.LogAttrs(false), slog.Any("error", err))...)
			}
			return nil
		})
	})
	_ = visits.Wait() // visits fail one by one
	swept := tasks.Swept{Groups: int(done.Load()), Failed: int(failed.Load()), Done: listing == nil && ctx.Err() == nil}
	if listing != nil {
		return swept, fmt.Errorf("sweep: %w", listing)
	}
	if !swept.Done {
		s.log.Info("sweep ran out of time", "groups", swept.Groups)
	}
	return swept, nil
}

// each calls f with the groups until time is over.
func (s *System) each(ctx context.Context, groups iter.Seq2[record.GroupKey, error], f func(record.GroupKey)) error {
	listed := false
	for key, err := range groups {
		listed = listed || err == nil
		if err = cmp.Or(err, context.Cause(ctx)); listed && late(ctx, err) {
			return nil
		}
		if err != nil {
			return err
		}
		f(key)
	}
	return nil
}

// sweepStrays deletes the objects of attempts that never won, and reports whether there was time
// for all. Claims go first: for blobs the whole table has to be read, and the bucket's lifecycle
// deletes blobs too.
func (s *System) sweepStrays(ctx context.Context) (strays int, through bool, err error) {
	before := s.now().Add(-strayAfter)
	claims, claimsErr := s.store.SweepClaims(ctx, before)
	blobs, blobsErr := s.pipeline.Engine.SweepBlobs(ctx, s.store, before)
	through = true
	for _, one := range []error{claimsErr, blobsErr} {
		if late(ctx, one) {
			through = false
			s.log.Info("sweep of strays ran out of time", "error", one)
			continue
		}
		err = errors.Join(err, one)
	}
	if err != nil {
		return claims + blobs, through, fmt.Errorf("sweep strays: %w", err)
	}
	return claims + blobs, through, nil
}

// finishGroup returns the visit of a group.
func (s *System) finishGroup() func(context.Context, record.GroupKey) error {
	return func(ctx context.Context, key record.GroupKey) error {
		if key.OfSessions() {
			if err := s.sessions.Sweep(ctx, key); err != nil {
				return err
			}
		}
		return s.pipeline.Engine.Sweep(ctx, key)
	}
}

// unfinished yields the groups that have something pending or held, that have no expiry, or that
// belong to sessions. It begins at a random key and goes around, so that a table that is too large
// for one sweep is swept by several.
func (s *System) unfinished(ctx context.Context) iter.Seq2[record.GroupKey, error] {
	anywhere := record.GroupKey{Stream: "sweep", Group: rand.Text()}
	return func(yield func(record.GroupKey, error) bool) {
		first, more := s.list(ctx, anywhere, record.GroupKey{}, yield)
		if more {
			s.list(ctx, record.GroupKey{}, first, yield)
		}
	}
}

// list yields the unfinished groups after a key, up to another key or to the end. It returns the
// first key that it read, and whether to continue.
func (s *System) list(ctx context.Context, after, end record.GroupKey, yield func(record.GroupKey, error) bool) (first record.GroupKey, more bool) {
	for {
		groups, err := s.store.Glance(ctx, after, listPage)
		switch {
		case errors.Is(err, record.ErrCorrupt):
			s.log.Error("records passed over", "error", err)
		case late(ctx, err) && (first != record.GroupKey{} || end != record.GroupKey{}):
			// some of the table was read, even if no group in it has to be swept
			return first, false
		case err != nil:
			yield(record.GroupKey{}, err)
			return first, false
		}
		if len(groups) == 0 {
			return first, true
		}
		if first == (record.GroupKey{}) {
			first = groups[0].Key
		}
		for i := range groups {
			g := &groups[i]
			if g.Key == end {
				return first, true
			}
			if (len(g.Pending) > 0 || g.HasHeld() || g.MissingExpiry() || g.Key.OfSessions()) && !yield(g.Key, nil) {
				return first, false
			}
		}
		after = groups[len(groups)-1].Key
	}
}
