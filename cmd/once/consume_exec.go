package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/backoff"
)

const (
	// firstPause and longestPause limit the pause before an entry is tried again.
	firstPause   = 100 * time.Millisecond
	longestPause = 10 * time.Second
	// heldPause is how long consume waits at most before it asks again whether a session is free.
	heldPause = 2 * time.Second
	// releaseLimit is how long consume tries to release its session in the end.
	releaseLimit = 5 * time.Second
)

// A commandConsumer passes the entries of a session to a command. It commits each acknowledgement
// at once, not only whole batches.
type commandConsumer struct {
	app     *app
	client  *client.Client
	o       *consuming
	result  *consumed
	notice  *notice
	options client.SessionOptions

	session *client.Session
	worker  *worker // nil while no command runs
	tries   int     // pauses since something was processed
	dead    uint64  // the last number that became a dead letter
	// confirmed is when the server last said that the session is held.
	confirmed time.Time
	suspect   *suspect
}

// A suspect is an entry that a command with its own store may have failed to process. If the number
// of the store is still before it under the next fence, the try has failed.
type suspect struct {
	entry client.Entry
	tried *triedError
}

// errRestart says that a command with its own store ended: it has to read its number again, under a
// higher fence.
var errRestart = errors.New("the command starts again")

// A commandLine is an entry on the standard input of a command.
type commandLine struct {
	Identity string `json:"identity"`
	tailLine
}

func (a *app) consumeByCommand(ctx context.Context, c *client.Client, o *consuming, result *consumed) error {
	x := commandConsumer{app: a, client: c, o: o, result: result, notice: &notice{app: a, text: "trying again in"}, options: o.session}
	for {
		err := x.hold(ctx)
		again, wait := x.judge(err)
		switch {
		case err == nil || errors.Is(err, client.Ended):
			return nil
		case ctx.Err() != nil || !again:
			return err
		}
		x.notice.retry(err, wait)
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// judge reports whether the session is to be opened again after an error, and when. A session that
// another consumer has taken is not taken back.
func (x *commandConsumer) judge(err error) (again bool, wait time.Duration) {
	p, refused := errors.AsType[*client.Problem](err)
	switch {
	case refused && p.Type == client.Held:
		return true, min(p.RetryAfter, heldPause)
	case errors.Is(err, client.Fenced):
		x.options.Take = client.TakeFree
		return true, x.pause()
	case errors.Is(err, client.Moved), errors.Is(err, errRestart):
		x.options.Take = client.TakeMine
		return true, x.pause()
	}
	return false, 0
}

// pause returns how long to wait before the next try.
func (x *commandConsumer) pause() time.Duration {
	x.tries++
	return max(firstPause, backoff.Full(x.tries, firstPause, longestPause))
}

// hold opens the session and gives its entries to the command. It returns nil after the end.
func (x *commandConsumer) hold(ctx context.Context) error {
	s, err := x.client.OpenSession(ctx, x.options)
	if err != nil {
		return err
	}
	x.session, x.confirmed = s, time.Now()
	defer s.Close()
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.Context(), func() { cancel(context.Cause(s.Context())) })()
	err = x.work(working)
	x.kill()
	if lost := s.Context().Err(); lost != nil {
		return context.Cause(s.Context())
	}
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer stop()
	if failed := s.Release(limited); failed != nil {
		x.notice.retry(failed, 0)
	}
	return err
}

// work processes entries until the end, or until an error. If the context ends, the command may
// finish the entries that it has.
func (x *commandConsumer) work(ctx context.Context) error {
	if err := x.begin(ctx); err != nil {
		return err
	}
	for {
		b, err := x.session.Next(ctx)
		if err == nil {
			err = x.process(ctx, &b)
		}
		switch {
		case errors.Is(err, io.EOF):
			return x.finish(ctx, x.o.silent)
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), x.finish(ctx, workerGrace))
		case err != nil:
			return err
		}
	}
}

// begin sets where to continue: at the number of the command's store if it has one.
func (x *commandConsumer) begin(ctx context.Context) error {
	opened := x.session.Opened()
	if !x.o.ownCursor {
		return x.session.Continue(ctx, opened.Cursor)
	}
	if err := x.start(ctx); err != nil {
		return err
	}
	number, err := x.worker.first(ctx, x.o.silent)
	if err != nil {
		return err
	}
	if number == 0 && opened.Cursor > 0 {
		return &client.LostCursorError{Cursor: opened.Cursor}
	}
	if err := x.session.Continue(ctx, number); err != nil {
		return err
	}
	s := x.suspect
	if x.suspect = nil; s == nil || s.entry.Number <= number {
		return nil
	}
	return x.report(ctx, &s.entry, s.tried)
}

// start starts the command.
func (x *commandConsumer) start(ctx context.Context) (err error) {
	opened := x.session.Opened()
	x.worker, err = startWorker(ctx, x.o.exec, []string{
		"ONCE_STREAM=" + opened.Stream, "ONCE_GROUP=" + opened.Group, "ONCE_SESSION=" + opened.Name,
		fmt.Sprint("ONCE_LIFE=", opened.Life), fmt.Sprint("ONCE_FENCE=", opened.Fence),
	}, x.app.err)
	return err
}

// finish ends the command's standard input, waits for its end, and commits the entries that it
// acknowledges until then.
func (x *commandConsumer) finish(ctx context.Context, limit time.Duration) error {
	w := x.worker
	if w == nil || x.session.Context().Err() != nil {
		return nil
	}
	x.worker = nil
	committing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if err := w.stop(committing, limit, x.commit); err != nil {
		return err
	}
	if state := w.cmd.ProcessState; ctx.Err() == nil && !state.Success() {
		return fmt.Errorf("the command ended after the last entry: %v", state)
	}
	return nil
}

func (x *commandConsumer) commit(ctx context.Context, to uint64) error {
	from := x.session.Cursor()
	if to <= from {
		return nil
	}
	if err := x.session.Commit(ctx, to, client.CommitOptions{}); err != nil {
		return err
	}
	x.tries, x.confirmed = 0, time.Now()
	x.result.processed(int(to-from), to) //nolint:gosec // a batch
	return nil
}

// process gives a batch to the command, until all of it is processed or dead letters.
func (x *commandConsumer) process(ctx context.Context, b *client.Batch) error {
	for rest := b.Entries; len(rest) > 0; {
		number, err := x.give(ctx, b, rest[:min(len(rest), x.o.inFlight)])
		rest = entriesAfter(rest, number)
		tried, ok := errors.AsType[*triedError](err)
		if err != nil && !ok {
			return err
		}
		if ok {
			if rest, err = x.failed(ctx, tried, rest); err != nil {
				return err
			}
		}
	}
	// What follows the last entry are dead letters and the end.
	if x.session.Cursor() == b.To {
		return nil
	}
	return x.session.Commit(ctx, b.To, client.CommitOptions{})
}

// entriesAfter returns the entries after a number.
func entriesAfter(entries []client.Entry, number uint64) []client.Entry {
	for len(entries) > 0 && entries[0].Number <= number {
		entries = entries[1:]
	}
	return entries
}

// give gives entries to the command, which is started if it does not run. It returns the last
// number that the command has acknowledged. After an error no command runs.
func (x *commandConsumer) give(ctx context.Context, b *client.Batch, entries []client.Entry) (number uint64, err error) {
	number = entries[0].Number - 1
	if err := x.confirm(ctx); err != nil {
		return number, err
	}
	if err := x.ready(ctx); err != nil {
		return number, err
	}
	lines := make([][]byte, len(entries))
	for i := range entries {
		lines[i] = []byte(oneLine(commandLine{b.Identity(&entries[i]), newTailLine(&entries[i])}))
	}
	err = x.worker.process(ctx, lines, number, entries[len(entries)-1].Number, x.o.silent, x.commit)
	return x.worker.acked, err
}

// confirm asks the server whether the session is still held, if it has not said so for half a
// lease. A process that was stopped may have entries that another consumer has processed since.
func (x *commandConsumer) confirm(ctx context.Context) error {
	if time.Since(x.confirmed) < x.options.Lease/2 {
		return nil
	}
	asked := time.Now()
	if err := x.session.Renew(ctx); err != nil {
		return err
	}
	x.confirmed = asked
	return nil
}

// ready makes sure that a command runs.
func (x *commandConsumer) ready(ctx context.Context) error {
	if x.worker != nil {
		if running, err := x.worker.running(); running || err != nil {
			return err
		}
		x.kill()
		if x.o.ownCursor {
			return errRestart
		}
	}
	return x.start(ctx)
}

func (x *commandConsumer) kill() {
	if x.worker != nil {
		x.worker.end()
		x.worker = nil
	}
}

// failed ends the command after a failed try of the first entry, and returns the entries that are
// to be processed then.
func (x *commandConsumer) failed(ctx context.Context, tried *triedError, rest []client.Entry) ([]client.Entry, error) {
	x.kill()
	if rest = entriesAfter(rest, tried.number-1); len(rest) == 0 {
		return nil, tried
	}
	if x.o.ownCursor && !tried.reported {
		x.suspect = &suspect{rest[0], tried}
		return nil, errRestart
	}
	if err := x.report(ctx, &rest[0], tried); err != nil {
		return nil, err
	}
	if x.o.ownCursor {
		return nil, errRestart
	}
	if x.dead == rest[0].Number {
		return rest[1:], nil
	}
	return rest, nil
}

// report reports a failed try of an entry, and waits before the next one.
func (x *commandConsumer) report(ctx context.Context, e *client.Entry, tried *triedError) error {
	out, err := x.session.Fail(ctx, e.Number, tried.detail)
	switch {
	case err != nil:
		return err
	case out.Stop:
		return &client.StoppedError{Number: e.Number, Entry: *e, Tries: out.Tries, Err: tried}
	case out.Dead:
		x.dead = e.Number
		_, _ = fmt.Fprintf(x.app.err, "entry %d (%s) is a dead letter after %d tries: %s\n", e.Number, safe(e.ID), out.Tries, safe(tried.detail))
		return nil
	}
	wait := x.pause()
	x.notice.retry(tried, wait)
	return backoff.Sleep(ctx, wait)
}
