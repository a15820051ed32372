package once

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/lease"
	"github.com/effectively-once/once/internal/record"
)

// A ReplyFunc is a handler that keeps its state itself, and that a decorator guards. An error means that the message is not done and is to be tried again; a
// refusal for good is a reply, because only replies are remembered.
type ReplyFunc func(ctx context.Context, m Message) (Reply, error)

// A Guarded handler is what a decorator makes of one. Its outcome is Processed, or Duplicate with the reply of then. With an error the message is not done:
// the handler's own, or one of
//
//   - [ErrKeyReuse]: the identity was used before, with another group or body
//   - [*LeasedError]: another attempt runs now
//   - [ErrFenced]: this attempt lost its lease, and its result was discarded
//   - [ErrReplyTooLarge]: the message is done, and its reply could not be kept
//   - any other: the message is invalid, or the store could not be asked; where the handler has run already, it can run again
type Guarded func(ctx context.Context, m Message) (Outcome, error)

// The errors of a guarded handler, see [Guarded].
var (
	ErrKeyReuse      = lease.ErrKeyReuse
	ErrFenced        = lease.ErrFenced
	ErrReplyTooLarge = lease.ErrReplyTooLarge
)

// A LeasedError says that another attempt runs the handler now.
type LeasedError struct {
	// RetryAfter is when its lease runs out, from now on. A heartbeat may extend it, and a release end it sooner.
	RetryAfter time.Duration
}

func (e *LeasedError) Error() string { return "another attempt runs now" }

// A GuardConfig sets the times and limits of a decorator. Zero fields take the defaults in their comments.
type GuardConfig struct {
	// Retention is how long a message is remembered as done, and its content as its identity's after a crash. Defaults to 15 days: longer than a message can be
	// in a queue.
	Retention time.Duration
	// Lease is how long a crashed attempt keeps others from running, and for [Eager] how long the handler may take. Defaults to 1 minute. Lazy has none.
	Lease time.Duration
	// Heartbeat is the time between two extensions of a lease, at most half of it. Defaults to a third. Only of [Leased].
	Heartbeat time.Duration
	// MaxReply is the largest reply, headers and body, in bytes. Defaults to 256 KiB.
	MaxReply int
	// Log is told of results that were discarded and of leases that could not be released. Defaults to discarding.
	Log *slog.Logger
}

func (c GuardConfig) guard(t *Tokens) *lease.Guard {
	return lease.New(t.store, lease.Config{
		Retention: c.Retention, Lease: c.Lease, Heartbeat: c.Heartbeat, MaxReply: c.MaxReply, Log: c.Log,
	})
}

// Lazy guards a handler in the cheapest way: look, run, store. One read and one write a message; a duplicate costs the read. It fits handlers that may run
// twice, and whose callers should all get one answer.
//
//	error                      nothing is kept; the next attempt runs at once
//	panic                      as an error; the panic passes through
//	crash before the handler   nothing is kept; the next attempt runs at once
//	crash after the handler    nothing is kept; the next attempt runs it again, at once
//	two at once                both run; the first to store wins, and the other gets its reply as a duplicate
//	a late attempt             as two at once: it gets the reply of the one that was faster
//
// The message's identity is (Principal, Stream, ID); give each handler a stream of its own.
func Lazy(t *Tokens, h ReplyFunc, c GuardConfig) Guarded { return decorate(c.guard(t).Lazy, h) }

// Eager guards a handler by a claim: take a lease, run, complete. One read and two writes a message. It fits handlers that end well within a lease: their context
// ends a tenth of it before, with ErrFenced as its cause, whatever deadline the caller has.
//
//	error                      released: the next attempt runs at once
//	panic                      released, as an error; the panic passes through
//	crash before the handler   the next attempt runs when the lease has run out
//	crash after the handler    the next attempt runs it again when the lease has run out
//	two at once                one runs; the other gets a *LeasedError, with the time to come again
//	a late attempt             one that nobody took over completes; else its result is discarded: it gets the reply of the one that took over,
//	                           ErrFenced while that one still runs, and releases nothing
//
// The message's identity is (Principal, Stream, ID); give each handler a stream of its own.
func Eager(t *Tokens, h ReplyFunc, c GuardConfig) Guarded { return decorate(c.guard(t).Eager, h) }

// Leased guards a handler as Eager does, and extends its lease while it runs: it fits handlers that take long, or that take no one knows how long. One more
// write for each heartbeat.
//
//	error                      released: the next attempt runs at once
//	panic                      released, as an error; the panic passes through
//	crash before the handler   the next attempt runs when the lease has run out
//	crash after the handler    the next attempt runs it again when the lease has run out
//	two at once                one runs, however long; the other gets a *LeasedError
//	a late attempt             its context ends with ErrFenced as the cause, when a heartbeat finds another owner or a tenth of a lease before the
//	                           lease that could not be extended ends; then as Eager
//
// The message's identity is (Principal, Stream, ID); give each handler a stream of its own.
func Leased(t *Tokens, h ReplyFunc, c GuardConfig) Guarded { return decorate(c.guard(t).Leased, h) }

func decorate(run func(context.Context, lease.Identity, lease.Func) (lease.Result, error), h ReplyFunc) Guarded {
	return func(ctx context.Context, m Message) (Outcome, error) {
		inner := m.internal()
		if err := inner.Validate(); err != nil {
			return Outcome{}, fmt.Errorf("guard message: %w", err)
		}
		id := lease.Identity{
			Key:         record.NewTokenKey(m.Principal, handlerScope+m.Stream, inner.Identity()),
			Fingerprint: inner.Fingerprint(),
		}
		result, err := run(ctx, id, func(ctx context.Context) (*record.Reply, error) {
			r, err := h(ctx, public(&inner))
			return &record.Reply{Status: r.Status, Header: r.Header, Body: r.Body}, err
		})
		if err != nil {
			return Outcome{}, publicError(err)
		}
		return guarded(result), nil
	}
}

// The scopes keep the tokens of decorators and of middleware apart from those of streams, whose names start with a letter or a digit.
const (
	handlerScope = "~handler/"
	httpScope    = "~http/"
)

func guarded(r lease.Result) Outcome {
	o := Outcome{Kind: Processed, Reply: reply(r.Reply)}
	if r.Duplicate {
		o.Kind = Duplicate
	}
	return o
}

func publicError(err error) error {
	if busy, ok := errors.AsType[*lease.LeasedError](err); ok {
		return &LeasedError{RetryAfter: busy.RetryAfter}
	}
	return err
}
