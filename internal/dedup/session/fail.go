package session

import (
	"cmp"
	"context"
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// A Failure reports a failed try of an entry.
type Failure struct {
	Fence uint64
	// At is the number of the entry.
	At uint64
	// Try counts the tries of the entry from 1. So a repeated report counts once. Without it, each
	// report counts.
	Try uint64
	// Detail says why the try failed. It is kept, and goes into the dead letter; at most 500 bytes.
	Detail string

	sent bool // the dead letter
}

// Failed is the result of a failed try.
type Failed struct {
	// Tries counts the failed tries.
	Tries uint64
	// Dead says that the entry is a dead letter now: the consumer moves its cursor past it without
	// processing it.
	Dead bool
	// Stop says that the entry has failed too often, and that the consumer must stop.
	Stop bool
}

// Fail counts a failed try of an entry that is not yet committed. After [Pool.Attempts] the entry
// becomes a dead letter, or the consumer has to stop. It can be repeated. It returns the errors of
// Commit, and a [*record.InvalidError] if a try is left out.
func (s *Sessions) Fail(ctx context.Context, id ID, f Failure) (out Failed, err error) {
	f.Detail = record.RejectText(f.Detail)
	counted := false
	_, err = s.change(ctx, id, f.Fence, "fail", func(_ *record.Group, st *state) (bool, error) {
		out, counted, err = s.fail(ctx, id, st, &f)
		return counted, err
	})
	if err != nil {
		return Failed{}, err
	}
	if counted && out.Stop {
		s.stopped(ctx, id, &f)
	}
	return out, nil
}

// fail applies a failed try to the state of a session. It reports whether the try was not counted
// before. If the entry becomes a dead letter, the letter comes first; it is the same one in each
// repetition of the call.
func (s *Sessions) fail(ctx context.Context, id ID, st *state, f *Failure) (out Failed, counted bool, err error) {
	if st.Dead.Contains(f.At) {
		return Failed{Tries: st.triesOf(f.At), Dead: true}, false, nil
	}
	if f.At <= st.Cursor {
		return out, false, &MovedError{Cursor: st.Cursor}
	}
	if err := s.within(ctx, id, st, f.At); err != nil {
		return out, false, err
	}
	counted, err = f.count(st)
	if out = s.verdict(id, st.Tries); err != nil || !counted {
		return out, false, err
	}
	if out.Dead && !f.sent {
		if err := s.deadLetter(ctx, id, st, f.At-1, f.At, letter{reason: record.ReasonAttempts, detail: f.Detail}); err != nil {
			return out, false, err
		}
		f.sent = true
	}
	if out.Dead {
		st.Dead = st.Dead.Add(f.At, f.At)
	}
	st.renew(s.cfg.Now())
	return out, true, nil
}

// count counts the try, and reports whether it was not counted before.
func (f *Failure) count(st *state) (bool, error) {
	if st.At != f.At {
		st.At, st.Tries, st.Detail = f.At, 0, ""
	}
	try := f.Try
	if try == 0 {
		try = st.Tries + 1
	}
	switch {
	case try > st.Tries+1:
		return false, &record.InvalidError{Field: "try", Rule: fmt.Sprintf("must be at most %d", st.Tries+1)}
	case try <= st.Tries:
		return false, nil
	}
	st.Tries, st.Detail = try, f.Detail
	return true, nil
}

// defaultAttempts is how many tries of one entry may fail. It is fixed for the sessions of the logs
// of groups, whose consumers then stop.
const defaultAttempts = 5

// verdict returns the result of a number of failed tries.
func (s *Sessions) verdict(id ID, tries uint64) Failed {
	var policy Pool
	if id.pooled() {
		policy = s.cfg.Pools[id.Stream]
	}
	over := tries >= cmp.Or(policy.Attempts, defaultAttempts)
	return Failed{Tries: tries, Dead: over && policy.DeadLetter, Stop: over && !policy.DeadLetter}
}
