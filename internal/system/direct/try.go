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
	result  process.Result
	queued  bool
}

var errSlow = errors.New("the handler did not end in time for a direct answer")

// Process implements [api.Try].
func (t *try) Process(ctx context.Context) (state admission.State, replayed, ok bool, err error) {
	t.started = true
	ctx, cancel := context.WithTimeout(ctx, t.runner.cfg.Limit)
	results := make(chan process.Result, 1)
	t.runner.cfg.Go(func() {
		defer cancel()
		results <- t.run(ctx)
	})
	if !t.await(ctx, results) {
		t.result = process.Result{Outcome: record.Outcome{Err: &record.HandlerError{Err: errSlow}}, Pause: t.runner.cfg.Retry(t.stream.Name)}
	}
	return t.state()
}

// await waits for the result, at most for [grace] after the end of ctx. It returns false if there
// is none by then. If the attempt takes longer than its limit, the stream counts as slow.
func (t *try) await(ctx context.Context, results <-chan process.Result) bool {
	select {
	case t.result = <-results:
		return true
	case <-ctx.Done(): // cancelled by Process right after the result, or over its limit
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.slow.Store(t.runner.cfg.Now().Add(slowFor).UnixNano())
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

// run processes the message, and makes the result durable. A panic counts as a failed try. It stops
// counting the try before its caller gets the result.
func (t *try) run(ctx context.Context) (r process.Result) {
	defer t.runner.leave()
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
	if t.counted {
		t.place.Release()
	}
	t.runner.end(&t.flight, t.id)
	switch {
	case !t.counted:
	case !t.started:
		t.runner.leave()
	case !t.queued && !t.result.Outcome.Settled():
		t.runner.cfg.Stranded(t.message.GroupKey())
	}
}
