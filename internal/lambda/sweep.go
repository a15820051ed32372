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
	Groups int `json:"groups"`
	Failed int `json:"failed"`
	// Strays are objects that were deleted: staged blobs and claims that no group knows.
	Strays int `json:"strays"`
}

const (
	// strayAfter is when an object that no group knows is taken for a stray. It is longer than any attempt runs.
	strayAfter = time.Hour
	// sweepers is how many groups are swept at once.
	sweepers = 8
	listPage = 100
)

// sweep visits groups, several at once. What fails is logged, and the next sweep tries it again; that the groups could not be listed to the end is an error.
func (s *System) sweep(ctx context.Context, groups iter.Seq2[record.GroupKey, error], visit func(context.Context, record.GroupKey) error) (Swept, error) {
	var done, failed atomic.Int64
	var listing error
	var visits errgroup.Group
	visits.SetLimit(sweepers)
	for key, err := range groups {
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			listing = err
			break
		}
		visits.Go(func() error {
			done.Add(1)
			if err := visit(ctx, key); err != nil {
				failed.Add(1)
				s.log.Error("group not swept", "group", key.String(), "error", err)
			}
			return nil
		})
	}
	_ = visits.Wait() // visits fail one by one
	if listing != nil {
		listing = fmt.Errorf("sweep: %w", listing)
	}
	return Swept{Groups: int(done.Load()), Failed: int(failed.Load())}, listing
}

// sweepStrays deletes the objects that attempts left behind which never won.
func (s *System) sweepStrays(ctx context.Context) (int, error) {
	before := s.now().Add(-strayAfter)
	blobs, err1 := s.pipeline.Engine.SweepBlobs(ctx, s.store, before)
	claims, err2 := s.store.SweepClaims(ctx, before)
	if err := errors.Join(err1, err2); err != nil {
		return blobs + claims, fmt.Errorf("sweep strays: %w", err)
	}
	return blobs + claims, nil
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
		groups, err := s.store.Groups(ctx, "", after, listPage)
		switch {
		case errors.Is(err, record.ErrCorrupt):
			s.log.Error("records passed over", "error", err)
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
