package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// patience is how many times longer tests may take with a mutant than without.
	patience = 5
	// leastTime is the minimum of that limit.
	leastTime = 20 * time.Second
	// longest is how long the tests of a package may take without a mutant.
	longest = 5 * time.Minute
	// atOnce is how many mutants are tried at a time: tests wait as much as they work.
	atOnce = 3
	// outOfTime is the output of a test binary that exceeded its timeout.
	outOfTime = "panic: test timed out"
)

// A fate is the result of a mutant.
type fate struct {
	*mutant
	by      string // the package and the test that failed; empty if it survived
	hung    bool   // the test failed because it timed out
	reached bool   // some test ran the changed text
}

// learn runs the tests of each package without a mutant: how long they take, and which mutants they
// reach. A package whose tests fail reaches none.
func learn(ctx context.Context, binaries []*binary, into string) error {
	failed := make([]error, len(binaries))
	var running errgroup.Group
	running.SetLimit(2)
	for i, b := range binaries {
		running.Go(func() error {
			failed[i] = b.learn(ctx, filepath.Join(into, fmt.Sprintf("%d.reached", i)))
			return nil
		})
	}
	_ = running.Wait() // they fail one by one
	return errors.Join(failed...)
}

func (b *binary) learn(ctx context.Context, file string) error {
	begun := time.Now()
	if by := b.run(ctx, longest, "ONCE_MUTANTS_REACHED="+file); by != "" {
		return fmt.Errorf("the tests of %s fail without a mutant: %s", b.path(), by)
	}
	b.seconds = time.Since(begun).Seconds()
	text, err := os.ReadFile(file) //nolint:gosec // own file
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(text)) {
		b.reached[strings.TrimSuffix(line, "\n")] = true
	}
	return nil
}

// run runs the short tests of a package, and returns the first test that fails, or an empty string.
func (b *binary) run(ctx context.Context, limit time.Duration, env string) string {
	// At the first timeout, the test binary prints its stacks. The second one ends tests that
	// ignore it.
	ctx, cancel := context.WithTimeout(ctx, limit+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.file, "-test.short", "-test.failfast", "-test.timeout", limit.String()) //nolint:gosec // own file
	cmd.Dir, cmd.Env = b.Dir, append(os.Environ(), "GOGC=200", env)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	if text := string(out); strings.Contains(text, outOfTime) || ctx.Err() != nil {
		return outOfTime
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		for _, sign := range []string{"--- FAIL: ", "panic: ", "fatal error: "} {
			if after, ok := strings.CutPrefix(line, sign); ok {
				return strings.TrimPrefix(sign, "--- FAIL: ") + strings.Split(after, " (")[0]
			}
		}
	}
	return "exit: " + err.Error()
}

// order returns the tests that reach a mutant: those of its own package first, then the fastest.
func order(binaries []*binary, m *mutant) []*binary {
	var out []*binary
	for _, b := range binaries {
		if b.reached[m.id()] {
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(x, y *binary) int {
		if own := x.path() == m.pkg; own != (y.path() == m.pkg) {
			if own {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.seconds, y.seconds)
	})
	return out
}

// try runs the tests that reach a mutant until one notices it.
func try(ctx context.Context, binaries []*binary, m *mutant) fate {
	f := fate{mutant: m}
	for _, b := range order(binaries, m) {
		f.reached = true
		limit := max(leastTime, time.Duration(patience*b.seconds*float64(time.Second)))
		by := b.run(ctx, limit, "ONCE_MUTANT="+m.id())
		f.hung = by == outOfTime
		if by == "" || f.hung && b.slow(ctx, limit) {
			f.hung = false
			continue
		}
		f.by = b.path() + " " + by
		return f
	}
	return f
}

// slow reports whether the tests of a package are slow now even without a mutant.
func (b *binary) slow(ctx context.Context, limit time.Duration) bool {
	begun := time.Now()
	return b.run(ctx, longest, "ONCE_MUTANT=") != "" || 2*time.Since(begun) > limit
}

// tryAll tries mutants, several concurrently, and calls each with every fate.
func tryAll(ctx context.Context, binaries []*binary, sample []*mutant, each func(fate)) error {
	next := make(chan *mutant)
	var running sync.WaitGroup
	var mu sync.Mutex
	for range atOnce {
		running.Go(func() {
			for m := range next {
				f := try(ctx, binaries, m)
				mu.Lock()
				if ctx.Err() == nil {
					each(f)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range sample {
		next <- m
	}
	close(next)
	running.Wait()
	return ctx.Err()
}
