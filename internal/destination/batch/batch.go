package batch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Entries is how many entries SQS, SNS and EventBridge take in one request.
const Entries = 10

// ErrBehind says that an earlier delivery of the group failed, so that this one was not sent.
var ErrBehind = errors.New("an earlier delivery of the group failed")

// ErrNoResult says that an answer does not name an entry.
var ErrNoResult = errors.New("no result for the entry")

// A Service takes entries of one kind. All fields are required, but those with a default.
type Service[E any] struct {
	// Name says where errors happened, as in "send to queue orders".
	Name string
	// Entry translates a delivery and gives its size in bytes. An error settles it, and stops its group unless it is a [*record.RefusedError].
	Entry func(d *record.Delivery) (entry E, size int, err error)
	// Put sends up to Entries entries in one request and gives an error for each, or one for the whole request.
	Put func(ctx context.Context, entries []E) ([]error, error)
	// Bytes is how many bytes of entries a request may hold; a larger entry goes alone.
	Bytes int
	// Ordered says that the destination keeps the order of a group.
	Ordered bool
	// Tries is how often an entry is sent in one Send. Defaults to 3.
	Tries int
	// Pause waits before try n (2, 3, …). Defaults to exponential backoff with full jitter from 50 ms.
	Pause func(ctx context.Context, n int) error
}

// Contents marks the error of a whole request that was refused, without any effect, for what is in it. With one entry, the mark comes off.
type Contents struct{ Err error }

// Error gives the text of the marked error.
func (c *Contents) Error() string { return c.Err.Error() }

// Unwrap gives the marked error.
func (c *Contents) Unwrap() error { return c.Err }

// Refuse marks an entry as one that the destination will never take.
func Refuse(detail string) error {
	return &record.RefusedError{Reason: record.ReasonInvalid, Detail: detail}
}

// Again marks the error of an entry that failed through no fault of its own.
func Again(err error) error { return &again{err} }

type again struct{ error }

func (a *again) Unwrap() error { return a.error }

// Send sends deliveries as [record.Sender] says.
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

func pause(ctx context.Context, n int) error {
	t := time.NewTimer(rand.N(50 * time.Millisecond << min(n-1, 6))) //nolint:gosec // jitter, not a secret
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Service[E]) wrap(err error) error {
	if refused, ok := errors.AsType[*record.RefusedError](err); ok {
		return refused
	}
	return fmt.Errorf("send to %s: %w", s.Name, err)
}
