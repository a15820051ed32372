package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/explore"
)

// shortBound is about how many states of a scenario the short form visits at most; the long form has no bounds but the scenarios' own.
const shortBound = 2_500_000

func exploreAll(ctx context.Context, o options) error {
	scenarios, err := explore.Load(os.DirFS(filepath.Join(o.root, "internal/explore/testdata/scenarios")), "*")
	if err != nil {
		return err
	}
	fmt.Printf("  %-28s %10s %11s %6s %7s  %s\n", "scenario", "states", "steps", "depth", "time", "")
	var mu sync.Mutex
	states, steps, violations := 0, 0, 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range scenarios {
		if !o.long {
			s.Bound = shortBound
		}
		group.Go(func() error {
			begin := time.Now()
			r, err := explore.Explore(ctx, s)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			states, steps = states+r.States, steps+r.Steps
			end := "exhausted"
			if !r.Exhausted {
				end = fmt.Sprintf("to its bound, depth %d", r.Depth)
			}
			if r.Violation != nil {
				violations++
				end = fmt.Sprintf("VIOLATION: %s, after\n    %s", r.Violation.Wrong, strings.Join(r.Violation.Trace, "\n    "))
			}
			fmt.Printf("  %-28s %10d %11d %6d %6.1fs  %s\n", r.Scenario, r.States, r.Steps, r.Depth, time.Since(begin).Seconds(), end)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("  %d scenarios, %d distinct states, %d steps, %d violations\n", len(scenarios), states, steps, violations)
	if violations > 0 {
		return fmt.Errorf("%d violations", violations)
	}
	return nil
}
