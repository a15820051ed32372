package faultproxy_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/faultproxy"
)

var long = flag.Bool("long", false, "play all of every two faults, not a twentieth of them, and a hundred times as many seeds; it takes up to half an hour: give it -timeout 2h")

// part is one of n parts of the variants, drawn at random; in short mode a quarter of that.
func part(all []variant, n int) []variant {
	if testing.Short() {
		n *= 4
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:(len(all)+n-1)/n]
}

// A scenario is work that must have the same result whichever of its calls fail.
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
			for range 2 { // the second time when the first is done
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

// through plays a scenario with a plan made for its world, to its end, and returns its calls.
func (s scenario) through(ctx context.Context, on *service, attempts int, plan planner) (calls []faultproxy.Call, err error) {
	w, err := on.open(attempts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, playLimit)
	defer cancel()
	w.plan = plan(ctx, w)
	if err = s.play(ctx, w); err == nil {
		err = w.serve(ctx) // finishes the work that the last call left
	}
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

// A planner makes the plan of one play. The context limits the time of the play.
type planner func(context.Context, *world) faultproxy.Plan

// A variant is one way to play a scenario.
type variant struct {
	name string
	plan planner
}

func only(bad map[uint64]faultproxy.Fault) planner {
	return func(context.Context, *world) faultproxy.Plan { return faultproxy.At(bad) }
}

// single is one fault at one call.
func single(calls []faultproxy.Call) []variant {
	var out []variant
	for _, c := range calls {
		for _, fault := range faultproxy.Faults() {
			out = append(out, variant{fmt.Sprintf("%s at %v", fault, c), only(map[uint64]faultproxy.Fault{c.N: fault})})
		}
	}
	return out
}

// double is two faults at any two calls, of the three kinds that differ most.
func double(calls []faultproxy.Call) []variant {
	var out []variant
	kinds := []faultproxy.Fault{faultproxy.Refused, faultproxy.Dropped, faultproxy.Late}
	for i, first := range calls {
		for n := first.N + 1; n < uint64(len(calls)-i)+first.N+2; n++ { // the first may add calls
			for _, a := range kinds {
				for _, b := range kinds {
					out = append(out, variant{fmt.Sprintf("%s at %v, %s at %d", a, first, b, n), only(map[uint64]faultproxy.Fault{first.N: a, n: b})})
				}
			}
		}
	}
	return out
}

// overtaken is a fault at one call, or none, and another worker that runs before the next call. If
// the call is retried, the other worker runs between the two tries.
func overtaken(calls []faultproxy.Call) []variant {
	var out []variant
	for _, c := range calls {
		for _, fault := range []faultproxy.Fault{faultproxy.None, faultproxy.ResetBefore, faultproxy.Dropped, faultproxy.Late} {
			for name, act := range map[string]func(*world, context.Context){"twin": (*world).twin, "rival": (*world).rival} {
				out = append(out, variant{fmt.Sprintf("%s at %v, and then a %s", fault, c, name), func(ctx context.Context, w *world) faultproxy.Plan {
					return func(now faultproxy.Call) faultproxy.Fault {
						switch now.N {
						case c.N:
							return fault
						case c.N + 1:
							act(w, ctx)
						}
						return faultproxy.None
					}
				}})
			}
		}
	}
	return out
}

// atOnce is the number of concurrent plays.
const atOnce = 6

// playLimit is far longer than a play takes on a busy machine. The context of a play ends with it,
// so a play that continues for twice that time hangs.
const playLimit = time.Minute

// watched prints the stacks of all goroutines and ends the tests if a play hangs.
func watched(play func(ctx context.Context, i int) error) func(ctx context.Context, i int) error {
	return func(ctx context.Context, i int) error {
		defer time.AfterFunc(2*playLimit, func() {
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) // the panic follows in any case
			panic(fmt.Sprintf("play %d hangs", i))
		}).Stop()
		return play(ctx, i)
	}
}

// together makes n plays, some of them concurrently, and stops at the first failure, because the
// others would mostly fail in the same way.
func together(ctx context.Context, n int, play func(ctx context.Context, i int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	play = watched(play)
	for i := range n {
		all.Go(func() error {
			select {
			case <-ctx.Done():
				return nil
			default:
				return play(ctx, i)
			}
		})
	}
	return all.Wait()
}

// each plays every scenario in all variants, with a client that tries each call once and with one
// that tries three times.
func each(t *testing.T, variants func([]faultproxy.Call) []variant) {
	t.Helper()
	on := newService(t)
	for _, s := range scenarios() {
		for _, attempts := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d attempts", s.name, attempts), func(t *testing.T) {
				calls, err := s.through(t.Context(), on, attempts, only(nil))
				if err != nil {
					t.Fatal(err)
				}
				all := variants(calls)
				t.Logf("%d calls, %d plays", len(calls), len(all))
				err = together(t.Context(), len(all), func(ctx context.Context, i int) error {
					if _, err := s.through(ctx, on, attempts, all[i].plan); err != nil {
						return fmt.Errorf("%s: %w", all[i].name, err)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			if t.Failed() {
				return
			}
		}
	}
}

func TestNoFaultOfOneCallLosesDoublesOrBlocksAMessage(t *testing.T) {
	each(t, func(calls []faultproxy.Call) []variant { return part(single(calls), 1) })
}

func TestAnotherWorkerBetweenTwoTriesLosesDoublesOrBlocksNoMessage(t *testing.T) {
	each(t, func(calls []faultproxy.Call) []variant { return part(overtaken(calls), 1) })
}

func TestNoFaultsOfTwoCallsLoseDoubleOrBlockAMessage(t *testing.T) {
	each(t, func(calls []faultproxy.Call) []variant {
		if *long {
			return double(calls)
		}
		return part(double(calls), 20)
	})
}
