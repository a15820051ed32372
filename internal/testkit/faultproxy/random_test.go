package faultproxy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/faultproxy"
)

const (
	workers = 4
	rounds  = 500
)

// ask sends messages of all three admissions, most of them twice and numbered ones out of order,
// through the queues and by Call.
func (w *world) ask(ctx context.Context, rnd *rand.Rand) error {
	var queued, issued, called []record.Message
	for n := range uint64(3) {
		for _, group := range []string{"g", "h"} {
			queued = append(queued, w.message("keyed", group, n+1), w.message("numbered", group, n+1))
			issued = append(issued, w.message("issued", group, n+1))
			called = append(called, w.message("keyed", group, n+4))
		}
	}
	queued = append(queued, queued...)
	rnd.Shuffle(len(queued), func(i, j int) { queued[i], queued[j] = queued[j], queued[i] })
	var all errgroup.Group
	for _, m := range queued {
		all.Go(func() error { return w.Queues.Enqueue(ctx, m) })
	}
	for _, m := range append(issued, issued...) {
		all.Go(func() error { return w.accept(ctx, m) })
	}
	for _, m := range called {
		all.Go(func() error { return w.call(ctx, m) })
	}
	return all.Wait()
}

// work lets several workers serve the queues concurrently until the queues are empty. Sometimes two
// workers have the same messages.
func (w *world) work(ctx context.Context, rnd *rand.Rand) error {
	for range rounds {
		var all sync.WaitGroup
		for range workers {
			from, n, twice := w.feeds(w.Pipeline)[rnd.IntN(4)], 1+rnd.IntN(5), rnd.IntN(4) == 0
			batch, _ := from.from.Receive(ctx, n, 0, 0)
			if twice {
				batch = from.from.again(n)
			}
			if len(batch) > 0 {
				all.Go(func() { w.deliver(ctx, from.from, batch, from.to) })
			}
		}
		all.Wait()
		if rnd.IntN(20) == 0 {
			w.publish.pass()
		}
		if w.ingress.len()+w.ingressFIFO.len()+w.publishFIFO.len()+w.publish.len() == 0 {
			return nil
		}
	}
	return errStuck
}

// simulate plays one seed: faults for a share of the first calls, then none.
func simulate(ctx context.Context, on *service, seed uint64) (int, error) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	w, err := on.open(1 + int(seed%3))
	if err != nil {
		return 0, err
	}
	w.plan = faultproxy.Seeded(seed, 0.2, 150)
	ctx, cancel := context.WithTimeout(ctx, playLimit)
	defer cancel()
	if err = w.ask(ctx, rnd); err == nil {
		err = w.work(ctx, rnd)
	}
	w.close()
	calls := len(w.proxy.Calls())
	if err != nil {
		return calls, err
	}
	if problems := w.wrong(ctx); len(problems) > 0 {
		return calls, fmt.Errorf("%q", problems)
	}
	return calls, nil
}

func TestRandomFaultsLoseDoubleOrBlockNoMessage(t *testing.T) {
	on := newService(t)
	seeds := 24
	switch {
	case *long:
		seeds *= 100
	case testing.Short():
		seeds /= 4
	}
	var calls atomic.Int64
	err := together(t.Context(), seeds, func(ctx context.Context, seed int) error {
		n, err := simulate(ctx, on, uint64(seed))
		if err != nil {
			return fmt.Errorf("seed %d, %d calls: %w", seed, n, err)
		}
		calls.Add(int64(n))
		return nil
	})
	t.Logf("%d plays, %d calls", seeds, calls.Load())
	if err != nil {
		t.Error(err)
	}
}
