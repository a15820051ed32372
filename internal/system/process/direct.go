package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// A Result is the result of a message that was processed without the queue.
type Result struct {
	Outcome record.Outcome
	// Published reports whether nothing of the message's effects is left to be sent. It is not set
	// by [Handler.DirectAll].
	Published bool
	// Untried reports whether the message was not run: it was behind a failed one of its group, or
	// the time of its batch was over.
	Untried bool
	// Pause is the time until the next try of a message whose outcome is [record.Retry].
	Pause time.Duration
}

// Direct processes one message of a stream without the queue. If its outcome is [record.Retry], the
// caller has to put it on the queue, as one that was received once, for a try after the pause.
//
// A rejected message is a dead letter when Direct returns, unless its token refuses it: then the
// token belongs to another message, and the caller is told so. No handler starts after the time
// until, if that is not zero.
func (h *Handler) Direct(ctx context.Context, until time.Time, s record.Stream, m record.Message) Result {
	m.Try = 1
	begun := h.options.Now()
	o, published := h.engine.Direct(ctx, until, m)
	r := h.result(ctx, s, m, o, begun)
	r.Published = published
	return r
}

// DirectAll is Direct for the messages of a batch, with a result for each. It sets their Try. A
// message that is untried is put on the queue as one that was never received. No handler starts
// after the time until.
func (h *Handler) DirectAll(ctx context.Context, until time.Time, s record.Stream, messages []record.Message) []Result {
	for i := range messages {
		messages[i].Try = 1
	}
	begun := h.options.Now()
	results := make([]Result, len(messages))
	outcomes := h.engine.DirectAll(ctx, until, messages)
	for i := range messages {
		m, o := &messages[i], outcomes[i]
		if o.Kind == record.Processed || o.Kind == record.Retry && untried(o.Err) {
			results[i] = Result{Outcome: o, Untried: o.Kind == record.Retry}
			h.logProcessed(m, o, begun)
			continue
		}
		results[i] = h.result(ctx, s, *m, o, begun)
	}
	return results
}

// logProcessed logs a message of a batch that is processed.
func (h *Handler) logProcessed(m *record.Message, o record.Outcome, begun time.Time) {
	if o.Kind == record.Processed && h.options.Log.Enabled(context.Background(), slog.LevelDebug) {
		h.logSettled(&delivery{received: &queue.Delivery{Receives: 1}, message: *m, valid: true, outcome: o}, begun)
	}
}

// untried reports whether the error of a message says that it was not run.
func untried(err error) bool {
	if _, ran := errors.AsType[*record.HandlerError](err); ran {
		return false
	}
	return errors.Is(err, record.ErrBlocked) || errors.Is(err, context.DeadlineExceeded)
}

// notRun reports whether the error of a message says that this delivery was no attempt.
func notRun(err error) bool { return errors.Is(err, record.ErrUntried) || untried(err) }

// result returns the result of a message with an outcome. It makes a rejected message a dead
// letter, and logs a failure.
func (h *Handler) result(ctx context.Context, s record.Stream, m record.Message, o record.Outcome, begun time.Time) Result {
	d := &delivery{received: &queue.Delivery{Receives: 1}, message: m, valid: true, outcome: o}
	if d.outcome.Kind == record.Rejected && !RefusedToCaller(s, d.outcome.Reason) {
		h.rejected(ctx, d)
	}
	if d.outcome.Settled() {
		h.logSettled(d, begun)
		return Result{Outcome: d.outcome}
	}
	switch {
	case errors.Is(d.outcome.Err, dedup.ErrBounds): // not a failed try: it waits for its predecessors
		return Result{Outcome: d.outcome, Pause: Backoff(&m, begun)}
	case errors.Is(d.outcome.Err, dedup.ErrParents):
		// The first place in the group must not wait: from it, the queue's worker moves the message
		// behind the others.
		return Result{Outcome: d.outcome}
	}
	if d.outcome.Err == nil {
		d.outcome.Err = errUndecided
	}
	r := Result{Outcome: d.outcome, Pause: h.pause(d)}
	h.failed(d, r.Pause)
	return r
}

// RefusedToCaller reports whether the caller of a rejected message is told that nothing was
// accepted, so that the message does not become a dead letter: its identity belongs to another one,
// or the log of its group has ended.
func RefusedToCaller(s record.Stream, reason record.Reason) bool {
	if reason == record.ReasonEnded {
		return true
	}
	return s.Admission != record.BySequence && (reason == record.ReasonDeleted || reason == record.ReasonKeyReuse)
}

// rejected makes a rejected message a dead letter. If that fails, it has to be tried again.
func (h *Handler) rejected(ctx context.Context, d *delivery) {
	d.fate = refused
	o := &d.outcome
	if h.logRefused(d, o.Reason, o.Detail); o.Reply != nil {
		return // its letter is written
	}
	if err := h.engine.Refuse(ctx, []record.Refused{{Message: d.message, Reason: o.Reason, Detail: o.Detail}}); err != nil {
		*o = record.Outcome{Err: fmt.Errorf("refuse message: %w", err)}
	}
}

// Queued counts the attempt of a direct message that is now on the queue under an id.
func (h *Handler) Queued(id string, r Result) {
	switch {
	case r.Untried: // nor does the queue count it
	case notRun(r.Outcome.Err):
		h.tries.untried(id)
	case failure(&delivery{outcome: r.Outcome}) != nil && !errors.Is(r.Outcome.Err, record.ErrUnreadable):
		h.tries.failed(id)
	}
}
