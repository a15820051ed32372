package lambda

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/record"
)

// A Swept tells what a sweep did.
type Swept struct {
	// Groups were visited to the end, Failed of them in vain.
	Groups int `json:"groups"`
	Failed int `json:"failed"`
	// Strays are objects that were deleted: staged blobs and claims that no group knows.
	Strays int `json:"strays"`
	// Done is false where time ended the sweep. That is no error: each one begins elsewhere, so that several reach all.
	Done bool `json:"done"`
}

const (
	// strayAfter is when an object that no group knows is taken for a stray. It is longer than any attempt runs.
	strayAfter = time.Hour
	// sweepers is how many groups are swept at once.
	sweepers = 8
	listPage = 100
	// strayShare is the part of a sweep's time that is kept for strays: one in so many.
	strayShare = 4
)

// sweepAll finishes what crashed workers left: in groups first, then in the bucket, whatever came of the groups.
func (s *System) sweepAll(ctx context.Context) (Swept, error) {
	if !s.bucket {
		return s.sweep(ctx, s.unfinished(ctx), s.pipeline.Engine.Sweep)
	}
	most, cancel := s.keep(ctx, func(left time.Duration) time.Duration { return left / strayShare })
	defer cancel()
	swept, groupsErr := s.sweep(most, s.unfinished(most), s.pipeline.Engine.Sweep)
	strays, through, straysErr := s.sweepStrays(ctx)
	swept.Strays, swept.Done = strays, swept.Done && through
	return swept, errors.Join(groupsErr, straysErr)
}

// late tells an error that says no more than that the context's time is over.
func late(ctx context.Context, err error) bool {
	return errors.Is(context.Cause(ctx), context.DeadlineExceeded) && errors.Is(err, context.DeadlineExceeded)
}

// sweep visits groups, several at once. What fails is logged, and the next sweep tries it again. That the groups could not be listed is an error, but for want of time after
// some were.
func (s *System) sweep(ctx context.Context, groups iter.Seq2[record.GroupKey, error], visit func(context.Context, record.GroupKey) error) (Swept, error) {
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
				s.log.Error("group not swept", "group", key.String(), "error", err)
			}
			return nil
		})
	})
	_ = visits.Wait() // visits fail one by one
	swept := Swept{Groups: int(done.Load()), Failed: int(failed.Load()), Done: listing == nil && ctx.Err() == nil}
	if listing != nil {
		return swept, fmt.Errorf("sweep: %w", listing)
	}
	if !swept.Done {
		s.log.Info("sweep ended by its time", "groups", swept.Groups)
	}
	return swept, nil
}

// each shows f the groups until time is over.
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

// sweepStrays deletes the objects that attempts left behind which never won, and tells whether there was time for all. Claims go first: blobs take a look at the whole table, and
// end by the bucket's lifecycle too.
func (s *System) sweepStrays(ctx context.Context) (strays int, through bool, err error) {
	before := s.now().Add(-strayAfter)
	claims, claimsErr := s.store.SweepClaims(ctx, before)
	blobs, blobsErr := s.pipeline.Engine.SweepBlobs(ctx, s.store, before)
	through = true
	for _, one := range []error{claimsErr, blobsErr} {
		if late(ctx, one) {
			through = false
			s.log.Info("sweep of strays ended by its time", "error", one)
			continue
		}
		err = errors.Join(err, one)
	}
	if err != nil {
		return claims + blobs, through, fmt.Errorf("sweep strays: %w", err)
	}
	return claims + blobs, through, nil
}

// unfinished gives the groups that have something pending or held, or that nothing ends. It begins anywhere and goes around, so that a table that is too large for one
// sweep is swept by several.
func (s *System) unfinished(ctx context.Context) iter.Seq2[record.GroupKey, error] {
	anywhere := record.GroupKey{Stream: "sweep", Group: rand.Text()}
	return func(yield func(record.GroupKey, error) bool) {
		first, more := s.list(ctx, anywhere, record.GroupKey{}, yield)
		if more {
			s.list(ctx, record.GroupKey{}, first, yield)
		}
	}
}

// list gives the unfinished groups behind a key, up to another one or to the end. It tells the first key of all that it saw, and whether to go on.
func (s *System) list(ctx context.Context, after, end record.GroupKey, yield func(record.GroupKey, error) bool) (first record.GroupKey, more bool) {
	for {
		groups, err := s.store.Glance(ctx, after, listPage)
		switch {
		case errors.Is(err, record.ErrCorrupt):
			s.log.Error("records passed over", "error", err)
		case late(ctx, err) && (first != record.GroupKey{} || end != record.GroupKey{}):
			return first, false // some of the table was seen, if no group that has to be swept
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
			if (len(g.Pending) > 0 || g.HasHeld() || g.Endless()) && !yield(g.Key, nil) {
				return first, false
			}
		}
		after = groups[len(groups)-1].Key
	}
}
