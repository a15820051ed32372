package session

import (
	"context"
	"errors"
	"fmt"

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
	// Skip says that the entries were not processed and must never be: they become dead letters with
	// the reason skipped. At most [MaxSkip] entries can be skipped together. Detail says why, in the
	// dead letters; at most 500 bytes.
	Skip   bool
	Detail string

	sent bool // the dead letters
}

// MaxSkip is how many entries one commit can skip.
const MaxSkip = 10_000

// check returns an error for a commit that a repetition could not be told from, or whose effects
// can never be published.
func (c *Commit) check(s *Sessions) error {
	if c.Skip && (c.To < c.From || c.To-c.From > MaxSkip || c.State != nil || len(c.Effects) > 0) {
		return &record.InvalidError{Field: "skip", Rule: fmt.Sprintf("needs to that is at most %d after from, and neither state nor effects", MaxSkip)}
	}
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
		return s.move(ctx, id, g, st, &c)
	})
	// A repetition triggers too: the first call may have died after its write.
	if len(c.Effects) > 0 && (err == nil || errors.Is(err, record.ErrFull)) {
		if failed := s.triggerPending(ctx, &g); failed != nil && err == nil {
			err = fmt.Errorf("commit: %w", failed)
		}
	}
	return err
}

// move applies a commit to the record of a session. It reports whether it changed anything.
func (s *Sessions) move(ctx context.Context, id ID, g *record.Group, st *state, c *Commit) (bool, error) {
	switch {
	case st.Cursor == c.To && (st.From == c.From || c.From == c.To):
		return false, nil
	case st.Cursor != c.From:
		return false, &MovedError{Cursor: st.Cursor}
	}
	if err := s.within(ctx, id, st, c.To); err != nil {
		return false, err
	}
	if c.Skip {
		if err := s.skip(ctx, id, st, c); err != nil {
			return false, err
		}
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
}

// within returns an error if the session can't have a cursor.
func (s *Sessions) within(ctx context.Context, id ID, st *state, cursor uint64) error {
	if !id.pooled() {
		return s.withinLog(ctx, id, st, cursor)
	}
	if err := s.checkLife(st); err != nil {
		return err
	}
	return s.withinPool(ctx, id, st, cursor)
}

// withinPool is within for a session that a pool deals to.
func (s *Sessions) withinPool(ctx context.Context, id ID, st *state, cursor uint64) error {
	_, p, err := s.pool(ctx, id.Stream)
	if err != nil {
		return err
	}
	switch lowest, highest := p.bounds(id.Name, st.Life); {
	case cursor < lowest:
		err = &ExpiredError{First: lowest + 1}
	case cursor > highest:
		err = &AheadError{Last: highest}
	default:
		return nil
	}
	// The pool forgets a session that is retired. That may have happened since it was loaded.
	if _, _, since := s.held(ctx, id, st.Fence); since != nil {
		return since
	}
	return err
}

// change changes the state of a session that the caller holds, and may add effects to its record.
// The function reports whether it changed anything. change returns the record of the last round.
func (s *Sessions) change(ctx context.Context, id ID, fence uint64, what string, apply func(g *record.Group, st *state) (bool, error)) (next record.Group, err error) {
	if err := s.validate(id); err != nil {
		return next, err
	}
	err = s.repeat(ctx, func() error {
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
