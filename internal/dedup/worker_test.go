package dedup_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// A fault is the fate of a port call.
type fault int

const (
	works       fault = iota
	failsBefore       // nothing was applied
	failsAfter        // applied, and the reply is lost
)

var errInjected = errors.New("injected fault")

// A worker is one process: an engine, and its connections to the ports.
type worker struct {
	*lab
	*dedup.Engine
	mu    sync.Mutex
	trace []string
	made  int // calls
	// at returns the fault of a call, given its text (see trace), before the call is made. It may
	// also act as another worker at that moment.
	at func(call string) fault
}

// maxCalls is more than any worker of a test has to make.
const maxCalls = 10_000

// worker starts a process that serves streams.
func (l *lab) worker(streams ...record.Stream) *worker {
	l.t.Helper()
	return l.workerOf(dedup.Config{Streams: streams})
}

func (l *lab) workerOf(cfg dedup.Config) *worker {
	l.t.Helper()
	w := &worker{lab: l}
	for i := range cfg.Streams {
		if s := &cfg.Streams[i]; s.Handler == nil && s.Batch == nil {
			s.Handler = w.handle(s.Stateless)
		}
		if s := &cfg.Streams[i]; l.batched && s.Batch == nil && !s.Stateless && s.Partitions == 0 {
			s.Batch, s.Handler = l.batch(s.Handler), nil
		}
	}
	if cfg.Store == nil {
		cfg.Store = portStore{w}
	}
	cfg.Queues, cfg.Blobs, cfg.Now, cfg.NewID = w, blobPort{w}, l.clock, l.name
	if cfg.Senders == nil {
		cfg.Senders = map[string]record.Sender{"out": destination{w, "out"}, "side": destination{w, "side"}, "next": destination{w, "next"}, "mesh": destination{w, "mesh"}}
		cfg.Sequenced, cfg.Unrelayed = map[string]bool{"next": true, "mesh": true}, map[string]bool{"mesh": true}
	}
	cfg.Pause = func(ctx context.Context, _ int) error { return ctx.Err() }
	cfg.Observe = func(e record.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, e)
	}
	var err error
	if w.Engine, err = dedup.New(cfg); err != nil {
		l.t.Fatal(err)
	}
	return w
}

func (l *lab) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names++
	return "a" + strconv.Itoa(l.names)
}

// call makes a port call, unless the test injects a fault.
func (w *worker) call(text string, do func() error) error {
	w.mu.Lock()
	w.trace = append(w.trace, text)
	at := w.at
	w.made++
	made := w.made
	w.mu.Unlock()
	if made > maxCalls {
		panic("a worker goes on for ever: " + text)
	}
	f := works
	if at != nil {
		f = at(text)
	}
	if f == failsBefore {
		return errInjected
	}
	if err := do(); err != nil || f == works {
		return err
	}
	return errInjected
}

// nth returns an at that acts once, on the n-th call (from 1) with a prefix.
func nth(n int, prefix string, act func() fault) func(string) fault {
	var seen atomic.Int64
	return func(call string) fault {
		if strings.HasPrefix(call, prefix) && seen.Add(1) == int64(n) {
			return act()
		}
		return works
	}
}

// between returns an at that lets others act before the first call with a prefix.
func between(prefix string, act func()) func(string) fault {
	return nth(1, prefix, func() fault { act(); return works })
}

// once returns an at that fails the first call with a prefix.
func once(prefix string, f fault) func(string) fault {
	return nth(1, prefix, func() fault { return f })
}

// both returns an at that combines several.
func both(ats ...func(string) fault) func(string) fault {
	return func(call string) fault {
		f := works
		for _, at := range ats {
			f = max(f, at(call))
		}
		return f
	}
}

// always returns an at that fails all calls with a prefix.
func always(prefix string, f fault) func(string) fault {
	return func(call string) fault {
		if strings.HasPrefix(call, prefix) {
			return f
		}
		return works
	}
}

// dies returns an at of a process that dies at its first call with a prefix, before it is made or
// after.
func dies(prefix string, at fault) func(string) fault {
	var dead atomic.Bool
	return func(call string) fault {
		switch {
		case dead.Load():
			return failsBefore
		case strings.HasPrefix(call, prefix):
			dead.Store(true)
			return at
		}
		return works
	}
}

// calls returns the trace and begins a new one.
func (w *worker) calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	trace := w.trace
	w.trace = nil
	return trace
}

// batch returns a batch handler that runs a handler for each message, in their order. The answer
// ends before a message that fails.
func (l *lab) batch(h record.Handler) record.BatchHandler {
	return func(ctx context.Context, b *record.Batch) error {
		most := l.asked(b)
		if most == 0 {
			return errHandler
		}
		state := b.State
		for i, m := range b.Messages[:most] {
			own := &record.Attempt{ID: b.ID, Group: b.Group, State: slices.Clone(state), Log: b.Log, Now: b.Now, NoTimers: b.NoTimers}
			err := h.Run(ctx, own, m)
			if reject, ok := errors.AsType[*record.RejectError](err); ok {
				b.Reject(reject.Detail)
				continue
			}
			if err != nil {
				if i == 0 {
					return err
				}
				break
			}
			if err := handOver(b.Accept(), own); err != nil {
				return err
			}
			state = own.State
		}
		b.State = state
		return nil
	}
}

// asked records a call, and returns how many messages are to be answered.
func (l *lab) asked(b *record.Batch) int {
	ids := make([]string, len(b.Messages))
	for i := range b.Messages {
		ids[i] = b.Messages[i].Identity()
	}
	l.mu.Lock()
	l.calls = append(l.calls, string(b.State)+": "+strings.Join(ids, " "))
	l.mu.Unlock()
	if l.answers == nil {
		return len(b.Messages)
	}
	return l.answers(len(b.Messages))
}

// handOver copies the results of an attempt to another one.
func handOver(to, own *record.Attempt) error {
	var bodies [][]byte
	for _, body := range own.Staged() {
		bodies = append(bodies, body)
	}
	for _, f := range own.Effects() { // the blobs are last, in the order of their bodies
		switch {
		case f.Blob != nil:
			to.Blob(f.Blob.Key, bodies[0])
			bodies = bodies[1:]
		case f.Timer == "":
			to.Send(f)
		}
	}
	for _, c := range own.Timers() {
		err := to.CancelTimer(c.Name)
		if c.Effect != nil {
			err = to.SetTimer(c.Name, c.Effect.NotBefore.Sub(own.Now), *c.Effect)
		}
		if err != nil {
			return err
		}
	}
	for _, entry := range own.Entries() {
		to.Append(entry)
	}
	if own.Omitted() {
		to.OmitMessage()
	}
	if reply := own.Answer(); reply != nil {
		to.Reply(*reply)
	}
	return nil
}
