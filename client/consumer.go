package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// A consumer is a call of ConsumeWith.
type consumer struct {
	client  *Client
	options SessionOptions
	worker  Worker
	session *Session
	kept    bool                        // the session is closed and not released
	pauses  *backoff.ExponentialBackOff // grow until something is processed
}

const (
	// maxHeldWait is how long a consumer waits at most before it asks again whether the session is
	// free: the holder may release it.
	maxHeldWait = 2 * time.Second
	// stopTimeout is how long a consumer that was stopped tries to commit the work that it has
	// done, and then to release its session.
	stopTimeout = 5 * time.Second
)

// A reopenError says that the session has to be opened again.
type reopenError struct {
	err  error
	take Take          // how; empty as before
	wait time.Duration // 0 for the next pause
}

func (e *reopenError) Error() string { return e.err.Error() }
func (e *reopenError) Unwrap() error { return e.err }

// called returns the error for one of a call of the session. A session that another consumer has
// taken is not taken back.
func called(err error) error {
	switch {
	case errors.Is(err, Fenced):
		return &reopenError{err: err, take: TakeFree}
	case errors.Is(err, Moved):
		return &reopenError{err: err, take: TakeMine}
	}
	return err
}

// hold opens the session and consumes it. It returns nil after the end.
func (l *consumer) hold(ctx context.Context) error {
	s, err := l.client.OpenSession(ctx, l.options)
	if err != nil {
		l.abandon(ctx, err)
		return l.opening(err)
	}
	l.session, l.kept = s, false
	defer s.Close()
	bound, cancel := s.bind(ctx)
	defer cancel()
	err = l.work(bound)
	if err == nil {
		l.release(ctx)
		return nil
	}
	if lost := s.lost(); lost != nil {
		return called(lost)
	}
	if reopen, again := errors.AsType[*reopenError](err); again && reopen.take == TakeMine && ctx.Err() == nil {
		l.kept = true // until it is opened again
		return err
	}
	l.release(ctx)
	return err
}

// opening returns the error for one of an open. A session that ended before is consumed.
func (l *consumer) opening(err error) error {
	p, refused := errors.AsType[*Problem](err)
	l.kept = l.kept && !refused
	switch {
	case refused && p.Type == Ended:
		return nil
	case refused && p.Type == Held:
		return &reopenError{err: err, wait: max(min(p.RetryAfter, maxHeldWait), l.client.options.MinBackoff)}
	}
	return err
}

// abandon releases a session that an open may have taken although the context ended before the
// answer came. Otherwise other consumers would wait until the lease expires.
func (l *consumer) abandon(ctx context.Context, opening error) {
	if _, unknown := errors.AsType[*UnacknowledgedError](opening); !unknown || ctx.Err() == nil {
		return
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	o := l.options
	o.Take = TakeMine // not from another holder
	s, err := l.client.OpenSession(limited, o)
	if err != nil {
		return // another consumer has it, or the server can't be reached
	}
	defer s.Close()
	l.session = s
	l.release(ctx)
}

// letGo releases a session that was kept to be opened again.
func (l *consumer) letGo(ctx context.Context) {
	if l.kept {
		l.session = l.client.HeldSession(l.options, l.session.opened.Fence)
		l.release(ctx)
	}
}

func (l *consumer) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	l.options.OnRelease(l.session.Release(ctx))
}

// work processes entries until the end, or until an error.
func (l *consumer) work(ctx context.Context) (err error) {
	number, err := l.worker.Begin(ctx, l.session.Opened())
	switch {
	case err == nil:
	case isUnknown(err):
		return &reopenError{err: err, take: TakeMine}
	case errors.Is(err, Fenced):
		return &reopenError{err: err, take: TakeFree}
	default:
		return err
	}
	defer func() { err = errors.Join(err, l.worker.End()) }()
	if err := l.session.Continue(ctx, number); err != nil {
		return called(err)
	}
	for {
		b, err := l.session.Next(ctx)
		if errors.Is(err, ErrEnd) {
			return nil
		}
		if err != nil {
			return called(err)
		}
		if err := l.process(ctx, &b); err != nil {
			return err
		}
	}
}

// process processes a batch. If that fails, it processes its entries one at a time, to find the one
// that fails.
func (l *consumer) process(ctx context.Context, b *Batch) error {
	size := len(b.Entries)
	for b.From < b.To {
		if ctx.Err() != nil {
			return l.finish(ctx, b)
		}
		part := b.first(size)
		failed, err := l.do(ctx, &part)
		if _, away := errors.AsType[*UnacknowledgedError](err); err != nil && ctx.Err() != nil && !away {
			return l.finish(ctx, b)
		}
		if err != nil {
			return err
		}
		b.pass(part.To)
		switch {
		case failed == nil:
		case failed.Number == 0 && len(part.Entries) > 1:
			size = 1
		case len(part.Entries) == 0:
			return fmt.Errorf("pass entries up to %d: %w", b.To, failed)
		default:
			if err := l.failed(ctx, b, failed); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish commits the entries of a batch that a worker finishes after the consumer was stopped.
func (l *consumer) finish(ctx context.Context, b *Batch) error {
	w, ok := l.worker.(Finisher)
	if !ok || l.session.lost() != nil {
		return context.Cause(ctx)
	}
	last := b.To
	b.State, b.Effects = bytes.Clone(l.session.state), nil
	bound, cancel := l.session.bind(context.WithoutCancel(ctx))
	defer cancel()
	w.Finish(bound, b)
	if b.To > b.From && b.To <= last {
		return errors.Join(context.Cause(ctx), l.commit(ctx, b))
	}
	return context.Cause(ctx)
}

// do tries to process a batch, and moves the cursor to b.To, the last number that is processed.
// failed is the error of a try that counts.
func (l *consumer) do(ctx context.Context, b *Batch) (failed *TryError, err error) {
	if err := l.session.confirm(ctx); err != nil {
		return nil, called(err)
	}
	last := b.To
	b.State, b.Effects = bytes.Clone(l.session.state), nil
	err = l.worker.Do(ctx, b)
	switch {
	case err != nil:
		if failed, err = l.judge(ctx, b, err); err != nil {
			return nil, err
		}
	case b.To <= b.From || b.To > last:
		return nil, fmt.Errorf("the worker has processed the entries up to %d, of those from %d to %d", b.To, b.From+1, last)
	}
	if b.To > b.From {
		if err := l.commit(ctx, b); err != nil {
			return nil, err
		}
	}
	return failed, nil
}

// judge returns the failed try for an error of the worker, and sets b.To to the last number that is
// processed; or it returns an error that is none.
func (l *consumer) judge(ctx context.Context, b *Batch, err error) (failed *TryError, _ error) {
	failed, tried := errors.AsType[*TryError](err)
	final, isFinal := errors.AsType[*FinalError](err)
	switch {
	case isFinal:
		return nil, final.Err
	case isUnknown(err):
		return nil, &reopenError{err: err, take: TakeMine}
	case tried && slices.ContainsFunc(b.Entries, func(e Entry) bool { return e.Number == failed.Number }):
		b.To = failed.Number - 1
		return failed, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case tried:
		err = failed.Err
	case errors.Is(err, Fenced):
		return nil, &reopenError{err: err, take: TakeFree}
	}
	b.To = b.From
	return &TryError{Err: err}, nil
}

// commit moves the cursor to b.To, with the state and the effects of a batch. It outlives the
// context: otherwise the next consumer would repeat work that is done.
func (l *consumer) commit(ctx context.Context, b *Batch) error {
	ctx, cancel := outlive(ctx, stopTimeout)
	defer cancel()
	o := CommitOptions{Effects: b.Effects}
	if !bytes.Equal(l.session.state, b.State) {
		if o.State = b.State; len(b.State) == 0 {
			o.State = json.RawMessage("null")
		}
	}
	if err := l.session.Commit(ctx, b.To, o); err != nil {
		return called(err)
	}
	done := 0
	for done < len(b.Entries) && b.Entries[done].Number <= b.To {
		done++
	}
	if done > 0 {
		l.pauses.Reset()
		l.options.OnCommit(done, b.Entries[done-1].Number)
	}
	return nil
}

// outlive returns a context that ends a while after ctx.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel(nil) }
}

// failed reports a failed try of the first entry of a batch, and waits. If the entry is a dead
// letter then, it passes the entry.
func (l *consumer) failed(ctx context.Context, b *Batch, try *TryError) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := b.Entries[0]
	out, err := l.session.Fail(ctx, e.Number, try.Error())
	switch {
	case err != nil:
		return called(err)
	case out.Stop:
		return &StoppedError{Number: e.Number, Entry: e, Tries: out.Tries, Err: try.Err}
	case !out.Dead:
		wait := l.pauses.NextBackOff()
		l.client.options.OnRetry(try.Err, wait)
		return pause(ctx, wait)
	}
	l.options.OnDeadLetter(&e, out.Tries, try.Err)
	dead := *b
	dead.To, dead.Entries, dead.End = e.Number, nil, false
	failed, err := l.do(ctx, &dead)
	if err == nil && failed != nil {
		err = fmt.Errorf("pass dead letter %d: %w", e.Number, failed)
	}
	b.pass(dead.To)
	return err
}
