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
	queued  bool
	ending  ending
	final   process.Result // of the attempt
}

// errLate is the error of a message whose attempt is still running. It is no failed try.
var errLate = errors.New("the handler is still running")

// Process implements [api.Try].
func (t *try) Process(ctx context.Context) (state admission.State, replayed, ok bool, err error) {
	t.started = true
	ctx, cancel := context.WithTimeout(ctx, t.runner.cfg.Timeout)
	results := make(chan process.Result, 1)
	t.runner.cfg.Go(func() {
		defer cancel()
		t.final = t.run(ctx)
		if t.ending.attempt() {
			t.cleanUp()
		}
		t.runner.leave()
		results <- t.final
	})
	late := !t.await(ctx, results)
	if late || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.slow.Store(t.runner.cfg.Now().Add(slowFor).UnixNano())
	}
	if late {
		t.result = process.Result{Outcome: record.Outcome{Err: errLate}, Pause: latePause}
	}
	return t.state()
}

// await waits for the result, at most for the limit, or for [grace] after the end of ctx. It returns
// false if there is none by then.
func (t *try) await(ctx context.Context, results <-chan process.Result) bool {
	limit := time.NewTimer(t.runner.cfg.Limit)
	defer limit.Stop()
	select {
	case t.result = <-results:
		return true
	case <-limit.C:
		return false
	case <-ctx.Done(): // cancelled by Process right after the result, or over its time
		limit.Reset(grace)
	}
	select {
	case t.result = <-results:
		return true
	case <-limit.C:
		return false
	}
}

// run processes the message, and makes the result durable. A panic counts as a failed try.
func (t *try) run(ctx context.Context) (r process.Result) {
	defer func() {
		if p := recover(); p != nil {
			r = process.Result{Outcome: record.Outcome{Err: &record.HandlerError{Err: fmt.Errorf("panic: %v", p), Stack: debug.Stack()}}, Pause: t.runner.cfg.Retry(t.stream.Name)}
		}
	}()
	r = t.runner.cfg.Processor.Direct(ctx, t.stream, *t.message)
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
		replayed = true
	case record.HeldBack:
		state.Status = admission.StatusHeld
	case record.Rejected:
		if process.RefusedToCaller(t.stream, o.Reason) {
			return admission.State{}, false, false, &record.RefusedError{Reason: o.Reason, Detail: o.Detail}
		}
		state = admission.State{Status: admission.StatusRejected, Reason: o.Reason, Detail: o.Detail}
	case record.Retry:
		return admission.State{}, false, false, nil
	}
	return state, replayed, true, nil
}

// Enqueue implements [api.Try].
func (t *try) Enqueue(ctx context.Context) error {
	id, err := t.place.Enqueue(ctx, *t.message, t.result.Pause)
	if err != nil {
		return err
	}
	t.queued = true
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

// cleanUp releases the place when the attempt has ended, unless the message is on the queue.
func (t *try) cleanUp() {
	t.place.Release()
	if !t.queued && !t.final.Outcome.Settled() {
		t.runner.cfg.Stranded(t.message.GroupKey())
	}
}
