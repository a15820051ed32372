package direct

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/process"
)

// A batch is the messages of one request that are being processed.
type batch struct {
	flight
	runner   *Runner
	stream   record.Stream
	messages []record.Message // the whole batch
	ids      []identity       // of the messages
	places   Places           // nil if no message has one
	slow     *atomic.Int64
	counted  bool
	started  bool
	open     []int            // the messages that are processed
	results  []process.Result // of open
	late     bool             // the caller has left before the end of the attempt
	queued   []bool           // of open
	queueIDs []string         // of the queued ones
	ending   ending
	final    []process.Result // of the attempt, for open
	copies   []record.Message // of open: the handlers can run on when the caller has left
}

// BeginAll reserves places for the messages of a batch that can be processed directly. It waits up
// to [maxWait] for places, counted from its start. If another caller's copy of a message is under
// way, BeginAll waits for that first, which uses up that time but is not limited by it. Until End,
// other callers' copies wait, also those of messages without a place: otherwise both callers could
// be told that the message is new. See [api.Direct].
func (r *Runner) BeginAll(ctx context.Context, s record.Stream, messages []record.Message) api.Tries {
	slow := (*r.slow.Load())[s.Name]
	if slow == nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		b := &batch{runner: r, stream: s, messages: messages, slow: slow, ids: make([]identity, len(messages))}
		for i := range messages {
			b.ids[i] = identityOf(&messages[i])
		}
		other := r.join(b)
		if other == nil {
			// without the lock: copies of the messages find the batch already
			r.reserve(waiting, b)
			return b
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil
		}
	}
}

// join registers the messages of a batch. If one of them is under way, it returns a channel that is
// closed when that ends. The batch holds no place then, so that two batches do not wait for each
// other.
func (r *Runner) join(b *batch) (other <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.ids {
		if same := r.flights[b.ids[i]]; same != nil {
			return same.wait()
		}
	}
	for i := range b.ids {
		r.flights[b.ids[i]] = &b.flight
	}
	return nil
}

// reserve reserves the places of a batch, if it may be processed, and counts it. It waits for
// places until ctx ends, unless batches of [maxWaiting] bytes wait already.
func (r *Runner) reserve(ctx context.Context, b *batch) {
	if !r.mayRun(b.slow) {
		return
	}
	size := int64(0)
	for i := range b.messages {
		size += int64(perMessage + b.messages[i].Size())
	}
	if r.waiting.TryAcquire(size) {
		defer r.waiting.Release(size)
	} else {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		end()
	}
	places := r.cfg.Line.ReserveAll(ctx, b.messages)
	if places == nil {
		return
	}
	if b.counted = r.count(b.slow); !b.counted { // while it waited, the stream became slow or the runner was closed
		places.Release()
		return
	}
	b.places = places
}

// Has implements [api.Tries].
func (b *batch) Has(i int) bool { return b.places != nil && b.places.Has(i) }

// Process implements [api.Tries].
func (b *batch) Process(ctx context.Context, open []int) []api.Tried {
	b.started, b.open, b.queued = true, open, make([]bool, len(open))
	b.queueIDs = make([]string, len(open))
	b.copies = make([]record.Message, len(open))
	for k, i := range open {
		b.copies[k] = b.messages[i]
	}
	w := &watch{now: b.runner.cfg.Now}
	ctx, _, cancel := b.runner.attempt(w.in(ctx), &b.stream)
	results := make(chan []process.Result, 1)
	b.final = b.again(errNoResult)
	b.runner.cfg.Go(func() {
		defer b.ended(cancel, results) // also if a handler ends its goroutine
		b.final = b.run(ctx)
	})
	b.await(ctx, results, w)
	return b.tried()
}

// ended cleans up if the caller has left, and returns the result to it otherwise.
func (b *batch) ended(cancel func(), results chan<- []process.Result) {
	if b.ending.attempt() {
		b.cleanUp()
	}
	b.runner.leave()
	results <- b.final
	cancel()
}

// limit is the time in which handlers may start.
func (r *Runner) limit() time.Duration { return cmp.Or(r.cfg.Limit, r.cfg.Timeout) }

// await waits for the results, at most until [grace] after the limit or after the end of ctx. If
// there are none by then, each message goes on the queue.
func (b *batch) await(ctx context.Context, results <-chan []process.Result, w *watch) {
	begun, limit := b.runner.cfg.Now(), b.runner.limit()
	end := time.NewTimer(limit + grace)
	defer end.Stop()
	select {
	case b.results = <-results:
	case <-end.C:
	case <-ctx.Done(): // also right after the results
		end.Reset(grace)
		select {
		case b.results = <-results:
		case <-end.C:
		}
	}
	b.late = b.results == nil
	if b.late || w.longest() >= limit/2 && b.runner.cfg.Now().Sub(begun) >= limit {
		b.slow.Store(b.runner.cfg.Now().Add(slowFor).UnixNano())
	}
	if b.late {
		b.results = b.again(errLate)
		for k := range b.results {
			b.results[k].Untried, b.results[k].Pause = true, latePause
		}
	}
}

// run processes the messages, and makes the results durable. After a panic, every message has to be
// tried again.
func (b *batch) run(ctx context.Context) (results []process.Result) {
	defer func() {
		if p := recover(); p != nil {
			results = b.again(&record.HandlerError{Err: fmt.Errorf("panic: %v", p), Stack: debug.Stack()})
		}
	}()
	results = b.runner.cfg.Processor.DirectAll(ctx, b.runner.cfg.Now().Add(b.runner.limit()), b.stream, b.copies)
	if len(results) != len(b.copies) {
		return b.again(fmt.Errorf("%d results for %d messages", len(results), len(b.copies)))
	}
	for i := range results {
		if results[i].Outcome.Settled() {
			if err := b.runner.cfg.Sync(); err != nil {
				return b.again(err)
			}
			break
		}
	}
	return results
}

// again returns results with which each message is tried again.
func (b *batch) again(err error) []process.Result {
	results := make([]process.Result, len(b.open))
	for k := range results {
		results[k] = process.Result{Outcome: record.Outcome{Err: err}, Pause: b.runner.cfg.Retry(b.stream.Name)}
	}
	return results
}

// tried returns the results for the callers.
func (b *batch) tried() []api.Tried {
	out := make([]api.Tried, len(b.results))
	for k := range b.results {
		switch o := &b.results[k].Outcome; {
		case o.Kind == record.Retry:
			out[k].Left = true
		case o.Kind == record.Rejected && process.RefusedToCaller(b.stream, o.Reason):
			out[k].Err = &record.RefusedError{Reason: o.Reason, Detail: o.Detail}
		default:
			out[k].Replayed = o.Kind == record.Duplicate
		}
	}
	return out
}

// Enqueue implements [api.Tries].
func (b *batch) Enqueue(ctx context.Context, which []int) []error {
	queued := make([]Queued, len(which))
	for j, k := range which {
		r := &b.results[k]
		queued[j] = Queued{Place: b.open[k], Message: &b.messages[b.open[k]], Tried: !r.Untried, Pause: r.Pause, Held: b.late}
	}
	ids, errs := b.places.Enqueue(ctx, queued)
	for j, k := range which {
		if errs[j] == nil {
			b.queued[k], b.queueIDs[k] = true, ids[j]
			b.runner.cfg.Processor.Queued(ids[j], b.results[k])
		}
	}
	return errs
}

// End implements [api.Tries].
func (b *batch) End() {
	switch {
	case !b.started:
		if b.places != nil {
			b.places.Release()
		}
		if b.counted {
			b.runner.leave()
		}
	case b.ending.caller():
		b.cleanUp()
	}
	b.runner.end(&b.flight, b.ids...)
}

// cleanUp releases the places when the attempt has ended. Those of queued messages are used.
func (b *batch) cleanUp() {
	b.places.Release()
	s, hides := b.places.(Shower)
	for k := range b.copies {
		if hides && b.late && b.queued[k] {
			b.runner.show(s, b.open[k], b.queueIDs[k], b.stream.Name, b.final[k])
		}
		if !b.queued[k] && !b.final[k].Outcome.Settled() {
			b.runner.cfg.Stranded(b.copies[k].GroupKey())
		}
	}
}
