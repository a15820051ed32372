package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/prove/explore"
	"github.com/effectively-once/once/prove/explore/mistakes"
	"github.com/effectively-once/once/prove/explore/sessions"
)

// smallBound is about how many states of a scenario with a small limit are visited in the short
// form. Other explorations end as their scenario says, or when there are no more states.
const smallBound = 100_000

// shortBound is about how many states of a scenario are visited with -short.
const shortBound = 300_000

func exploreAll(ctx context.Context, o options) error {
	scenarios, err := explore.Load(os.DirFS(filepath.Join(o.root, "prove/explore/testdata/scenarios")), "*")
	if err != nil {
		return err
	}
	small, err := mistakes.LoadSmall(os.DirFS(filepath.Join(o.root, "prove/explore/testdata")), "small.yaml")
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "small")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	joint, err := mistakes.JoinSmall(ctx, o.root, folder, small)
	if err != nil {
		return err
	}
	fmt.Printf("  %-28s %10s %11s %6s %7s  %s\n", "scenario", "states", "steps", "depth", "time", "")
	var found tally
	debug.SetGCPercent(300) // a search keeps its states, so a collection frees little
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range scenarios {
		group.Go(func() error { return exploreOne(ctx, o, s, &found) })
	}
	for _, s := range sessions.Scenarios() {
		group.Go(func() error { return exploreSessions(ctx, o, &s, &found) })
	}
	for i, s := range small {
		group.Go(func() error { return exploreSmall(ctx, o, s, joint, i, &found) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if len(scenarios) == 0 || len(small) == 0 {
		return errors.New("no explorations found")
	}
	fmt.Printf("  %d explorations of %d scenarios, %d distinct states, %d steps, %d violations\n", found.explorations, len(scenarios)+len(sessions.Scenarios()), found.states, found.steps, found.violations)
	if found.violations > 0 {
		return fmt.Errorf("%d violations", found.violations)
	}
	return nil
}

func exploreOne(ctx context.Context, o options, s *explore.Scenario, found *tally) error {
	begin := time.Now()
	if o.short {
		s.Bound = shortBound
	}
	r, err := explore.Explore(ctx, s)
	if err != nil {
		return err
	}
	if r.Violation == nil && !bounded(o, r.States) && (!r.Exhausted || r.Ends == 0) {
		return fmt.Errorf("%s: exhausted is %v, with %d ends: the exploration is incomplete", s.Name, r.Exhausted, r.Ends)
	}
	found.add(r, fmt.Sprintf("%6.1fs", time.Since(begin).Seconds()), "")
	return nil
}

// bounded reports whether an exploration may have ended because of its states.
func bounded(o options, states int) bool { return o.short && states >= shortBound }

func exploreSessions(ctx context.Context, o options, s *sessions.Scenario, found *tally) error {
	begin := time.Now()
	if o.short {
		s.Bound = shortBound
	}
	r := sessions.Explore(ctx, s)
	if r.Wrong == "" && !r.Exhausted && !bounded(o, r.States) {
		return fmt.Errorf("sessions %s: the exploration is incomplete", s.Name)
	}
	all := explore.Result{Scenario: "sessions " + s.Name, States: r.States, Steps: r.Steps, Depth: r.Depth, Exhausted: r.Exhausted}
	if r.Wrong != "" {
		all.Violation = &explore.Violation{Wrong: r.Wrong, Trace: r.Trace}
	}
	found.add(all, fmt.Sprintf("%6.1fs", time.Since(begin).Seconds()), "")
	return nil
}

// exploreSmall makes the explorations with one small limit.
func exploreSmall(ctx context.Context, o options, s mistakes.Small, joint *mistakes.Joint, i int, found *tally) error {
	bound := smallBound
	if o.long {
		bound = 0
	}
	all, err := s.Explore(ctx, joint, i, bound)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Violation == nil && (bound == 0 || r.States < bound) && (!r.Exhausted || r.Ends == 0) {
			return fmt.Errorf("%s with few %s: exhausted is %v, with %d ends: the exploration is incomplete", r.Scenario, s.Name, r.Exhausted, r.Ends)
		}
		found.add(r, "", "with few "+s.Name+", ")
	}
	return nil
}

// A tally prints and counts the results of explorations.
type tally struct {
	mu                                      sync.Mutex
	explorations, states, steps, violations int
}

func (t *tally) add(r explore.Result, took, how string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.explorations, t.states, t.steps = t.explorations+1, t.states+r.States, t.steps+r.Steps
	end := how + "exhausted"
	if !r.Exhausted {
		end = fmt.Sprintf("%sto its bound, depth %d", how, r.Depth)
	}
	if r.Violation != nil {
		t.violations++
		end = fmt.Sprintf("%sVIOLATION: %s, after\n    %s", how, r.Violation.Wrong, strings.Join(r.Violation.Trace, "\n    "))
	}
	fmt.Printf("  %-28s %10d %11d %6d %7s  %s\n", r.Scenario, r.States, r.Steps, r.Depth, took, end)
}
