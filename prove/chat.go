package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A simulation has the figures of a run of the room: values that 50, 95 and 99 percent of the
// measurements do not exceed, and the largest ones. See Figures in examples/chat/room.
type simulation struct {
	seed                                  string
	Lines                                 int
	Took                                  time.Duration
	Own, Others                           spread[time.Duration]
	Outbox, Queued, Held, Pending, Stored spread[int]
}

type spread[T int | time.Duration] struct{ P50, P95, P99, Max T }

var simulated = regexp.MustCompile(`simulation_test\.go:\d+: figures: (\{.*\}) <nil>`)

// chatChunk is how many seeds one process simulates, one after the other.
const chatChunk = 5

// A chatRun is a run of many simulations.
type chatRun struct {
	root         string
	seeds, lines int

	mu   sync.Mutex
	runs []simulation
	used time.Duration // of the processors
}

// chat runs the simulation of a room in five regions with many seeds, and prints the figures of
// each run. A simulation has one thread, so there is a process for each CPU.
func chat(ctx context.Context, o options) error {
	c := &chatRun{root: o.root, seeds: 20, lines: 10_000}
	if o.long {
		c.seeds = 1000
	}
	all, inner := errgroup.WithContext(ctx)
	all.SetLimit(runtime.NumCPU())
	for first := 1; first <= c.seeds && inner.Err() == nil; first += chatChunk {
		all.Go(func() error { return c.simulate(inner, first, min(chatChunk, c.seeds-first+1)) })
	}
	if err := errors.Join(all.Wait(), ctx.Err()); err != nil {
		return err
	}
	if len(c.runs) != c.seeds {
		return fmt.Errorf("%d of %d simulations reported their figures", len(c.runs), c.seeds)
	}
	summarize(os.Stdout, c.runs)
	fmt.Printf("  %d runs of %d lines, 0 violations; %.1f s of processor time each\n", c.seeds, c.lines, c.used.Seconds()/float64(c.seeds))
	return nil
}

// simulate runs the simulations of some seeds, and prints the figures of each.
func (c *chatRun) simulate(ctx context.Context, first, seeds int) error {
	found, used, err := simulateRoom(ctx, c.root, first, seeds, c.lines)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range found {
		found[i].print()
	}
	c.runs, c.used = append(c.runs, found...), c.used+used
	return err
}

// simulateRoom runs the simulations of some seeds.
func simulateRoom(ctx context.Context, root string, first, seeds, lines int) (found []simulation, cpu time.Duration, err error) {
	args := []string{"-C", "examples", "test", "-count=1", "-v", "-json", "-timeout=24h", "-cpu=1", "-parallel=1", "-run=^TestEveryRegionShowsEachLineOnceAndInOneOrder$", "./chat/room", "-args"}
	args = append(args, "-first", strconv.Itoa(first), "-seeds", strconv.Itoa(seeds), "-lines", strconv.Itoa(lines))
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr, cmd.Env = root, os.Stderr, append(os.Environ(), "GOGC=800")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	var rest strings.Builder
	bad := eachEvent(out, func(e event) {
		_, seed, _ := strings.Cut(e.Test, "/")
		if f := simulated.FindStringSubmatch(e.Output); f != nil {
			run := simulation{seed: seed}
			if json.Unmarshal([]byte(f[1]), &run) == nil {
				found = append(found, run)
			}
		} else if e.Action == "output" {
			rest.WriteString(e.Output)
		}
	})
	if err := errors.Join(cmd.Wait(), bad); err != nil {
		return found, 0, fmt.Errorf("seeds %d to %d: %w\n%s", first, first+seeds-1, err, rest.String())
	}
	return found, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

func (s *simulation) print() {
	fmt.Printf("  %-10s %d lines in %s; 99 %% and most: to the own screen %s, %s; to the others %s, %s; at most %d in an outbox, %d queued, %d held, %d pending of %d bytes\n",
		s.seed, s.Lines, s.Took, ms(s.Own.P99), ms(s.Own.Max), ms(s.Others.P99), ms(s.Others.Max), s.Outbox.Max, s.Queued.Max, s.Held.Max, s.Pending.Max, s.Stored.Max)
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// summarize prints the percentiles of the median run, and of the worst one in each column.
func summarize(w io.Writer, runs []simulation) {
	_, _ = fmt.Fprintf(w, "\n  %-32s %35s   %s\n", "50 % / 95 % / 99 % / most", "median of the runs", "worst run")
	for _, row := range []struct {
		what string
		of   func(*simulation) spread[time.Duration]
	}{
		{"from writing to the own screen", func(s *simulation) spread[time.Duration] { return s.Own }},
		{"from writing to the other ones", func(s *simulation) spread[time.Duration] { return s.Others }},
	} {
		median, worst := across(runs, row.of)
		_, _ = fmt.Fprintf(w, "  %-32s %35s   %s\n", row.what, durations(median), durations(worst))
	}
	for _, row := range []struct {
		what string
		of   func(*simulation) spread[int]
	}{
		{"lines in an outbox", func(s *simulation) spread[int] { return s.Outbox }},
		{"messages on a queue", func(s *simulation) spread[int] { return s.Queued }},
		{"held messages of a room", func(s *simulation) spread[int] { return s.Held }},
		{"pending effects of a room", func(s *simulation) spread[int] { return s.Pending }},
		{"their bytes", func(s *simulation) spread[int] { return s.Stored }},
	} {
		median, worst := across(runs, row.of)
		_, _ = fmt.Fprintf(w, "  %-32s %35s   %s\n", row.what, counts(median), counts(worst))
	}
	_, _ = fmt.Fprintln(w)
}

// across returns the median and the largest value of each percentile.
func across[T int | time.Duration](runs []simulation, of func(*simulation) spread[T]) (median, worst spread[T]) {
	column := func(get func(spread[T]) T) (T, T) {
		list := make([]T, len(runs))
		for i := range runs {
			list[i] = get(of(&runs[i]))
		}
		slices.Sort(list)
		return list[len(list)/2], list[len(list)-1]
	}
	median.P50, worst.P50 = column(func(s spread[T]) T { return s.P50 })
	median.P95, worst.P95 = column(func(s spread[T]) T { return s.P95 })
	median.P99, worst.P99 = column(func(s spread[T]) T { return s.P99 })
	median.Max, worst.Max = column(func(s spread[T]) T { return s.Max })
	return median, worst
}

func durations(s spread[time.Duration]) string {
	return fmt.Sprintf("%s / %s / %s / %s", ms(s.P50), ms(s.P95), ms(s.P99), ms(s.Max))
}

func counts(s spread[int]) string {
	return fmt.Sprintf("%d / %d / %d / %d", s.P50, s.P95, s.P99, s.Max)
}
