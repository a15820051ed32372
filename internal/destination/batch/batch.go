package batch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// maxEntries is how many entries SQS, SNS and EventBridge accept in one request.
const maxEntries = 10

// ErrBehind says that this delivery was not sent because an earlier one of its group failed.
var ErrBehind = errors.New("an earlier delivery of the group failed")

// ErrNoResult says that a response does not list an entry.
var ErrNoResult = errors.New("no result for the entry")

const (
	maxTries   = 3 // of an entry in one Send
	firstPause = 100 * time.Millisecond
	maxPause   = time.Second
)

// A Service sends entries of one kind. All fields are required, except those with a default.
type Service[E any] struct {
	// Name describes the operation in errors, as in "send to queue orders".
	Name string
	// Entry converts a delivery and returns the entry's size in bytes. An error settles the
	// delivery, and stops its group unless it is a [*record.RefusedError].
	Entry func(d *record.Delivery) (entry E, size int, err error)
	// Put sends up to maxEntries entries in one request. It returns an error for each, or one for
	// the whole request.
	Put func(ctx context.Context, entries []E) ([]error, error)
	// Bytes limits the total size of a request's entries; a larger entry is sent alone.
	Bytes int
	// Ordered says that the destination keeps the order of a group.
	Ordered bool
	// Pause waits before try n (2, 3, …), and returns the cause if the context ends. Defaults to a
	// random pause: of up to 100 ms before the second try, doubled before each later one.
	Pause func(ctx context.Context, n int) error
}

// Contents marks the error of a whole request that was refused because of its content, without any
// effect. If the request has one entry, the mark is removed.
type Contents struct{ Err error }

// Error returns the text of the marked error.
func (c *Contents) Error() string { return c.Err.Error() }

// Unwrap returns the marked error.
func (c *Contents) Unwrap() error { return c.Err }

// Refuse returns an error for an entry that the destination will never take.
func Refuse(detail string) error {
	return &record.RefusedError{Reason: record.ReasonInvalid, Detail: detail}
}

// Again marks the error of an entry that failed for a temporary reason.
func Again(err error) error { return &again{err} }

type again struct{ error }

func (a *again) Unwrap() error { return a.error }

// Send implements [record.Sender].
func (s *Service[E]) Send(ctx context.Context, deliveries []record.Delivery) []error {
	r := s.newRun(deliveries)
	for {
		indexes := r.next()
		if len(indexes) == 0 {
			return r.results()
		}
		if err := r.wait(ctx, indexes); err != nil {
			r.stop(err)
			continue
		}
		r.put(ctx, indexes)
	}
}

func (s *Service[E]) wrap(err error) error {
	if refused, ok := errors.AsType[*record.RefusedError](err); ok {
		return refused
	}
	return fmt.Errorf("send to %s: %w", s.Name, err)
}
