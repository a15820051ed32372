package session

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A state is the content of a session's record.
type state struct {
	// Fence is the number of the last open. Life is the fence with which the name's present life
	// began. Neither ever falls, nor repeats in another life.
	Fence, Life uint64
	Holder      string
	// LeaseUntil is in Unix milliseconds, 0 if the session is released. Lease is in milliseconds.
	LeaseUntil, Lease uint64
	// Cursor is the last number that was processed, From the cursor before the commit that set it.
	Cursor, From uint64
	// Incarnation is that of the log of a single group, 0 as long as no entry of it is known. Start
	// is how many entries it had lost when this life began: the session counts those after them.
	Incarnation, Start uint64
	// Tries counts the failed tries of the number At. Detail is that of the last one.
	Tries, At uint64
	Detail    string
	// Takeovers counts the opens by another holder than the one before, which had not released the
	// session.
	Takeovers uint64
	// Dead are the numbers that are dead letters in this life.
	Dead record.Ranges
	// Closed says that this life is over, and Cursor final. Returned says that the pool has taken
	// back the unread entries.
	Closed, Returned bool
	// Consumer is the state that the consumer keeps.
	Consumer []byte
}

func (s *state) encode() []byte {
	e := make(encoder, 0, 64+len(s.Holder)+len(s.Consumer))
	e.number(format, s.Fence, s.Life, s.LeaseUntil, s.Lease, s.Cursor, s.From, s.Incarnation, s.Start, s.Tries, s.At, s.Takeovers)
	e.text(s.Holder)
	e.ranges(s.Dead)
	e.flag(s.Closed)
	e.flag(s.Returned)
	e.text(string(s.Consumer))
	e.text(s.Detail)
	return e
}

// decodeState returns the state of a session's record. A record that does not exist has the zero
// value.
func decodeState(g *record.Group) (state, error) {
	if g.Version == 0 {
		return state{}, nil
	}
	d := decoder{b: g.State}
	d.bad = d.number() != format
	s := state{
		Fence: d.number(), Life: d.number(), LeaseUntil: d.number(), Lease: d.number(), Cursor: d.number(), From: d.number(),
		Incarnation: d.number(), Start: d.number(), Tries: d.number(), At: d.number(), Takeovers: d.number(),
		Holder: d.text(), Dead: d.ranges(), Closed: d.flag(), Returned: d.flag(), Consumer: []byte(d.text()), Detail: d.text(),
	}
	return s, d.done(g.Key)
}

// check returns an error if the caller, who opened under a fence, does not hold the session.
func (s *state) check(fence uint64) error {
	switch {
	case s.Fence != fence || fence == 0:
		return &FencedError{Fence: s.Fence, Holder: s.Holder, NotIssued: s.Fence < fence}
	case s.Closed:
		return ErrRetired
	}
	return nil
}

// triesOf returns how many tries of a number have failed, if it is the last one that failed.
func (s *state) triesOf(number uint64) uint64 {
	if s.At != number {
		return 0
	}
	return s.Tries
}

// lease returns the length of the lease.
func (s *state) lease() time.Duration {
	return time.Duration(s.Lease) * time.Millisecond //nolint:gosec // at most a day
}

// renew lets the lease run from now on.
func (s *state) renew(now time.Time) {
	s.LeaseUntil = uint64(now.UnixMilli()) + s.Lease
}

// leaseUntil returns when the lease ends.
func (s *state) leaseUntil() time.Time {
	return time.UnixMilli(int64(s.LeaseUntil)).UTC() //nolint:gosec // a time of this century
}
