package session

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// A Description shows a session to people and to checks.
type Description struct {
	// Fence is 0 if there is no such session.
	Fence, Life uint64
	// Holder is empty if the session is released, retired, or if its lease has ended. LastHolder is
	// the last one.
	Holder, LastHolder string
	// LeaseUntil is when the lease ends or has ended; zero if the session is released or retired.
	LeaseUntil time.Time
	Cursor     uint64
	// Tries counts the failed tries of the number At. Detail is that of the last one.
	Tries, At uint64
	Detail    string
	// Takeovers counts the opens by another holder than the one before, which had not released the
	// session.
	Takeovers uint64
	Dead      record.Ranges
	// Closed says that the session was retired, and Returned that the pool has taken back its
	// unread entries.
	Closed, Returned bool
	// Restored says that the system was put back to an older copy during the life of the session.
	// Until it is retired, its entries, commits and failed tries answer with a [*RestoredError].
	Restored bool
	// State is the state that the consumer wrote with a commit.
	State []byte
	// Parts are the entries that the pool has dealt to the session in this life.
	Parts []Part
	// Ended says that the number after the last is the end.
	Ended bool
}

// A Part is a range of entries that the pool has dealt to a session.
type Part struct {
	// Number is that of the first entry in the session, and Group and First its place in a log.
	Number uint64
	Group  record.GroupKey
	First  log.Offset
	// Count is how many entries the range has.
	Count uint64
}

// Describe returns a session and its part in the pool, which are read one after the other.
func (s *Sessions) Describe(ctx context.Context, id ID) (Description, error) {
	if err := s.validate(id); err != nil {
		return Description{}, err
	}
	_, st, err := s.session(ctx, id)
	if err != nil {
		return Description{}, fmt.Errorf("describe session: %w", err)
	}
	var p pool
	if id.pooled() {
		if _, p, err = s.pool(ctx, id.Stream); err != nil {
			return Description{}, fmt.Errorf("describe session: %w", err)
		}
	}
	return s.description(id, &st, &p), nil
}

// description describes a session and its part in the pool.
func (s *Sessions) description(id ID, st *state, p *pool) Description {
	d := Description{
		Fence: st.Fence, Life: st.Life, LastHolder: st.Holder, LeaseUntil: s.leaseOf(id, st), Cursor: st.Cursor, Tries: st.Tries, At: st.At, Detail: st.Detail, Takeovers: st.Takeovers,
		Dead: st.Dead, Closed: st.Closed, Returned: st.Returned, Restored: id.pooled() && !st.Closed && st.Fence > 0 && s.beforeRestore(st), State: st.Consumer, Ended: p.Ended,
	}
	if d.LeaseUntil.After(s.cfg.Now()) {
		d.Holder = st.Holder
	}
	m := p.member(id.Name, st.Life)
	number := m.Dropped + 1
	for _, x := range m.Spans {
		d.Parts = append(d.Parts, Part{number, Partition(id.Stream, x.Part), log.Offset{Incarnation: x.Incarnation, Number: x.First}, x.len()})
		number += x.len()
	}
	return d
}
