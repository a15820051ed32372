package mistakes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/effectively-once/once/prove/explore"
)

// Unchanged returns checks that fail if the build without a mistake differs from the source: no
// test fails, explorations up to about bound states find no violation, and those that end before
// have the figures of the source. Without these checks, a fault of the build itself could pass for
// a mistake that is caught.
func (j *Joint) Unchanged(bound int) []func(context.Context) error {
	var tests []Test
	for i, m := range j.list {
		if m.Test != nil && j.alone[i] == nil && !slices.Contains(tests, *m.Test) {
			tests = append(tests, *m.Test)
		}
	}
	var all []func(context.Context) error
	for _, t := range tests {
		all = append(all, func(ctx context.Context) error {
			if err := t.fails(ctx, j.run(j.binaries, 0)); !errors.Is(err, ErrSurvived) {
				return fmt.Errorf("%s %s without a mistake: %w", t.Package, t.Run, err)
			}
			return nil
		})
	}
	if j.binaries[explorer] != "" {
		all = append(all, func(ctx context.Context) error { return j.sameFigures(ctx, bound) })
	}
	if j.binaries[sessionsExplorer] != "" {
		all = append(all, func(ctx context.Context) error {
			if out, err := j.run(j.binaries, 0)(ctx, sessionsExplorer, "-bound", strconv.Itoa(bound)); err != nil {
				return fmt.Errorf("explore sessions without a mistake: %w: %s", err, out)
			}
			return nil
		})
	}
	return all
}

// sameFigures explores all scenarios without a mistake, and compares those that have no states
// beyond the bound with explorations of the source. The others visit other states in each run.
func (j *Joint) sameFigures(ctx context.Context, bound int) error {
	all, err := exploreChanged(ctx, j.run(j.binaries, 0), j.results(-1), "*", bound)
	if err != nil {
		return fmt.Errorf("explore without a mistake: %w", err)
	}
	compared := 0
	for _, found := range all {
		if found.Violation != nil {
			return fmt.Errorf("explore %s without a mistake: %s", found.Scenario, found.Violation.Wrong)
		}
		if !found.Exhausted {
			continue
		}
		scenarios, err := explore.Load(os.DirFS(filepath.Join(j.root, explorer, "testdata/scenarios")), found.Scenario)
		if err != nil {
			return err
		}
		scenarios[0].Bound = bound
		want, err := explore.Explore(ctx, scenarios[0])
		if err != nil {
			return err
		}
		if found != want {
			return fmt.Errorf("explore without a mistake: got %+v, want %+v", found, want)
		}
		compared++
	}
	if compared == 0 {
		return fmt.Errorf("no scenario has less than %d states, to compare its figures", bound)
	}
	return nil
}
