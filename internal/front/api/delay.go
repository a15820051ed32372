package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// The headers of a delayed message. At most one of them is allowed.
const (
	headerDelay     = "Once-Delay"
	headerNotBefore = "Once-Not-Before"
)

// readDelay sets when a message is due, from the headers of its request.
func (s *server) readDelay(h http.Header, stream record.Stream, m *record.Message) (err error) {
	after, at := h[headerDelay], h[headerNotBefore]
	var wait time.Duration
	switch {
	case len(after)+len(at) == 0:
		return nil
	case len(after)+len(at) > 1:
		return malformed(headerDelay, "or "+headerNotBefore+" has to be there once, not both")
	case len(after) == 1:
		if wait, err = wire.ParseDelay(after[0]); err != nil {
			return malformed(headerDelay, wire.DelayRule)
		}
	default:
		if m.NotBefore, err = wire.ParseNotBefore(at[0]); err != nil {
			return malformed(headerNotBefore, wire.NotBeforeRule)
		}
	}
	if preferredWait(h) > 0 {
		return problem.New(problem.InvalidMessage, "A delayed message has no reply to wait for: send it without Prefer: wait.")
	}
	return postpone(stream, m, wait, s.Now())
}

// postpone checks that a message may be delayed, and sets when it is due if it has a delay from now
// on. A delay that is over is no delay.
func postpone(stream record.Stream, m *record.Message, wait time.Duration, now time.Time) error {
	switch {
	case stream.Admission == record.BySequence:
		return problem.New(problem.InvalidMessage, "This stream is numbered: its messages can't be delayed, because later numbers would wait for them.")
	case stream.Partitions > 0:
		return problem.New(problem.InvalidMessage, "A stream with a pool takes no delayed messages: they would lose their order.")
	}
	if wait > 0 {
		m.NotBefore = now.Add(wait).UTC()
	}
	if !m.Waits(now) {
		m.NotBefore = time.Time{}
		return nil
	}
	if m.NotBefore.Sub(now) > record.MaxDelay {
		return problem.New(problem.InvalidMessage, fmt.Sprintf("A message can be delayed by at most %d days: it is to be processed at %s, and the time here is %s.",
			record.MaxDelay/(24*time.Hour), m.NotBefore.Format(time.RFC3339), now.UTC().Format(time.RFC3339)))
	}
	return nil
}

// noDelay refuses the headers of a delay.
func noDelay(h http.Header) error {
	if len(h[headerDelay])+len(h[headerNotBefore]) > 0 {
		return problem.New(problem.InvalidMessage, "A one-time request can't be delayed: it runs when its caller posts it.")
	}
	return nil
}

// put puts messages on the queue, or lets them wait. A message that is too large to wait is refused
// for good.
func (s *server) put(ctx context.Context, messages []record.Message) []error {
	errs := s.Queue.EnqueueAll(ctx, messages)
	for i, err := range errs {
		if errors.Is(err, delay.ErrTooLarge) {
			errs[i] = problem.New(problem.TooLarge, fmt.Sprintf("A message that is delayed for so long may have at most about %d bytes here, its headers included: send a reference to the content.", delay.SmallMessage))
		}
	}
	return errs
}

// waitsAny reports whether one of the messages is delayed.
func waitsAny(messages []record.Message, now time.Time) bool {
	return slices.ContainsFunc(messages, func(m record.Message) bool { return m.Waits(now) })
}
