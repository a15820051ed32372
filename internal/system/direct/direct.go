// Package direct processes messages for callers without the queue: the HTTP API answers when the
// message is processed and durable, and the queue gets only messages that could not be processed.
//
// # Order
//
// A message is processed directly only if [Line] reserves the first place in its group. The place
// keeps later messages of the group waiting. A message that goes to the queue after all takes the
// place, so it stays ahead of them.
//
// # Limits
//
// A caller waits for [Config.Limit]. After it, the message goes on the queue, the caller is told
// that it is accepted, and the attempt continues until its own time is over. While it runs, the
// queue keeps the message hidden ([Holder]), and the engine begins no other attempt of its group.
// When it has ended, the delivery from the queue finds the message done, or tries it again after a
// pause. The stream's messages go through the queue for [slowFor] after that, and every message does
// while [MaxRunning] others are processed.
//
// A batch waits up to [maxWait] if others are in the way of at least half of it: on the queue each
// of its messages would be written and read once more. It then has [Limit] as a whole. After it, no
// further handler starts, and the messages that are not processed go on the queue. That makes the
// stream slow only if one of its handlers ran for half of the limit, or if the batch did not end
// [grace] after the limit; then all of its messages go on the queue.
package direct

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/process"
)

// Settings of all runners.
const (
	// Limit is how long a caller waits for its handler, except in a function.
	Limit = 2 * time.Second
	// MaxRunning is how many messages are processed concurrently. A batch counts as one.
	MaxRunning = 256
	// grace is for a handler that ends when its context does, or a batch that starts no further
	// one, and for the writes after it.
	grace   = 500 * time.Millisecond
	slowFor = time.Minute
	// reserve is the time of a function that is left after an attempt.
	reserve = 2 * time.Second
	// maxWait is how long a batch waits for places. Several batches of a thousand messages are
	// processed in that time.
	maxWait = 200 * time.Millisecond
	// maxWaiting bounds the bytes of the batches that wait for places, so that they leave memory to
	// the batches that do not wait.
	maxWaiting = 16 << 20
	// latePause is the pause of a message whose attempt is still running.
	latePause = time.Second
	// perMessage is about what a message takes besides its body and headers, in bytes.
	perMessage = 256
)

// A Line is the order of the messages on the ingress queues.
type Line interface {
	// Reserve takes the first place in the message's group. It returns false if a message of the
	// group is on the queue, or has its place reserved.
	Reserve(m *record.Message) (Place, bool)
	// ReserveAll takes places for messages of one stream: for all messages of a group the first
	// places in it, or none of them. It returns nil if no message has a place. It may wait
	// until ctx ends, if others have places or messages in the groups.
	ReserveAll(ctx context.Context, messages []record.Message) Places
}

// A Place is a reserved place.
type Place interface {
	// Enqueue puts the message into the place, durably, as one that was tried once, and returns the
	// queue's id of it. It is tried again after the pause.
	Enqueue(ctx context.Context, m record.Message, pause time.Duration) (id string, err error)
	// Release gives up the place, unless it was used.
	Release()
}

// A Holder is a [Place] whose message can stay hidden while its attempt is still running.
type Holder interface {
	Shower
	// Hold is Enqueue of a message that stays hidden until Show, or until the process ends.
	Hold(ctx context.Context, m record.Message, pause time.Duration) (id string, err error)
}

// A Shower is a [Holder], or [Places] that hide the messages with [Queued.Held].
type Shower interface {
	// Show lets a held message be tried after its pause. Its Place, Tried and Pause count.
	Show(q Queued)
}

// Places are the reserved places of a batch.
type Places interface {
	// Has reports whether message i of the batch has a place.
	Has(i int) bool
	// Enqueue puts messages into their places, durably, and returns the queue's id or an error for
	// each. After a message that fails, no later one of its group is put.
	Enqueue(ctx context.Context, messages []Queued) (ids []string, errs []error)
	// Release gives up the places that were not used.
	Release()
}

// A Queued message goes on the queue, because it could not be processed.
type Queued struct {
	Place   int // its index in the batch
	Message *record.Message
	// Tried reports whether it counts as tried once.
	Tried bool
	// Pause is the time until it is tried again.
	Pause time.Duration
	// Held reports that its attempt is still running: a [Shower] hides it until Show.
	Held bool
}

// Processor processes messages. *process.Handler is one.
type Processor interface {
	Direct(ctx context.Context, until time.Time, s record.Stream, m record.Message) process.Result
	DirectAll(ctx context.Context, until time.Time, s record.Stream, messages []record.Message) []process.Result
	Queued(id string, r process.Result)
}

// Config configures a runner.
type Config struct {
	Processor Processor // required
	Line      Line      // required
	// Streams names the streams whose messages are processed directly. Required.
	Streams map[string]bool
	// Sync makes the results of the processor durable. Defaults to no sync, for results that are
	// durable already.
	Sync func() error
	// Stranded is called with the group of a message that was tried and could not be put on the
	// queue. If the try committed effects, no queue has a message or trigger that publishes them.
	// Defaults to nothing.
	Stranded func(record.GroupKey)
	// Go runs a function concurrently. Defaults to goroutines that are kept until Close.
	Go func(func())
	// Timeout is how long the attempts of a call may start if callers do not wait for them, and
	// how long they may take if callers do. Required. See Limit, and [record.Stream.Timeout] for
	// what one attempt may take.
	Timeout time.Duration
	// Limit is how long a caller waits for the end of an attempt, which then continues without it.
	// Defaults to Timeout: the caller waits for the attempt, and the end of the caller's context
	// ends it too. That is for a function, which is stopped when it has answered.
	Limit time.Duration
	// Retry is the pause of a message whose attempt has no result. Required.
	Retry func(stream string) time.Duration
	// Now defaults to time.Now.
	Now func() time.Time
}

// A Runner processes messages directly. It implements [api.Direct].
type Runner struct {
	cfg     Config
	slow    atomic.Pointer[map[string]*atomic.Int64] // by stream, until when it counts as slow, in Unix nanoseconds
	wg      sync.WaitGroup
	mu      sync.Mutex
	open    bool
	running int                  // processors' calls
	waiting *semaphore.Weighted  // bytes of the batches that wait for places
	flights map[identity]*flight // of the streams that are direct
	work    chan func()
	timers  sync.Pool // of stopped *time.Timer
	closing sync.Once
	closed  chan struct{}
	halting sync.Once
	halted  chan struct{}
}

var _ api.Direct = (*Runner)(nil)

// New returns a runner. It sends all messages to the queue until Open is called.
func New(cfg Config) *Runner {
	if cfg.Sync == nil {
		cfg.Sync = func() error { return nil }
	}
	if cfg.Stranded == nil {
		cfg.Stranded = func(record.GroupKey) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	r := &Runner{cfg: cfg, flights: map[identity]*flight{}, work: make(chan func()), closed: make(chan struct{}), halted: make(chan struct{}), waiting: semaphore.NewWeighted(maxWaiting)}
	if cfg.Go == nil {
		r.cfg.Go = r.spawn
	}
	r.SetStreams(cfg.Streams)
	return r
}

// SetStreams replaces the names of [Config]. Messages that are under way are not affected.
func (r *Runner) SetStreams(streams map[string]bool) {
	known, slow := r.slow.Load(), map[string]*atomic.Int64{}
	for name, direct := range streams {
		if !direct {
			continue
		}
		if known != nil {
			slow[name] = (*known)[name]
		}
		if slow[name] == nil {
			slow[name] = &atomic.Int64{}
		}
	}
	r.slow.Store(&slow)
}

// Open lets messages be processed.
func (r *Runner) Open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
}

// Close sends all further messages to the queue, and waits until the others are processed.
func (r *Runner) Close() {
	r.mu.Lock()
	r.open = false
	r.mu.Unlock()
	r.wg.Wait()
	r.closing.Do(func() { close(r.closed) })
}

// Halt ends the contexts of the attempts that run for long.
func (r *Runner) Halt() { r.halting.Do(func() { close(r.halted) }) }

// spawn runs f in a goroutine that has run before, if one is idle: its stack has grown already.
func (r *Runner) spawn(f func()) {
	select {
	case r.work <- f:
	default:
		go func() {
			for {
				f()
				select {
				case f = <-r.work:
				case <-r.closed:
					return
				}
			}
		}()
	}
}

// attempt returns the context of the attempts of a call, and until when they may start, if not
// until the end of the context. It leaves [reserve] of the time that a function has to the writes
// after it.
func (r *Runner) attempt(ctx context.Context, s *record.Stream) (_ context.Context, until time.Time, cancel context.CancelFunc) {
	timeout := r.cfg.Timeout
	if r.cfg.Limit > 0 {
		if ctx.Done() != nil {
			ctx = context.WithoutCancel(ctx)
		}
		if s.Timeout > 0 {
			timeout, until = timeout+s.Timeout+reserve, r.cfg.Now().Add(timeout)
		}
	} else if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)-reserve)
	}
	ctx, cancel = context.WithTimeout(ctx, timeout)
	if s.Timeout > r.cfg.Timeout {
		go r.awaitHalt(ctx, cancel)
	}
	return ctx, until, cancel
}

// awaitHalt ends a context when the runner is halted.
func (r *Runner) awaitHalt(ctx context.Context, cancel func()) {
	select {
	case <-r.halted:
		cancel()
	case <-ctx.Done():
	}
}

// timer returns a timer, one that was stopped before if there is one.
func (r *Runner) timer(d time.Duration) *time.Timer {
	if t, ok := r.timers.Get().(*time.Timer); ok {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

func (r *Runner) stop(t *time.Timer) {
	t.Stop()
	r.timers.Put(t)
}

// An identity names a message.
type identity struct{ principal, stream, name string }

func identityOf(m *record.Message) identity { return identity{m.Principal, m.Stream, m.Identity()} }

// A flight is the request with a message or a batch that is under way. Other callers' copies of its
// messages wait for its end.
type flight struct {
	ended chan struct{} // made when the first caller waits
}

// wait returns a channel that is closed when the flight ends. The caller holds the lock.
func (f *flight) wait() <-chan struct{} {
	if f.ended == nil {
		f.ended = make(chan struct{})
	}
	return f.ended
}

// Begin reserves a place for a message, if it can be processed directly. If another caller's copy
// of the message is under way, Begin waits for it, so that both get the same answer. Until End,
// other callers' copies wait for this one, also if it has to go through the queue: otherwise both
// callers could be told that the message is new. See [api.Direct].
func (r *Runner) Begin(ctx context.Context, s record.Stream, m *record.Message) (api.Try, bool) {
	slow := (*r.slow.Load())[s.Name]
	if slow == nil {
		return nil, false
	}
	for {
		t := &try{runner: r, id: identityOf(m), stream: s, message: m, slow: slow}
		other, ok := r.enter(t)
		if other == nil {
			return t, ok
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// enter registers a try, reserves a place for it and counts it. If the same message is under way,
// it returns a channel that is closed when that ends.
func (r *Runner) enter(t *try) (other <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if same := r.flights[t.id]; same != nil {
		return same.wait(), false
	}
	r.flights[t.id] = &t.flight
	if !r.takes(t.slow) {
		return nil, false
	}
	if t.place, ok = r.cfg.Line.Reserve(t.message); !ok {
		return nil, false
	}
	t.counted = true
	r.running++
	r.wg.Add(1)
	return nil, true
}

// takes reports whether a message of a stream may be processed now. The caller holds the lock.
func (r *Runner) takes(slow *atomic.Int64) bool {
	return r.open && r.running < MaxRunning && slow.Load() <= r.cfg.Now().UnixNano()
}

// mayRun reports whether a message of a stream may be processed now.
func (r *Runner) mayRun(slow *atomic.Int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takes(slow)
}

// count counts a batch if it may be processed now.
func (r *Runner) count(slow *atomic.Int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.takes(slow) {
		return false
	}
	r.running++
	r.wg.Add(1)
	return true
}

// leave stops counting a try, when it has run or if it was never started.
func (r *Runner) leave() {
	r.mu.Lock()
	r.running--
	r.mu.Unlock()
	r.wg.Done()
}

// end removes a flight whose caller has its results.
func (r *Runner) end(f *flight, ids ...identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range ids {
		if r.flights[ids[i]] == f {
			delete(r.flights, ids[i])
		}
	}
	if f.ended != nil {
		close(f.ended)
	}
}
