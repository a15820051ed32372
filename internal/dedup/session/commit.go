package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A Commit moves the cursor of a session.
type Commit struct {
	Fence uint64
	// From is the cursor before, and To the cursor after. To may be lower if the consumer's store
	// was restored from an older copy. If both are the cursor, nothing is written.
	From, To uint64
	// State replaces the consumer's state if it is not nil.
	State []byte
	// Effects are published after the commit, under identities that no other effect has. Each names
	// its destinations.
	Effects []record.Effect
}

// check returns an error for a commit that a repetition could not be told from, or whose effects
// can never be published.
func (c *Commit) check(s *Sessions) error {
	if c.To <= c.From && (c.State != nil || len(c.Effects) > 0) {
		return &record.InvalidError{Field: "to", Rule: "must be after from in a commit with state or effects"}
	}
	return s.checkEffects(c.Effects)
}

// Commit moves the cursor, and writes the consumer's state and the effects with it. It renews the
// lease. The same commit again is no error, and has no further effects. It returns a
// [*FencedError], [ErrRetired], a [*MovedError], an [*AheadError], an [*ExpiredError], a
// [*record.InvalidError], or an error that wraps [record.ErrFull] as long as too many effects wait
// to be published.
func (s *Sessions) Commit(ctx context.Context, id ID, c Commit) error {
	if err := c.check(s); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := s.triggerEarly(ctx, id.key(), c.Effects); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	g, err := s.change(ctx, id, c.Fence, "commit", func(g *record.Group, st *state) (bool, error) {
		switch {
		case st.Cursor == c.To && (st.From == c.From || c.From == c.To):
			return false, nil
		case st.Cursor != c.From:
			return false, &MovedError{Cursor: st.Cursor}
		}
		if err := s.within(ctx, id, st, c.To); err != nil {
			return false, err
		}
		if err := s.emit(g, fmt.Sprintf("%d/%d", st.Life, c.To), c.Effects); err != nil {
			return false, err
		}
		st.From, st.Cursor = c.From, c.To
		if c.State != nil {
			st.Consumer = c.State
		}
		st.renew(s.cfg.Now())
		return true, nil
	})
	// A repetition triggers too: the first call may have died after its write.
	if len(c.Effects) > 0 && (err == nil || errors.Is(err, record.ErrFull)) {
		if failed := s.triggerPending(ctx, &g); failed != nil && err == nil {
			err = fmt.Errorf("commit: %w", failed)
		}
	}
	return err
}

// within returns an error if the session can't have a cursor.
func (s *Sessions) within(ctx context.Context, id ID, st *state, cursor uint64) error {
	lowest, highest := uint64(0), uint64(0)
	if id.pooled() {
		_, p, err := s.pool(ctx, id)
		if err != nil {
			return err
		}
		lowest, highest = p.bounds(id.Name, st.Life)
	} else {
		groups, err := s.load(ctx, id.logKey())
		if err != nil {
			return err
		}
		switch g := &groups[0]; {
		case st.Incarnation == 0: // nothing was read
		case g.Incarnation != st.Incarnation:
			return &ExpiredError{First: 1, Again: true}
		default:
			highest = g.Log.Last
		}
	}
	switch {
	case cursor < lowest:
		return &ExpiredError{First: lowest + 1}
	case cursor > highest:
		return &AheadError{Last: highest}
	}
	return nil
}

// change changes the state of a session that the caller holds, and may add effects to its record.
// The function reports whether it changed anything. change returns the record of the last round.
func (s *Sessions) change(ctx context.Context, id ID, fence uint64, what string, apply func(g *record.Group, st *state) (bool, error)) (next record.Group, err error) {
	if err := s.validate(id); err != nil {
		return next, err
	}
	err = repeat(ctx, func() error {
		g, st, err := s.held(ctx, id, fence)
		if err != nil {
			return err
		}
		next = g.Clone()
		changed, err := apply(&next, &st)
		if err != nil || !changed {
			return err
		}
		return s.writeState(ctx, g, next, &st)
	})
	if err != nil {
		return next, fmt.Errorf("%s: %w", what, err)
	}
	return next, nil
}

// Release ends the lease: the next consumer need not wait. It can be repeated.
func (s *Sessions) Release(ctx context.Context, id ID, fence uint64) error {
	_, err := s.change(ctx, id, fence, "release", func(_ *record.Group, st *state) (bool, error) {
		released := st.LeaseUntil == 0
		st.LeaseUntil, st.Holder = 0, ""
		return !released, nil
	})
	return err
}

// Renew lets the lease run from now on, and returns its end.
func (s *Sessions) Renew(ctx context.Context, id ID, fence uint64) (until time.Time, err error) {
	_, err = s.change(ctx, id, fence, "renew", func(_ *record.Group, st *state) (bool, error) {
		st.renew(s.cfg.Now())
		until = st.leaseUntil()
		return true, nil
	})
	return until, err
}
