package lease

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

const (
	testLease     = time.Minute
	testRetention = time.Hour
)

var errStore = errors.New("store away")

// A faulty store fails chosen calls, before or after they are applied. It counts SwapToken and Load
// alike, from 1.
type faulty struct {
	Store
	mu    sync.Mutex
	calls int
	fault func(call int) fault
}

type fault uint8

const (
	none fault = iota
	before
	after
)

func (s *faulty) next() fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fault == nil {
		return none
	}
	return s.fault(s.calls)
}

func (s *faulty) Load(ctx context.Context, g []record.GroupKey, t []record.TokenKey) ([]record.Group, []record.Token, error) {
	if s.next() != none {
		return nil, nil, errStore
	}
	return s.Store.Load(ctx, g, t)
}

func (s *faulty) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	f := s.next()
	if f == before {
		return record.Token{}, errStore
	}
	stored, err := s.Store.SwapToken(ctx, old, next)
	if f == after {
		return record.Token{}, errStore
	}
	return stored, err
}

// crashAt ends the process that uses the store at a call: that call is applied or not, and neither
// it nor a later one returns a result.
func crashAt(call int, last fault) func(int) fault {
	return func(n int) fault {
		switch {
		case n < call:
			return none
		case n == call:
			return last
		}
		return before
	}
}

// A world is one message's token and the handlers that ran for it.
type world struct {
	t     *testing.T
	store *memstore.Store
	id    Identity

	mu      sync.Mutex
	runs    int
	running int
	overlap int
}

type mode struct {
	name string
	call func(*Guard, context.Context, Identity, Func) (Result, error)
}

var (
	lazy   = mode{"lazy", (*Guard).Lazy}
	eager  = mode{"eager", (*Guard).Eager}
	leased = mode{"leased", (*Guard).Leased}
)

// tooLong is the time, on the bubble's clock, after which a test is stopped.
const tooLong = 24 * time.Hour

// pass lets time pass.
func pass(d time.Duration) { time.Sleep(d) } // virtual time: only called in the bubble of inWorld

// remaining returns the time until end.
func remaining(end time.Time) time.Duration { return time.Until(end) } // virtual time: as pass

// inWorld runs a test in a synctest bubble, with its own clock.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		bound := time.AfterFunc(tooLong, func() {
			panic(t.Name() + ": an attempt or its heartbeat did not end when its context did")
		})
		defer bound.Stop()
		test(&world{
			t:     t,
			store: memstore.New(time.Now),
			id:    Identity{Key: record.NewTokenKey("", "orders", "1"), Fingerprint: record.Fingerprint{1}},
		})
	})
}

// guard returns the guard of a new process.
func (w *world) guard(fault func(int) fault) *Guard {
	return New(&faulty{Store: w.store, fault: fault}, Config{Lease: testLease, Retention: testRetention})
}

// attempt runs a mode in a new process.
func (w *world) attempt(m mode, f Func) (Result, error) {
	return m.call(w.guard(nil), w.t.Context(), w.id, f)
}

// dying runs an attempt in a process that crashes.
func (w *world) dying(m mode, fault func(int) fault, f Func) {
	_, _ = m.call(w.guard(fault), w.t.Context(), w.id, f)
}

// answers returns a handler that ignores its context, takes a time and replies.
func (w *world) answers(reply string, takes time.Duration) Func {
	return func(context.Context) (*record.Reply, error) {
		defer w.enter()()
		pass(takes)
		return &record.Reply{Body: []byte(reply)}, nil
	}
}

// fails returns a handler that takes a time and returns an error.
func (w *world) fails(err error, takes time.Duration) Func {
	return func(context.Context) (*record.Reply, error) {
		defer w.enter()()
		pass(takes)
		return nil, err
	}
}

func (w *world) enter() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs++
	w.running++
	if w.running > 1 {
		w.overlap++
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.running--
	}
}

func (w *world) wantRuns(want int) {
	w.t.Helper()
	if w.runs != want {
		w.t.Errorf("handler ran %d times, want %d", w.runs, want)
	}
}

// wantDone checks that an attempt runs nothing and returns a stored reply.
func (w *world) wantDone(m mode, reply string) {
	w.t.Helper()
	runs := w.runs
	r, err := w.attempt(m, w.answers("must not run", 0))
	if err != nil || !r.Duplicate || string(r.Reply.Body) != reply {
		w.t.Errorf("got %+v, %v; want the remembered reply %q", r, err, reply)
	}
	w.wantRuns(runs)
}

// wantRun checks that an attempt runs its handler and succeeds.
func (w *world) wantRun(m mode) {
	w.t.Helper()
	runs := w.runs
	r, err := w.attempt(m, w.answers("next", 0))
	if err != nil || r.Duplicate || string(r.Reply.Body) != "next" {
		w.t.Errorf("got %+v, %v; want the handler's own reply", r, err)
	}
	w.wantRuns(runs + 1)
	w.wantDone(m, "next")
}

// wantLeased checks that an attempt is told that another one is running, and when to retry.
func (w *world) wantLeased(m mode, after time.Duration) {
	w.t.Helper()
	runs := w.runs
	_, err := w.attempt(m, w.answers("must not run", 0))
	var busy *LeasedError
	if !errors.As(err, &busy) || busy.RetryAfter != after {
		w.t.Errorf("got %v, want a lease that ends in %v", err, after)
	}
	w.wantRuns(runs)
}
