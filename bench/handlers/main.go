// Command handlers measures how fast the embedded system processes messages with a handler over
// loopback HTTP, beside bare POSTs of the same document to the same server, and beside the same
// messages with the handler in Go. The handler answers immediately.
//
// A call of the engine counts when its commit is on disk. That is the way of a message that is
// processed without the queue, from its acceptance on. The second table is the way through the
// queue: from accepted messages to the empty queue.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/effectively-once/once/bench/table"
)

func main() {
	o := options{warm: 1}
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; each measures every subject in turn")
	flag.DurationVar(&o.each, "duration", 2*time.Second, "how long a subject works in a round")
	flag.IntVar(&o.queued, "queued", 20_000, "messages that wait on the queue, for each subject and round; 0 leaves the queue out")
	profile := flag.String("cpuprofile", "", "write a CPU profile of everything to this file")
	flag.Parse()
	stop, err := profiling(*profile)
	if err == nil {
		err = errors.Join(measure(context.Background(), o, os.Stdout), stop())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func profiling(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path) //nolint:gosec // the user's choice
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() error { pprof.StopCPUProfile(); return file.Close() }, nil
}

type options struct {
	warm   int // rounds without the queue that do not count
	rounds int
	each   time.Duration
	queued int
}

// shapes are what is measured: messages alone in groups of their own, and batches of one group. The
// callers of batches are 16 groups.
func shapes() []shape {
	return []shape{
		{name: "one message a group, 64 callers", callers: 64, size: 1, fresh: true},
		{name: "batches of 100 of one group, 16 callers", callers: 16, size: 100},
	}
}

// A figure is the rate in messages a second, and the CPU time of a message in microseconds: that of
// the whole process, with the server of the handler and the clients.
type figure struct{ rate, cpu float64 }

// A round has the figures of one round, and the messages of a call.
type round struct {
	remote, local, bare figure
	calls               float64
}

func measure(ctx context.Context, o options, out io.Writer) error {
	head := []string{"", "messages/s", "bare POST beside it", "handler in Go beside it", "messages a call", "CPU, µs", "bare POST", "handler in Go"}
	processed := table.Table{Head: slices.Concat([]string{"without the queue"}, head[1:])}
	queued := table.Table{Head: slices.Concat([]string{"from the queue"}, head[1:])}
	for _, x := range shapes() {
		for range o.warm {
			if _, err := direct(ctx, x, o.each/4); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
		var withoutQueue, fromQueue []round
		for range o.rounds {
			r, err := direct(ctx, x, o.each)
			if err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
			withoutQueue = append(withoutQueue, r)
			if o.queued == 0 {
				continue
			}
			q, err := throughQueue(ctx, x, o.queued)
			if err != nil {
				return fmt.Errorf("%s, from the queue: %w", x.name, err)
			}
			q.bare = r.bare
			fromQueue = append(fromQueue, q)
		}
		processed.Rows = append(processed.Rows, row(x, withoutQueue))
		if o.queued > 0 {
			queued.Rows = append(queued.Rows, row(x, fromQueue))
		}
	}
	if err := processed.Write(out); err != nil || o.queued == 0 {
		return err
	}
	return queued.Write(out)
}

// direct measures the three subjects of a shape in turn.
func direct(ctx context.Context, x shape, each time.Duration) (r round, err error) {
	s, err := open()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if r.bare, err = timed(func() (int, error) { return s.bare(ctx, x, each) }); err != nil {
		return r, err
	}
	calls, handled := s.server.calls.Load(), s.server.handled.Load()
	if r.remote, err = timed(func() (int, error) { return s.process(ctx, x, remote, each) }); err != nil {
		return r, err
	}
	r.calls = float64(s.server.handled.Load()-handled) / float64(s.server.calls.Load()-calls)
	r.local, err = timed(func() (int, error) { return s.process(ctx, x, local, each) })
	return r, err
}

// throughQueue measures the two handlers in turn, each on a folder of its own.
func throughQueue(ctx context.Context, x shape, n int) (r round, err error) {
	for stream, to := range map[string]*figure{remote: &r.remote, local: &r.local} {
		s, err := open()
		if err != nil {
			return r, err
		}
		if err = s.fill(ctx, x, stream, n); err == nil {
			*to, err = timed(func() (int, error) { return n, s.drain(ctx, n) })
		}
		if err = errors.Join(err, s.close()); err != nil {
			return r, err
		}
		if stream == remote {
			r.calls = float64(s.server.handled.Load()) / float64(s.server.calls.Load())
		}
	}
	return r, nil
}

// timed returns the figures of the messages that run processes.
func timed(run func() (int, error)) (figure, error) {
	before, start := usedCPU(), time.Now()
	n, err := run()
	took, cpu := time.Since(start), usedCPU()-before
	return figure{rate: float64(n) / took.Seconds(), cpu: float64(cpu.Nanoseconds()) / 1e3 / float64(max(n, 1))}, err
}

// usedCPU returns the CPU time of this process, user and kernel.
func usedCPU() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // it never fails with these arguments
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// row returns the medians of a shape and their ranges. The ratios are those of single rounds.
func row(x shape, rounds []round) []string {
	return []string{
		x.name,
		spread(rounds, 0, func(r round) float64 { return r.remote.rate }),
		spread(rounds, 2, func(r round) float64 { return r.bare.rate / r.remote.rate }),
		spread(rounds, 2, func(r round) float64 { return r.local.rate / r.remote.rate }),
		spread(rounds, 0, func(r round) float64 { return r.calls }),
		spread(rounds, 1, func(r round) float64 { return r.remote.cpu }),
		spread(rounds, 1, func(r round) float64 { return r.bare.cpu }),
		spread(rounds, 1, func(r round) float64 { return r.local.cpu }),
	}
}

func spread(rounds []round, digits int, of func(round) float64) string {
	var all []float64
	for _, r := range rounds {
		all = append(all, of(r))
	}
	s := table.SpreadOf(all)
	text := func(x float64) string { return strconv.FormatFloat(x, 'f', digits, 64) }
	return text(s.Median) + " (" + text(s.Low) + "–" + text(s.High) + ")"
}

// hammer calls do from several goroutines for a time. do gets the caller and the number of its
// call, and returns how many messages it processed.
func hammer(ctx context.Context, callers int, d time.Duration, do func(ctx context.Context, caller, i int) (int, error)) (int, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	start := time.Now()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := 0; (i == 0 || time.Since(start) < d) && failed.Load() == nil; i++ {
				n, err := do(ctx, caller, i)
				if err != nil {
					failed.Store(&err)
				}
				done.Add(int64(n))
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return int(done.Load()), ctx.Err()
}
