package session

import (
	"errors"
	"fmt"
	"time"
)

// ErrEnded says that the pool has ended, and that a session without an open life has nothing to
// read.
var ErrEnded = errors.New("the stream has ended, and all its entries are dealt")

// ErrRetired says that the caller's session is closed for good.
var ErrRetired = errors.New("the session is retired")

// ErrNoPool says that the stream is not configured with a pool.
var ErrNoPool = errors.New("the stream has no pool: configure pool")

// ErrPoolFull says that the pool has so many sessions that it can't deal entries to a further one.
var ErrPoolFull = errors.New("the pool has too many sessions: retire those that are not used")

// A HeldError says that another consumer holds the session. Nothing was changed.
type HeldError struct {
	Holder string
	// RetryAfter is when the lease of the holder ends, unless the holder renews it.
	RetryAfter time.Duration
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the session is held by %q for another %s", e.Holder, e.RetryAfter.Round(time.Millisecond))
}

// A FencedError says that another open of the session came after the caller's, that no open has
// returned the caller's fence, or that the session does not exist. Nothing was changed. The caller
// must stop its work, or open again.
type FencedError struct {
	// Fence is the stored fence, 0 if there is no session.
	Fence  uint64
	Holder string
	// NotIssued says that the caller's fence is higher than the stored one, so that no open has
	// returned it.
	NotIssued bool
}

func (e *FencedError) Error() string {
	switch {
	case e.Fence == 0:
		return "there is no session of this name: open it"
	case e.NotIssued:
		return fmt.Sprintf("no open has returned this fence; the last one is %d, by %q", e.Fence, e.Holder)
	}
	return fmt.Sprintf("the session was opened again under fence %d, by %q", e.Fence, e.Holder)
}

// A MovedError says that the cursor is not where a commit begins. Nothing was changed.
type MovedError struct{ Cursor uint64 }

func (e *MovedError) Error() string { return fmt.Sprintf("the cursor is at %d", e.Cursor) }

// An ExpiredError says that entries after a number can't be read any more.
type ExpiredError struct {
	// First is the first number that can be read, or the one after the last if there is none.
	First uint64
	// Again says that the log has begun again: the session has to be retired.
	Again bool
}

func (e *ExpiredError) Error() string {
	if e.Again {
		return "the log of this session has begun again: retire the session"
	}
	return fmt.Sprintf("entries have expired; the session can continue at %d", e.First)
}

// A RestoredError says that the system was put back to an older copy during the life of a session.
// The pool may have dealt entries to it that the copy does not know, and would give their numbers
// to others. Nothing was changed.
type RestoredError struct{ At time.Time }

func (e *RestoredError) Error() string {
	return fmt.Sprintf("the system was restored from an older copy at %s, during the life of this session: retire the session", e.At.Format(time.RFC3339))
}

// An AheadError says that a number is after all that were dealt to the session in this life. A
// consumer's store has such a number if it belongs to another life, or if the system was restored
// from an older copy.
type AheadError struct{ Last uint64 }

func (e *AheadError) Error() string { return fmt.Sprintf("the session has entries up to %d", e.Last) }
