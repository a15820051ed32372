package session

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Take says when a session may be taken from its holder.
type Take string

// When a session may be taken.
const (
	TakeFree Take = "free" // if it is released, or its lease has ended
	TakeMine Take = "mine" // also from an earlier open of the same holder
	TakeNow  Take = "now"  // always
)

// An Opening asks for a session.
type Opening struct {
	Holder string
	// Take defaults to TakeFree.
	Take Take
	// Lease is for how long others should wait. Defaults to 30 s.
	Lease time.Duration
}

// Opened describes a session that was taken.
type Opened struct {
	// Fence goes with every further call. A consumer raises the fence of its own store to it.
	Fence uint64
	// Life names the life of the session's name. Numbers of different lives are unrelated.
	Life uint64
	// Cursor is the last number that was reported as processed. A consumer with a store of its own
	// uses the number there.
	Cursor uint64
	// Dead are the numbers that must be passed without being processed.
	Dead record.Ranges
	// First and Last are the numbers that were dealt so far and can be read; both are 0 for the log
	// of a single group. If entries expire one by one, the first of them may have expired too.
	First, Last uint64
	// Ended says that the number after Last is the end.
	Ended bool
	// Tries counts the failed tries of the number At. Detail is that of the last one.
	Tries, At uint64
	Detail    string
	// LeaseUntil is when another consumer may take the session.
	LeaseUntil time.Time
	// State is the state that the consumer wrote with a commit.
	State []byte
}

// Open takes a session, which is created if there is none. Every open has a fence of its own, also
// a repeated one: only the last holds the session. If the session was retired, Open begins a new
// life, with numbers from 1. It returns a [*HeldError] or [ErrEnded].
func (s *Sessions) Open(ctx context.Context, id ID, o Opening) (out Opened, err error) {
	if err := s.validate(id); err != nil {
		return out, err
	}
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	err = s.repeat(ctx, func() error {
		out, err = s.open(ctx, id, o)
		return err
	})
	if err != nil {
		return Opened{}, fmt.Errorf("open: %w", err)
	}
	return out, nil
}

func (s *Sessions) open(ctx context.Context, id ID, o Opening) (Opened, error) {
	g, st, err := s.session(ctx, id)
	if err != nil {
		return Opened{}, err
	}
	if st.Closed && !st.Returned {
		if err := s.finish(ctx, id, &st); err != nil {
			return Opened{}, err
		}
		return Opened{}, errAgain
	}
	now := s.cfg.Now()
	wait := s.leaseOf(id, &st).Sub(now)
	if wait > 0 && o.Take != TakeNow && (o.Take != TakeMine || st.Holder != o.Holder) {
		return Opened{}, &HeldError{Holder: st.Holder, RetryAfter: wait}
	}
	var p pool
	if id.pooled() {
		if _, p, err = s.pool(ctx, id.Stream); err != nil {
			return Opened{}, err
		}
	}
	if p.Ended && (g.Version == 0 || st.Closed) {
		return Opened{}, ErrEnded
	}
	next, takeover, err := s.next(ctx, id, &st, o.Holder)
	if err != nil {
		return Opened{}, err
	}
	next.Holder, next.Lease = o.Holder, uint64(o.Lease.Milliseconds()) //nolint:gosec // not negative
	next.renew(now)
	if err := s.writeState(ctx, g, g, &next); err != nil {
		return Opened{}, err
	}
	if takeover {
		s.tookOver(ctx, id, st.Holder, o.Holder)
	}
	return opened(id, &next, &p, now), nil
}

// next returns the state after an open by a holder: that of the same life under a higher fence, or
// of a new life. It reports whether the session was taken from another holder.
func (s *Sessions) next(ctx context.Context, id ID, st *state, holder string) (next state, takeover bool, err error) {
	switch {
	case st.Fence == 0:
		fence := max(incarnation(s.cfg.Now()), s.cfg.Restores.LastMillis())
		next = state{Fence: fence, Life: fence}
	case st.Closed:
		fence := max(st.Fence+1, s.cfg.Restores.LastMillis())
		next = state{Fence: fence, Life: fence}
	default:
		next = *st
		if takeover = st.LeaseUntil != 0 && st.Holder != holder; takeover {
			next.Takeovers++
		}
		next.Fence = max(next.Fence+1, s.cfg.Restores.LastMillis()) // a copy has forgotten later opens
		return next, takeover, nil
	}
	return next, false, s.begin(ctx, id, &next)
}

func opened(id ID, st *state, p *pool, now time.Time) Opened {
	out := Opened{
		Fence: st.Fence, Life: st.Life, Cursor: st.Cursor, Dead: st.Dead, Ended: p.Ended, Tries: st.Tries, At: st.At, Detail: st.Detail,
		LeaseUntil: st.leaseUntil(), State: st.Consumer,
	}
	if id.pooled() {
		m := p.member(id.Name, st.Life)
		out.First, out.Last = m.first(now), m.last()
	}
	return out
}
