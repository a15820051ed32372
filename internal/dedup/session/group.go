package session

import (
	"context"
	"errors"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// A session of the log of one group counts the entries that come after its Start. So the number 0
// means "nothing is processed" in every store of a consumer, and numbers have no hole, also if the
// first entries of the log had expired when the session was opened. Nothing is lost by that: those
// entries never belonged to the session. All later ones do, and if one of them expires before it is
// read, the consumer is told.

// begin sets where in its log a new life of a session begins. If the log has had no entry yet, the
// session begins with its first one, and bind sets the incarnation.
func (s *Sessions) begin(ctx context.Context, id ID, st *state) error {
	if id.pooled() {
		return nil
	}
	start, err := log.Start(ctx, s.store, id.logKey())
	st.Incarnation, st.Start = start.Incarnation, start.Number
	return err
}

// bind notes the incarnation of a log that has had no entry before. It is written before anybody
// sees an entry or is told that one has expired, because the cursor counts in this incarnation only.
func (s *Sessions) bind(ctx context.Context, id ID, g record.Group, st *state) error {
	groups, err := s.load(ctx, id.logKey())
	if err != nil || groups[0].Log.Last == 0 {
		return err
	}
	st.Incarnation = groups[0].Incarnation
	return s.writeState(ctx, g, g, st)
}

// readLog reads the log of a single group.
func (s *Sessions) readLog(ctx context.Context, id ID, r Reading) (Page, error) {
	g, st, err := s.held(ctx, id, r.Fence)
	if err != nil {
		return Page{}, err
	}
	if st.Incarnation == 0 {
		if err := s.bind(ctx, id, g, &st); err != nil {
			return Page{}, err
		}
	}
	page := s.page(id, &st, r)
	if st.Incarnation == 0 {
		if page.Next > 0 {
			return Page{}, &AheadError{}
		}
		return page, nil
	}
	part, err := log.Read(ctx, s.store, id.logKey(), log.Offset{Incarnation: st.Incarnation, Number: st.Start + page.Next}, r.Limit)
	if err != nil {
		return Page{}, st.logError(err)
	}
	key := id.logKey()
	page.Entries = make([]Entry, 0, len(part.Entries))
	for i := range part.Entries {
		page.Next = part.Entries[i].Number - st.Start - 1 // numbers jump at a restore
		page.add(&st, key, st.Incarnation, &part.Entries[i])
	}
	page.End = part.End
	return page, nil
}

// logError returns the error of a log with the numbers of its session.
func (s *state) logError(err error) error {
	if expired, ok := errors.AsType[*log.ExpiredError](err); ok {
		if expired.First.Incarnation != s.Incarnation {
			return &ExpiredError{First: 1, Again: true}
		}
		return &ExpiredError{First: expired.First.Number + 1 - s.Start}
	}
	if ahead, ok := errors.AsType[*log.AheadError](err); ok {
		return &AheadError{Last: ahead.Last.Number - min(ahead.Last.Number, s.Start)}
	}
	return err
}

// withinLog returns an error if a session of the log of a single group can't have a cursor.
func (s *Sessions) withinLog(ctx context.Context, id ID, st *state, cursor uint64) error {
	groups, err := s.load(ctx, id.logKey())
	if err != nil {
		return err
	}
	g := &groups[0]
	if st.Incarnation != 0 && g.Incarnation != st.Incarnation {
		return &ExpiredError{First: 1, Again: true}
	}
	last := uint64(0)
	if st.Incarnation != 0 {
		last = g.Log.Last - min(g.Log.Last, st.Start)
	}
	if cursor > last {
		return &AheadError{Last: last}
	}
	return nil
}
