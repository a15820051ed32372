package once

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/record"
)

// A ReplyFunc is a handler that stores its state itself, and that a decorator guards. If it returns
// an error, the message is not done and is to be retried. To refuse a message for good, return a
// reply, because only replies are stored.
type ReplyFunc func(ctx context.Context, m Message) (Reply, error)

// A Guarded handler is the result of a decorator. Its outcome is Processed, or Duplicate with the
// stored reply. If it returns an error, the message is not done. The error is the handler's own, or
// one of
//
//   - [ErrKeyReuse]: the identity was used before, with another group or body
//   - [*LeasedError]: another attempt is running now
//   - [ErrFenced]: this attempt lost its lease, and its result was discarded
//   - [ErrReplyTooLarge]: the message is done, but its reply was too large to be stored
//   - any other: the message is invalid, or the store failed; if the handler has run already, it
//     can run again
type Guarded func(ctx context.Context, m Message) (Outcome, error)

// The errors of a guarded handler, see [Guarded].
var (
	ErrKeyReuse      = lease.ErrKeyReuse
	ErrFenced        = lease.ErrFenced
	ErrReplyTooLarge = lease.ErrReplyTooLarge
)

// A LeasedError says that another attempt is running the handler now.
type LeasedError struct {
	// RetryAfter is the time until its lease expires. A heartbeat may extend the lease, and a
	// release may end it sooner.
	RetryAfter time.Duration
}

func (e *LeasedError) Error() string { return "another attempt runs now" }

// A GuardConfig sets the times and limits of a decorator. Zero fields take the defaults in their
// comments.
type GuardConfig struct {
	// Retention is how long a message is remembered as done, and how long an identity is bound to
	// its content after a crash. Defaults to 15 days: longer than a message can stay in a queue.
	Retention time.Duration
	// Lease is how long other attempts wait after a crash, and for [Eager] the limit for the
	// handler's run. Defaults to 1 minute. Lazy has none.
	Lease time.Duration
	// Heartbeat is the time between two extensions of a lease, at most half of it. Defaults to a
	// third. Only for [Leased].
	Heartbeat time.Duration
	// MaxReply is the largest reply, headers and body, in bytes. Defaults to 256 KiB.
	MaxReply int
	// Log receives warnings about discarded results and leases that could not be released. Defaults
	// to discarding them.
	Log *slog.Logger
}

func (c GuardConfig) guard(t *Tokens) *lease.Guard {
	return lease.New(t.store, lease.Config{
		Retention: c.Retention, Lease: c.Lease, Heartbeat: c.Heartbeat, MaxReply: c.MaxReply, Log: c.Log,
	})
}

// Lazy guards a handler in the cheapest way: load, run, store. One read and one write per message;
// a duplicate costs the read. It fits handlers that may run twice, if all callers should receive
// the same answer.
//
//	error                      nothing is stored; the next attempt runs without waiting
//	panic                      as an error; the panic continues
//	crash before the handler   nothing is stored; the next attempt runs without waiting
//	crash after the handler    nothing is stored; the next attempt runs it again, without waiting
//	concurrent attempts        all run; the first to store wins, the others get its reply as
//	                           duplicates
//	a late attempt             as concurrent attempts: it gets the reply of the winner
//
// The message's identity is (Principal, Stream, ID); use a separate stream for each handler.
func Lazy(t *Tokens, h ReplyFunc, c GuardConfig) Guarded { return decorate(c.guard(t).Lazy, h) }

// Eager guards a handler by a lease: claim it, run, complete. One read and two writes per message.
// It fits handlers that end well within a lease: their context ends a tenth of a lease before the
// lease does, with ErrFenced as its cause, or at the caller's deadline if that is earlier.
//
//	error                      released: the next attempt runs without waiting
//	panic                      released, as an error; the panic continues
//	crash before the handler   the next attempt runs when the lease has expired
//	crash after the handler    the next attempt runs it again when the lease has expired
//	concurrent attempts        one runs; the others get a *LeasedError, with the time to retry
//	a late attempt             completes if no other attempt took over. Otherwise its result is
//	                           discarded and it releases nothing: it gets the reply of the
//	                           other attempt, or ErrFenced while that one is still running
//
// The message's identity is (Principal, Stream, ID); use a separate stream for each handler.
func Eager(t *Tokens, h ReplyFunc, c GuardConfig) Guarded { return decorate(c.guard(t).Eager, h) }

// Leased guards a handler as Eager does, and extends its lease while it runs. It fits handlers that
// run long, or for an unknown time. It costs one more write for each heartbeat.
//
//	error                      released: the next attempt runs without waiting
//	panic                      released, as an error; the panic continues
//	crash before the handler   the next attempt runs when the lease has expired
//	crash after the handler    the next attempt runs it again when the lease has expired
//	concurrent attempts        one runs, however long; the others get a *LeasedError
//	a late attempt             its context ends with ErrFenced as the cause: when a heartbeat
//	                           finds another owner, or a tenth of a lease before the end of a
//	                           lease that could not be extended; then as Eager
//
// The message's identity is (Principal, Stream, ID); use a separate stream for each handler.
func Leased(t *Tokens, h ReplyFunc, c GuardConfig) Guarded { return decorate(c.guard(t).Leased, h) }

func decorate(run func(context.Context, lease.Identity, lease.Func) (lease.Result, error), h ReplyFunc) Guarded {
	return func(ctx context.Context, m Message) (Outcome, error) {
		inner := m.internal()
		if err := inner.Validate(); err != nil {
			return Outcome{}, fmt.Errorf("guard message: %w", err)
		}
		id := lease.Identity{
			Key:         record.NewTokenKey(m.Principal, lease.HandlerScope+m.Stream, inner.Identity()),
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
