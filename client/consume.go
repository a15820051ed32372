package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// A Worker does the work of a consumer and keeps its number in one write with it. The packages
// client/sqlcursor and client/filecursor have workers for databases and files.
type Worker interface {
	// Begin is called after each open of the session. It raises the fence where the number is kept,
	// and returns the number that it read in the same step: the entries after it are processed. If a
	// higher fence is there, it returns an error for which errors.Is(err, Fenced) is true; if there is
	// no number although o.Cursor is not 0, a [*LostCursorError].
	Begin(ctx context.Context, o Opened) (number uint64, err error)
	// Do processes the entries of a batch, and moves the number from b.From to b.To with them, all or
	// nothing.
	//
	// After an error nothing may be done of the batch. If the outcome is unknown, Do returns an
	// [*UnknownError]; if a higher fence is there, an error for which errors.Is(err, Fenced) is true.
	// Any other error is a failed try.
	Do(ctx context.Context, b *Batch) error
	// End is called after each Begin that returned no error, when the session is not held any more.
	End() error
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

// Consume processes the entries of a session until the context ends, or until the session has
// ended; then it returns nil. handle gets the entries in order, at most [SessionOptions.Max] at a
// time. When it returns nil, the cursor, b.State and b.Effects are written in one write, so that each
// entry has its effects once. Calls to other systems are repeated after a crash: send b.Identity with
// them, and let the receiver remember it.
//
// If handle fails, the entries of the batch are tried one at a time, and a failed try of a single one
// is reported to the server. After the stream's number of attempts it becomes a dead letter, or
// Consume returns a [*StoppedError]. An [*UnknownError] counts no try.
//
// While another consumer holds the session, Consume waits, also if that one has taken it over.
// Several processes can therefore call it with the same name; one of them works. At the end of the
// context it releases the session and returns the context's error.
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
	return h(ctx, b)
}
func (handler) End() error { return nil }

// ConsumeWith is [Client.Consume] with a worker.
func (c *Client) ConsumeWith(ctx context.Context, o SessionOptions, w Worker) error {
	l := consumer{client: c, options: o.withDefaults(), worker: w, pauses: c.backOff()}
	for {
		err := l.hold(ctx)
		again, wait := l.judge(err)
		switch {
		case err == nil || errors.Is(err, Ended):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("consume session: %w", context.Cause(ctx))
		case !again:
			return fmt.Errorf("consume session: %w", err)
		}
		c.options.OnRetry(err, wait)
		if pause(ctx, wait) != nil {
			return fmt.Errorf("consume session: %w", context.Cause(ctx))
		}
	}
}

// A consumer is a call of ConsumeWith.
type consumer struct {
	client  *Client
	options SessionOptions
	worker  Worker
	session *Session
	pauses  *backoff.ExponentialBackOff
}

// maxHeldWait is how long a consumer waits at most before it asks again whether the session is free:
// the holder may release it.
const maxHeldWait = 2 * time.Second

// judge reports whether the session is to be opened again after an error, and when. It also decides
// how: a session that another consumer has taken is not taken back.
func (l *consumer) judge(err error) (again bool, wait time.Duration) {
	p, refused := errors.AsType[*Problem](err)
	switch {
	case refused && p.Type == Held:
		return true, min(p.RetryAfter, maxHeldWait)
	case errors.Is(err, Fenced):
		l.options.Take = TakeFree
		return true, l.pauses.NextBackOff()
	case errors.Is(err, Moved), isUnknown(err), errors.Is(err, ErrUnknownFail):
		l.options.Take = TakeMine
		return true, l.pauses.NextBackOff()
	}
	return false, 0
}

// hold opens the session and consumes it. It returns nil after the end.
func (l *consumer) hold(ctx context.Context) error {
	s, err := l.client.OpenSession(ctx, l.options)
	if err != nil {
		l.abandon(ctx, err)
		return err
	}
	l.session = s
	defer s.Close()
	ctx, cancel := s.bind(ctx)
	defer cancel()
	err = l.work(ctx)
	if lost := s.lost(); lost != nil {
		return lost
	}
	if isUnknown(err) && ctx.Err() == nil {
		return err // it is opened again
	}
	l.release(ctx)
	return err
}

// releaseTimeout is how long a consumer that ends tries to release its session.
const releaseTimeout = 2 * time.Second

// abandon releases a session that an open may have taken although the context ended before the
// answer came. Otherwise other consumers would wait until the lease expires.
func (l *consumer) abandon(ctx context.Context, opening error) {
	if _, unknown := errors.AsType[*UnacknowledgedError](opening); !unknown || ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	o := l.options
	o.Take = TakeMine // not from another holder
	s, err := l.client.OpenSession(ctx, o)
	if err != nil {
		return // another consumer has it, or the server can't be reached
	}
	defer s.Close()
	l.session = s
	l.release(ctx)
}

func (l *consumer) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := l.session.Release(ctx); err != nil {
		l.client.options.OnRetry(err, 0)
	}
}

// work processes entries until the end, or until an error.
func (l *consumer) work(ctx context.Context) (err error) {
	o := l.session.Opened()
	number, err := l.worker.Begin(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.worker.End()) }()
	if err := l.session.Continue(ctx, number); err != nil {
		return err
	}
	for {
		b, err := l.session.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := l.process(ctx, &b); err != nil {
			return err
		}
		l.pauses.Reset()
	}
}

// process processes a batch. If that fails, it processes its entries one at a time, to find the one
// that fails.
func (l *consumer) process(ctx context.Context, b *Batch) error {
	failed, err := l.do(ctx, b)
	if err != nil || failed == nil {
		return err
	}
	if len(b.Entries) == 1 {
		return l.insist(ctx, b, failed)
	}
	for part := range b.parts() {
		part.State = l.session.state
		failed, err := l.do(ctx, &part)
		if err == nil && failed != nil {
			err = l.insist(ctx, &part, failed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// do tries to process a batch, and moves the cursor. failed is the error of a try that counts.
func (l *consumer) do(ctx context.Context, b *Batch) (failed, err error) {
	before := b.State
	err = l.worker.Do(ctx, b)
	switch {
	case err == nil:
		o := CommitOptions{Effects: b.Effects}
		if !bytes.Equal(before, b.State) {
			o.State = b.State
		}
		return nil, l.session.Commit(ctx, b.To, o)
	case ctx.Err() != nil, isUnknown(err), errors.Is(err, Fenced):
		return nil, err
	}
	return err, nil
}

// insist reports a failed try of the only entry of a batch, and tries again until it is processed, a
// dead letter, or the consumer has to stop.
func (l *consumer) insist(ctx context.Context, b *Batch, failed error) error {
	pauses := l.client.backOff()
	for {
		e := b.Entries[0]
		out, err := l.session.Fail(ctx, e.Number, failed.Error())
		switch {
		case err != nil:
			return err
		case out.Stop:
			return &StoppedError{Number: e.Number, Entry: e, Tries: out.Tries, Err: failed}
		case out.Dead:
			b.Entries = nil
		default:
			wait := pauses.NextBackOff()
			l.client.options.OnRetry(failed, wait)
			if err := pause(ctx, wait); err != nil {
				return err
			}
		}
		b.State, b.Effects = l.session.state, nil
		failed, err = l.do(ctx, b)
		if err != nil || failed == nil {
			return err
		}
		if len(b.Entries) == 0 {
			return fmt.Errorf("pass dead letter %d: %w", e.Number, failed)
		}
	}
}
