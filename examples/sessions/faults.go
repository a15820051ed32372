package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/effectively-once/once/client"
)

// A fault is something that happens to a run.
type fault string

const (
	killed    fault = "consumer killed with SIGKILL, restarted with its holder name"
	stopped   fault = "consumer stopped with SIGSTOP, replaced after its lease"
	rivalled  fault = "second consumer of a session, while the first works on"
	crashed   fault = "server killed with SIGKILL, restarted"
	abandoned fault = "consumer gone for good, its session retired"
	whole     fault = "the whole run"
)

// plan returns the faults in the order in which they are injected: half of them kills.
func plan(n int) []fault {
	mix := []fault{killed, stopped, killed, rivalled, killed, crashed, killed, stopped, killed, rivalled}
	out := make([]fault, n)
	for i := range out {
		out[i] = mix[i%len(mix)]
	}
	if n > 0 {
		out[n/2] = abandoned
	}
	return out
}

// inject injects all faults, each in a session without another one, or into the server. It returns
// when all have passed.
func (r *run) inject(ctx context.Context) error {
	var running sync.WaitGroup
	slots := make(chan struct{}, max(1, len(r.readers)/2)) // the others work
	for i, f := range plan(r.faults) {
		if err := r.reached(ctx, i); err != nil {
			return err
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := r.strike(ctx, f); err != nil {
				r.fail(fmt.Errorf("%s: %w", f, err))
			}
		})
		r.struck.Add(1)
	}
	running.Wait()
	return context.Cause(ctx)
}

// reached waits until a share of the messages was processed, and for a random moment.
func (r *run) reached(ctx context.Context, fault int) error {
	for {
		n, err := processed(ctx, r.db)
		if err == nil && n*(r.faults+2) >= r.messages*fault {
			break
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	select {
	case <-time.After(rand.N(20 * time.Millisecond)): //nolint:gosec // chance is all that is asked for
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// strike injects one fault, and notes how long it took until the work went on.
func (r *run) strike(ctx context.Context, f fault) error {
	do := func(ctx context.Context) (time.Duration, error) { return r.disturb(ctx, f) }
	if f == crashed {
		do = r.crash
	}
	took, err := do(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.took[f] = append(r.result.took[f], took)
	return err
}

func (r *run) crash(ctx context.Context) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := time.Now()
	r.server.process.kill()
	err := r.server.start(ctx)
	return time.Since(began), err
}

// disturb injects a fault into a session that has none at the time.
func (r *run) disturb(ctx context.Context, f fault) (time.Duration, error) {
	s := r.choose()
	defer s.mu.Unlock()
	switch f {
	case killed:
		return s.crash(ctx)
	case stopped:
		return s.stall(ctx)
	case rivalled:
		return s.rival(ctx)
	default:
		return s.retire(ctx)
	}
}

// choose locks a session at random.
func (r *run) choose() *reader {
	for {
		for _, i := range rand.Perm(len(r.readers)) { //nolint:gosec // chance is all that is asked for
			if s := r.readers[i]; s.mu.TryLock() {
				if !s.retired {
					return s
				}
				s.mu.Unlock()
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// retire kills the consumer, and gives its unread entries to the other sessions. An operator does
// so with once session retire.
func (s *reader) retire(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	s.process.kill()
	session, err := s.run.client.OpenSession(ctx, client.SessionOptions{Stream: stream, Name: s.name, Holder: "operator", Take: client.TakeNow})
	if err != nil {
		return 0, err
	}
	cursor, err := tableOf(s.run.db, s.run.source).Open(ctx, session.Opened())
	if err != nil {
		return 0, err
	}
	s.retired = true
	number := cursor.Number()
	err = session.Retire(ctx, &number)
	return time.Since(began), err
}
