package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/client"
)

// A commandWorker is a client.Worker that passes entries to a command.
type commandWorker struct {
	app *app
	o   *consuming

	ctx    context.Context //nolint:containedctx // of Begin, because End has none
	opened client.Opened
	worker *worker // nil while no command runs
	ended  bool    // nothing follows the entries that are processed
	broken error   // the command has broken the protocol, after it had acknowledged entries
	doubt  *doubt
}

// A doubt is an entry that a command with its own store may have failed to process. If the number
// of the store is still before it under the next fence, the try has failed.
type doubt struct {
	life   uint64
	number uint64
	tried  *triedError
}

// errRestart says that a command with its own store ended: it has to read its number again, under a
// higher fence.
var errRestart = &client.UnknownError{Err: errors.New("the command starts again")}

// A commandLine is an entry on the standard input of a command.
type commandLine struct {
	Identity string `json:"identity"`
	tailLine
}

// consumeByCommand passes the entries of a session to a command, until the end of the stream.
func (a *app) consumeByCommand(ctx context.Context, c *client.Client, o *consuming) error {
	return c.ConsumeWith(ctx, o.session, &commandWorker{app: a, o: o})
}

// Begin returns where to continue: after the number of the command's store if it has one.
func (x *commandWorker) Begin(ctx context.Context, o client.Opened) (number uint64, err error) {
	x.ctx, x.opened, x.ended = ctx, o, false
	if !x.o.ownCursor {
		return o.Cursor, nil
	}
	if err := x.start(ctx, 0); err != nil {
		return 0, err
	}
	number, err = x.worker.first(ctx, x.o.silent)
	if err == nil {
		number, err = o.Start(number, nil)
	}
	if err != nil {
		x.kill()
	}
	return number, err
}

// start starts the command, which gets the entries after a number.
func (x *commandWorker) start(ctx context.Context, after uint64) (err error) {
	x.worker, err = startWorker(ctx, x.o.exec, []string{
		"ONCE_STREAM=" + x.opened.Stream, "ONCE_GROUP=" + x.opened.Group, "ONCE_SESSION=" + x.opened.Name,
		fmt.Sprint("ONCE_LIFE=", x.opened.Life), fmt.Sprint("ONCE_FENCE=", x.opened.Fence),
	}, x.app.err)
	if err != nil {
		return &client.FinalError{Err: err}
	}
	x.worker.acked, x.worker.last = after, after
	return nil
}

// Do passes entries to the command, and returns when it has acknowledged some. The others stay with
// the command.
func (x *commandWorker) Do(ctx context.Context, b *client.Batch) error {
	if x.broken != nil {
		return &client.FinalError{Err: x.broken}
	}
	if len(b.Entries) == 0 { // dead letters and the end
		x.ended = b.End
		return nil
	}
	if d := x.doubt; d != nil {
		x.doubt = nil
		if d.life == x.opened.Life && d.number == b.Entries[0].Number {
			return &client.TryError{Number: d.number, Err: d.tried}
		}
	}
	if err := x.ready(ctx, b.From); err != nil {
		return err
	}
	w := x.worker
	err := w.process(ctx, x.lines(b), x.o.silent)
	if tried, ok := errors.AsType[*triedError](err); ok {
		return x.failed(b, tried)
	}
	if broken, ok := errors.AsType[*reportError](err); ok {
		x.kill()
		if err = nil; w.acked <= b.From {
			return &client.FinalError{Err: broken}
		}
		x.broken = broken
	}
	if err == nil {
		x.acknowledged(b, w.acked)
	}
	return err
}

// lines returns the entries that the command may have, as lines.
func (x *commandWorker) lines(b *client.Batch) (lines []numbered) {
	for i := range b.Entries[:min(len(b.Entries), x.o.inFlight)] {
		if e := &b.Entries[i]; e.Number > x.worker.last {
			lines = append(lines, numbered{e.Number, []byte(oneLine(commandLine{b.Identity(e), newSessionLine(e, &x.o.session)}))})
		}
	}
	return lines
}

// acknowledged sets b.To to the last entry that the command has acknowledged.
func (x *commandWorker) acknowledged(b *client.Batch, number uint64) {
	if number < b.Entries[len(b.Entries)-1].Number {
		b.To = number
	} else {
		x.ended = b.End
	}
}

// ready makes sure that a command runs.
func (x *commandWorker) ready(ctx context.Context, after uint64) error {
	if x.worker != nil && x.worker.acked < x.worker.last {
		return nil // process finds out
	}
	if x.worker != nil {
		running, err := x.worker.running()
		if running && err == nil {
			return nil
		}
		x.kill()
		if err != nil {
			return &client.FinalError{Err: err}
		}
	}
	if x.o.ownCursor {
		return errRestart
	}
	return x.start(ctx, after)
}

func (x *commandWorker) kill() {
	if x.worker != nil {
		x.worker.end()
		x.worker = nil
	}
}

// failed returns the error of a failed try. No command runs then.
func (x *commandWorker) failed(b *client.Batch, tried *triedError) error {
	x.kill()
	for i := range b.Entries {
		if number := b.Entries[i].Number; number >= tried.number {
			if x.o.ownCursor && !tried.reported {
				x.doubt = &doubt{x.opened.Life, number, tried}
				return errRestart
			}
			return &client.TryError{Number: number, Err: tried}
		}
	}
	return &client.FinalError{Err: &reportError{tried.Error()}}
}

// Finish lets the command finish the entries that it has.
func (x *commandWorker) Finish(ctx context.Context, b *client.Batch) {
	w := x.worker
	if w == nil || len(b.Entries) == 0 {
		b.To = b.From
		return
	}
	x.worker = nil
	_ = w.stop(ctx, workerGrace) // an entry that has failed is given again by the next consumer
	x.acknowledged(b, max(w.acked, b.From))
}

// End ends the command, which has acknowledged all entries that it has.
func (x *commandWorker) End() error {
	w := x.worker
	if w == nil {
		return nil
	}
	x.worker = nil
	ctx, cancel := x.patience()
	defer cancel()
	if !x.ended {
		_ = w.stop(ctx, workerGrace) // the consumer has an error already, or was stopped
		return nil
	}
	if err := w.stop(ctx, x.o.silent); err != nil {
		return err
	}
	if state := w.cmd.ProcessState; x.ctx.Err() == nil && !state.Success() {
		return fmt.Errorf("the command ended after the last entry: %v", state)
	}
	return nil
}

// patience returns a context that ends with the session, and a while after the consumer was
// stopped.
func (x *commandWorker) patience() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(x.ctx))
	stop := context.AfterFunc(x.ctx, func() {
		grace := workerGrace
		if _, lost := errors.AsType[*client.Problem](context.Cause(x.ctx)); lost {
			grace = 0
		}
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, func() { stop(); cancel() }
}
