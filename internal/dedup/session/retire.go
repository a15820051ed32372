package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// A Retirement closes a session for good.
type Retirement struct {
	Fence uint64
	// Cursor is the number in the consumer's store, read in the statement that raised the fence
	// there. It is nil if the consumer has no store of its own. If the system was restored from an
	// older copy, it may be higher than any number that the copy knows.
	Cursor *uint64
	// SkipTo is used in place of Cursor if the consumer's store is lost: the entries after the
	// session's cursor, up to this number, become dead letters, because nobody knows whether they
	// were processed.
	SkipTo *uint64
}

// Retire closes a session, and returns its unread entries to the pool: the caller has opened the
// session, and raised the fence in the consumer's store. It can be repeated until it succeeds. It
// returns a [*FencedError], an [*AheadError] or an [*ExpiredError].
func (s *Sessions) Retire(ctx context.Context, id ID, r Retirement) error {
	if r.Cursor != nil && r.SkipTo != nil {
		return fmt.Errorf("retire: %w", &record.InvalidError{Field: "cursor", Rule: "must not be given together with a number to skip to"})
	}
	_, err := s.change(ctx, id, r.Fence, "retire", func(_ *record.Group, st *state) (bool, error) {
		if err := s.place(ctx, id, st, &r); err != nil {
			return false, err
		}
		st.Closed, st.LeaseUntil = true, 0
		st.Returned = !id.pooled()
		return true, nil
	})
	if err != nil && !errors.Is(err, ErrRetired) {
		return err
	}
	return s.Finish(ctx, id)
}

// place moves the cursor to where the retirement says.
func (s *Sessions) place(ctx context.Context, id ID, st *state, r *Retirement) error {
	to := st.Cursor
	if r.Cursor != nil {
		to = *r.Cursor
	}
	if r.SkipTo != nil {
		if to = *r.SkipTo; to < st.Cursor {
			return &MovedError{Cursor: st.Cursor}
		}
	}
	if to == st.Cursor {
		return nil
	}
	to, err := s.placed(ctx, id, st, to)
	if err != nil {
		return err
	}
	if r.SkipTo != nil {
		if err := s.deadLetter(ctx, id, st, st.Cursor, to, letter{reason: record.ReasonSkipped, detail: "the cursor of its session was lost"}); err != nil {
			return err
		}
	}
	st.From, st.Cursor = st.Cursor, to
	return nil
}

// placed returns the cursor with which a session is retired. A consumer that is further than a copy
// that was restored has processed all entries that the copy has dealt to it.
func (s *Sessions) placed(ctx context.Context, id ID, st *state, cursor uint64) (uint64, error) {
	if !id.pooled() {
		return cursor, s.withinLog(ctx, id, st, cursor)
	}
	err := s.withinPool(ctx, id, st, cursor)
	if ahead, ok := errors.AsType[*AheadError](err); ok && s.beforeRestore(st) {
		cursor, err = ahead.Last, nil
	}
	return cursor, err
}

// Finish returns the unread entries of a session that is closed, if nobody has done so. A sweep
// calls it for a process that died in Retire.
func (s *Sessions) Finish(ctx context.Context, id ID) error {
	_, st, err := s.session(ctx, id)
	if err == nil && st.Closed && !st.Returned {
		err = s.finish(ctx, id, &st)
	}
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}

// finish returns the unread entries of a closed session to the pool, and then marks the session.
// Others may be doing the same.
func (s *Sessions) finish(ctx context.Context, id ID, closed *state) error {
	err := s.repeat(ctx, func() error {
		g, p, err := s.pool(ctx, id.Stream)
		if err != nil {
			return err
		}
		p.returnUnread(id.Name, closed.Life, closed.Cursor, closed.Dead)
		// The pool is written even if it does not know the session: a deal that loaded the session
		// before it was closed must not succeed any more.
		return s.writePool(ctx, g, &p)
	})
	if err != nil {
		return err
	}
	if err := s.letterUnread(ctx, id.Stream); err != nil {
		return err
	}
	return s.repeat(ctx, func() error {
		g, st, err := s.session(ctx, id)
		if err != nil || st.Life != closed.Life || st.Returned {
			return err
		}
		st.Returned = true
		return s.writeState(ctx, g, g, &st)
	})
}
