package client

import (
	"context"
	"errors"
	"fmt"
)

// A Worker does the work of a consumer and keeps its number in one write with it. The packages
// client/sqlcursor and client/filecursor have workers for databases and files.
type Worker interface {
	// Begin is called after each open of the session. It raises the fence where the number is kept,
	// and returns the number that it read in the same step: the entries after it are processed. If
	// a higher fence is there, it returns an error for which errors.Is(err, Fenced) is true; if
	// there is no number, what [Opened.Start] returns.
	//
	// ctx ends when the consumer is stopped, or when the session is lost: then its cause is the
	// [*Problem].
	Begin(ctx context.Context, o Opened) (number uint64, err error)
	// Do processes the entries of a batch, and moves the number from b.From to b.To with them, all
	// or nothing. It may process only the first entries: then it sets b.To to the number of the
	// last one that it has processed, and gets the others with the next call.
	//
	// After an error nothing of the batch may be done, unless it is a [*TryError] with a number. If
	// the outcome is unknown, Do returns an [*UnknownError]; if a higher fence is there, an error
	// for which errors.Is(err, Fenced) is true; if the consumer has to end, a [*FinalError]. Any
	// other error is a failed try.
	Do(ctx context.Context, b *Batch) error
	// End is called after each Begin that returned no error, before the session is released.
	End() error
}

// A Finisher is a [Worker] that can finish entries that it has begun.
type Finisher interface {
	// Finish is called if the consumer is stopped in the middle of a batch, with the entries that
	// are not processed yet. It sets b.To to the number of the last one that is processed now;
	// b.From if there is none. ctx ends with the session.
	Finish(ctx context.Context, b *Batch)
}

// An UnknownError says that it is unknown whether work was done, or that it could not be done for a
// reason that has nothing to do with the entries, such as a database that can't be reached. The
// consumer opens its session again. This counts no try.
type UnknownError struct{ Err error }

// Error returns the text of Err.
func (e *UnknownError) Error() string { return "the outcome of the work is unknown: " + e.Err.Error() }

// Unwrap returns Err.
func (e *UnknownError) Unwrap() error { return e.Err }

func isUnknown(err error) bool {
	_, ok := errors.AsType[*UnknownError](err)
	return ok
}

// A FinalError of a [Worker] ends the consumer: it would not help to try again.
type FinalError struct{ Err error }

// Error returns the text of Err.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FinalError) Unwrap() error { return e.Err }

// A TryError is a failed try: the errors that Err wraps do not steer the consumer. A [Worker]
// returns it for errors of code that is not its own, which may be problems of another session.
type TryError struct {
	// Number is the number of the entry that has failed; the entries before it are processed. It is
	// 0 if nothing of the batch was done, and any of its entries may be the reason.
	Number uint64
	Err    error
}

// Error returns the text of Err.
func (e *TryError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *TryError) Unwrap() error { return e.Err }

// A StoppedError says that an entry has failed too often, and that the stream is configured to stop
// its consumer then.
type StoppedError struct {
	// Number is the number of the entry in the session, and Entry the entry.
	Number uint64
	Entry  Entry
	// Tries counts the failed tries, and Err is the error of the last one.
	Tries uint64
	Err   error
}

// Error returns the number, the tries and the text of Err.
func (e *StoppedError) Error() string {
	return fmt.Sprintf("entry %d (%s) has failed %d times: %v", e.Number, e.Entry.ID, e.Tries, e.Err)
}

// Unwrap returns Err.
func (e *StoppedError) Unwrap() error { return e.Err }

// A LostCursorError says that a store has no number for a session that has processed entries: the
// store is new, or was lost. Continuing without a decision would repeat or skip work: see the From
// options of the stores.
type LostCursorError struct {
	// Cursor is the last number that was reported as processed.
	Cursor uint64
}

// Error returns the cursor.
func (e *LostCursorError) Error() string {
	return fmt.Sprintf("the store has no number of this session, which has processed %d entries: say after which number to continue", e.Cursor)
}

// A SkipError says that a consumer was told to continue after a number that was not reported as
// processed: the entries between would be lost. [Session.RetireSkipping] makes them dead letters.
type SkipError struct {
	// From is the number to continue after, and Cursor the last one that was reported as processed.
	From, Cursor uint64
}

// Error returns both numbers.
func (e *SkipError) Error() string {
	return fmt.Sprintf("entries up to %d were reported as processed: to continue after %d would skip entries", e.Cursor, e.From)
}

// Consume processes the entries of a session until the context ends, or until the session has
// ended; then it returns nil. handle gets the entries in order, at most [SessionOptions.Max] at a
// time. When it returns nil, the cursor, b.State and b.Effects are written in one write, so that
// each entry has its effects once. Calls to other systems are repeated after a crash: send
// b.Identity with them, and let the receiver remember it.
//
// If handle fails, the entries of the batch are tried one at a time, and a failed try of a single
// one is reported to the server. After the stream's number of attempts it becomes a dead letter, or
// Consume returns a [*StoppedError]. An [*UnknownError] counts no try. Any other error of handle is
// a failed try, also a [*Problem] of another call.
//
// While another consumer holds the session, Consume waits. So it does if another consumer takes the
// session over from this one. Several processes can therefore call it with the same name; one of
// them works.
//
// When the context ends, Consume commits the work that is done, for up to 5 seconds, releases the
// session, for up to 5 seconds more, and returns the context's error.
func (c *Client) Consume(ctx context.Context, o SessionOptions, handle func(ctx context.Context, b *Batch) error) error {
	return c.ConsumeWith(ctx, o, handler(handle))
}

// A handler is a worker whose number is the cursor of the server.
type handler func(ctx context.Context, b *Batch) error

func (handler) Begin(_ context.Context, o Opened) (uint64, error) { return o.Cursor, nil }

func (h handler) Do(ctx context.Context, b *Batch) error {
	if len(b.Entries) == 0 {
		return nil
	}
	err := h(ctx, b)
	if err == nil || isUnknown(err) {
		return err
	}
	return &TryError{Err: err}
}

func (handler) End() error { return nil }

// ConsumeWith is [Client.Consume] with a worker.
func (c *Client) ConsumeWith(ctx context.Context, o SessionOptions, w Worker) error {
	l := consumer{client: c, options: o.withDefaults(), worker: w, pauses: c.backOff()}
	for {
		err := l.hold(ctx)
		reopen, again := errors.AsType[*reopenError](err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("consume session: %w", context.Cause(ctx))
		case !again:
			return fmt.Errorf("consume session: %w", err)
		}
		if reopen.take != "" {
			l.options.Take = reopen.take
		}
		wait := reopen.wait
		if wait == 0 {
			wait = l.pauses.NextBackOff()
		}
		c.options.OnRetry(reopen.err, wait)
		if pause(ctx, wait) != nil {
			l.letGo(ctx)
			return fmt.Errorf("consume session: %w", context.Cause(ctx))
		}
	}
}
