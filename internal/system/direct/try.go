package direct

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/process"
)

// A try is one message that is being processed.
type try struct {
	flight
	runner  *Runner
	id      identity
	stream  record.Stream
	message *record.Message
	place   Place
	slow    *atomic.Int64
	counted bool
	started bool
	result  process.Result // for the caller
	late    bool           // the caller has left before the end of the attempt
	queued  bool
	queueID string // of the message, if it is queued
	ending  ending
	final   process.Result // of the attempt
}

var (
	// errLate is the error of a message whose attempt is still running. It is no failed try.
	errLate = errors.New("the handler is still running")
	// errNoResult is the error of an attempt whose goroutine has ended without a result.
	errNoResult = errors.New("the handler has ended its goroutine")
)

// Process implements [api.Try].
func (t *try) Process(ctx context.Context) (state admission.State, replayed, ok bool, err error) {
	t.started = true
	ctx, until, cancel := t.runner.attempt(ctx, &t.stream)
	results := make(chan process.Result, 1)
	t.final.Outcome.Err = errNoResult
	t.runner.cfg.Go(func() {
		defer t.ended(cancel, results) // also if a handler ends its goroutine
		t.final = t.run(ctx, until)
	})
	if t.late = !t.await(ctx, results); t.late {
		t.result = process.Result{Outcome: record.Outcome{Err: errLate}, Pause: latePause}
	}
	return t.state()
}

// ended cleans up if the caller has left, and returns the result to it otherwise.
func (t *try) ended(cancel func(), results chan<- process.Result) {
	if t.ending.attempt() {
		t.cleanUp()
	}
	t.runner.leave()
	results <- t.final
	cancel()
}

// await waits for the result: for the limit, or without one until [grace] after the end of ctx. It
// returns false if there is none by then. If the attempt takes longer than its limit, the stream
// counts as slow.
func (t *try) await(ctx context.Context, results <-chan process.Result) bool {
	over, limit := ctx.Done(), (<-chan time.Time)(nil)
	if d := t.runner.cfg.Limit; d > 0 {
		timer := t.runner.timer(d)
		defer t.runner.stop(timer)
		over, limit = nil, timer.C
	}
	select {
	case t.result = <-results:
		return true
	case <-limit:
		t.slowDown()
		return false
	case <-over: // cancelled right after the result, or over its time
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.slowDown()
	}
	end := time.NewTimer(grace)
	defer end.Stop()
	select {
	case t.result = <-results:
		return true
	case <-end.C:
		return false
	}
}

// slowDown makes the stream's messages go through the queue for a while.
func (t *try) slowDown() { t.slow.Store(t.runner.cfg.Now().Add(slowFor).UnixNano()) }

// run processes the message, and makes the result durable. A panic counts as a failed try.
func (t *try) run(ctx context.Context, until time.Time) (r process.Result) {
	defer func() {
		if p := recover(); p != nil {
			r = process.Result{Outcome: record.Outcome{Err: &record.HandlerError{Err: fmt.Errorf("panic: %v", p), Stack: debug.Stack()}}, Pause: t.runner.cfg.Retry(t.stream.Name)}
		}
	}()
	r = t.runner.cfg.Processor.Direct(ctx, until, t.stream, *t.message)
	if r.Outcome.Settled() {
		if err := t.runner.cfg.Sync(); err != nil {
			return process.Result{Outcome: record.Outcome{Err: err}, Pause: t.runner.cfg.Retry(t.stream.Name)}
		}
	}
	return r
}

// state returns the message's state after the try.
func (t *try) state() (state admission.State, replayed, ok bool, err error) {
	o := &t.result.Outcome
	state = admission.State{Status: admission.StatusCommitted, Reply: o.Reply}
	if t.result.Published {
		state.Status = admission.StatusDone
	}
	switch o.Kind {
	case record.Processed:
	case record.Duplicate:
		state, replayed = state.Told(), true
	case record.HeldBack:
		state.Status = admission.StatusHeld
	case record.Rejected:
		if process.RefusedToCaller(t.stream, o.Reason) {
			return admission.State{}, false, false, &record.RefusedError{Reason: o.Reason, Detail: o.Detail}
		}
		if state = (admission.State{Status: admission.StatusRejected, Reason: o.Reason, Detail: o.Detail}); o.Reason == record.ReasonGap {
			state = admission.State{Status: admission.StatusAccepted} // its dead letter can be put back
		}
	case record.Retry:
		return admission.State{}, false, false, nil
	}
	return state, replayed, true, nil
}

// Enqueue implements [api.Try].
func (t *try) Enqueue(ctx context.Context) error {
	enqueue := t.place.Enqueue
	if h, ok := t.place.(Holder); ok && t.late {
		enqueue = h.Hold
	}
	id, err := enqueue(ctx, *t.message, t.result.Pause)
	if err != nil {
		return err
	}
	t.queued, t.queueID = true, id
	t.runner.cfg.Processor.Queued(id, t.result)
	return nil
}

// End implements [api.Try].
func (t *try) End() {
	switch {
	case !t.counted:
	case !t.started:
		t.place.Release()
		t.runner.leave()
	case t.ending.caller():
		t.cleanUp()
	}
	t.runner.end(&t.flight, t.id)
}

// cleanUp releases the place when the attempt has ended, unless the message is on the queue. There
// it may be delivered from now on.
func (t *try) cleanUp() {
	t.place.Release()
	if h, ok := t.place.(Holder); ok && t.queued && t.late {
		t.runner.show(h, 0, t.queueID, t.stream.Name, t.final)
	}
	if !t.queued && !t.final.Outcome.Settled() {
		t.runner.cfg.Stranded(t.message.GroupKey())
	}
}

// show lets a message be delivered whose attempt has ended after its caller had left.
func (r *Runner) show(s Shower, place int, id, stream string, final process.Result) {
	if final.Outcome.Settled() { // the delivery will find that
		s.Show(Queued{Place: place, Tried: true})
		return
	}
	if errors.Is(final.Outcome.Err, errNoResult) {
		final.Pause = r.cfg.Retry(stream)
	}
	r.cfg.Processor.Queued(id, final)
	s.Show(Queued{Place: place, Tried: !final.Untried, Pause: final.Pause})
}
