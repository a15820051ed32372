package faultproxy_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/faultproxy"
	"github.com/effectively-once/once/internal/record"
)

var long = flag.Bool("long", false, "also play every two faults, and ten times as many seeds")

// A scenario is work that must come out the same whatever happens to its calls.
type scenario struct {
	name string
	play func(ctx context.Context, w *world) error
}

func scenarios() []scenario {
	return []scenario{
		{"key", func(ctx context.Context, w *world) error {
			a, b, c, d := w.message("keyed", "g", 1), w.message("keyed", "g", 2), w.message("keyed", "h", 3), w.message("keyed", "g", 4)
			return w.steps(ctx, []record.Message{a, d, c, a}, []record.Message{b, d})
		}},
		{"token", func(ctx context.Context, w *world) error {
			m := w.message("issued", "g", 1)
			for range 2 { // the second time after the first has been done
				if err := w.accept(ctx, m); err != nil {
					return err
				}
				if err := w.serve(ctx); err != nil {
					return err
				}
			}
			return nil
		}},
		{"sequence, hold and drain", func(ctx context.Context, w *world) error {
			m := func(n uint64) record.Message { return w.message("numbered", "g", n) }
			return w.steps(ctx, []record.Message{m(3)}, []record.Message{m(2), m(3)}, []record.Message{m(1)}, []record.Message{m(2)})
		}},
		{"straight through", func(ctx context.Context, w *world) error {
			m := w.message("keyed", "g", 1)
			if err := w.call(ctx, m); err != nil {
				return err
			}
			if err := w.serve(ctx); err != nil {
				return err
			}
			return w.call(ctx, m)
		}},
	}
}

// steps enqueues messages and serves the queues, step by step.
func (w *world) steps(ctx context.Context, batches ...[]record.Message) error {
	for _, batch := range batches {
		for _, m := range batch {
			if err := w.Queues.Enqueue(ctx, m); err != nil {
				return err
			}
		}
		if err := w.serve(ctx); err != nil {
			return err
		}
	}
	return nil
}

// through plays a scenario with faults to its end, and tells how many calls it made.
func (s scenario) through(ctx context.Context, on *service, plan faultproxy.Plan, attempts int) (calls []faultproxy.Call, err error) {
	w, err := on.open(plan, attempts)
	if err != nil {
		return nil, err
	}
	err = s.play(ctx, w)
	w.close()
	calls = w.proxy.Calls()
	if err != nil {
		return calls, err
	}
	if problems := w.wrong(ctx); len(problems) > 0 {
		return calls, fmt.Errorf("%q", problems)
	}
	return calls, nil
}

// at once: most of the time goes by in waiting for clients that give up.
const atOnce = 12

func TestWhateverHappensToOneCallNothingIsLostDoubledOrStuck(t *testing.T) {
	on := newService(t)
	for _, s := range scenarios() {
		for _, attempts := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d attempts", s.name, attempts), func(t *testing.T) {
				calls, err := s.through(t.Context(), on, faultproxy.Healthy, attempts)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d calls: %v", len(calls), calls)
				var all errgroup.Group
				all.SetLimit(atOnce)
				for n := range uint64(len(calls)) {
					for _, fault := range faultproxy.Faults() {
						all.Go(func() error {
							if _, err := s.through(t.Context(), on, faultproxy.At(map[uint64]faultproxy.Fault{n + 1: fault}), attempts); err != nil {
								t.Errorf("%s at call %d, %s: %v", fault, n+1, calls[n].Operation, err)
							}
							return nil
						})
					}
				}
				_ = all.Wait() // its functions fail by themselves
			})
		}
	}
}
