package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

func pool(t *testing.T, o PoolOptions) *Pool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool(self, o)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// A signal is an io.Writer that closes a channel after the first write.
type signal chan struct{}

func (s signal) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("begun")) {
		s <- struct{}{}
	}
	return len(p), nil
}

func TestAKilledProcessFailsItsInvocationAndNoOther(t *testing.T) {
	begun := make(signal)
	p := pool(t, PoolOptions{Options: Options{Timeout: time.Minute, Output: begun}})
	if p.Kill() {
		t.Error("there is nothing to kill yet")
	}
	failed := make(chan error, 1)
	go func() {
		_, err := p.Invoke(context.WithoutCancel(t.Context()), []byte(`"begun"`))
		failed <- err
	}()
	<-begun
	if !p.Kill() {
		t.Fatal("nothing was killed")
	}
	if err := <-failed; !errors.Is(err, ErrExited) {
		t.Errorf("got %v, want %v", err, ErrExited)
	}
	before, err := p.Invoke(t.Context(), []byte(`"pid"`))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Kill() {
		t.Fatal("nothing was killed")
	}
	after, err := p.Invoke(t.Context(), []byte(`"pid"`))
	if err != nil || bytes.Equal(before, after) {
		t.Errorf("process %s was killed while it was idle; then %s, %v", before, after, err)
	}
}

func TestAPoolHasAProcessForEachConcurrentInvocationUpToItsLimit(t *testing.T) {
	begun := make(signal)
	p := pool(t, PoolOptions{Options: Options{Timeout: time.Minute, Output: begun}, Limit: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for range 2 {
		busy.Go(func() { _, _ = p.Invoke(ctx, []byte(`"begun"`)) })
	}
	<-begun
	<-begun
	limited, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.Invoke(limited, []byte(`"pid"`)); !errors.Is(err, context.Canceled) {
		t.Errorf("a third invocation: %v, want that it waits", err)
	}
	cancel()
	busy.Wait()
	if _, err := p.Invoke(t.Context(), []byte(`"pid"`)); err != nil {
		t.Error(err)
	}
}

func TestAHangingInvocationEndsWithItsTimeout(t *testing.T) {
	hangs := []bool{true, false}
	p := pool(t, PoolOptions{
		Options: Options{Timeout: time.Millisecond}, Limit: 1,
		Hang: func() (time.Duration, bool) {
			defer func() { hangs = hangs[1:] }()
			return 0, hangs[0]
		},
	})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Invoke(t.Context(), []byte(`"hang"`)); !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrExited) {
		t.Errorf("got %v, want %v", err, ErrTimeout)
	}
	p.all[0].options.Timeout = time.Minute
	if _, err := p.Invoke(t.Context(), []byte(`"pid"`)); err != nil {
		t.Error(err)
	}
}

func TestAChosenInvocationLosesItsProcessOrItsResponse(t *testing.T) {
	for name, after := range map[string]time.Duration{"during it": 0, "after it": time.Hour} {
		t.Run(name, func(t *testing.T) {
			kills := []bool{false, true, false}
			p := pool(t, PoolOptions{
				Options: Options{Timeout: time.Minute}, Limit: 1,
				Kill: func() (time.Duration, bool) {
					defer func() { kills = kills[1:] }()
					return after, kills[0]
				},
			})
			before, err := p.Invoke(t.Context(), []byte(`"pid"`))
			if err != nil {
				t.Fatal(err)
			}
			event := `"pid"`
			if after == 0 {
				event = `"hang"`
			}
			if answer, err := p.Invoke(t.Context(), []byte(event)); !errors.Is(err, ErrExited) {
				t.Errorf("got %s, %v, want %v", answer, err, ErrExited)
			}
			if pid, err := p.Invoke(t.Context(), []byte(`"pid"`)); err != nil || bytes.Equal(pid, before) {
				t.Errorf("process %s was killed, and %s answers, %v", before, pid, err)
			}
		})
	}
}

func TestABootstrapThatEndsAtItsStartIsAnError(t *testing.T) {
	path := t.TempDir() + "/bootstrap"
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := New(path, Options{}).Start(t.Context()); !errors.Is(err, ErrExited) {
		t.Errorf("got %v, want %v", err, ErrExited)
	}
}

// A shelf is a queue that returns one batch, and records the receipts that are deleted.
type shelf struct {
	queue.Queue
	batch chan []queue.Delivery

	mu      sync.Mutex
	deleted []string
}

func (s *shelf) Name() string { return "shelf" }

func (s *shelf) Receive(ctx context.Context, _ int, _, _ time.Duration) ([]queue.Delivery, error) {
	select {
	case b := <-s.batch:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *shelf) Delete(_ context.Context, receipts []string) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, receipts...)
	return make([]error, len(receipts))
}

func TestADuplicateDeliveryIsSettledByEitherInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{batch: make(chan []queue.Delivery, 1)}
		s.batch <- []queue.Delivery{{ID: "a", Receipt: "ra"}, {ID: "b", Receipt: "rb"}}
		var mu sync.Mutex
		var times []time.Duration
		began := time.Now()
		// the first run fails, so it deletes no message
		answers := []error{errors.New("killed"), nil}
		ctx, cancel := context.WithCancel(t.Context())
		source := Source{Queue: s, Visibility: time.Minute, Again: func(batch []queue.Delivery) ([]queue.Delivery, time.Duration) { return batch[1:], time.Second }}
		done := make(chan struct{})
		go func() {
			defer close(done)
			source.Poll(ctx, func(context.Context, []byte) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				times = append(times, time.Since(began))
				err := answers[0]
				answers = answers[1:]
				return nil, err
			})
		}()
		time.Sleep(2 * time.Second)
		cancel()
		<-done
		if d := cmp.Diff([]time.Duration{0, time.Second}, times); d != "" {
			t.Errorf("times of the invocations (-want +got):\n%s", d)
		}
		if !slices.Equal(s.deleted, []string{"rb"}) {
			t.Errorf("deleted %v, want what the second invocation settled", s.deleted)
		}
	})
}

func TestABatchInFlightAtTheEndIsFinished(t *testing.T) {
	s := &shelf{batch: make(chan []queue.Delivery, 1)}
	s.batch <- []queue.Delivery{{ID: "a", Receipt: "ra"}}
	ctx, cancel := context.WithCancel(t.Context())
	Source{Queue: s, Visibility: time.Minute}.Poll(ctx, func(ctx context.Context, _ []byte) ([]byte, error) {
		cancel()
		return nil, ctx.Err()
	})
	if !slices.Equal(s.deleted, []string{"ra"}) {
		t.Errorf("deleted %v", s.deleted)
	}
}
