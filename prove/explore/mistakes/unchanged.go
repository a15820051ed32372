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
// test fails, and explorations up to about bound states have the same figures. Without them, a
// fault of the build itself could pass for a mistake that is caught.
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
			if err := t.fails(ctx, j.with(0)); !errors.Is(err, ErrSurvived) {
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
			if out, err := j.with(0)(ctx, sessionsExplorer, "-bound", strconv.Itoa(bound)); err != nil {
				return fmt.Errorf("explore sessions without a mistake: %w: %s", err, out)
			}
			return nil
		})
	}
	return all
}

// sameFigures compares explorations of the build without a mistake with those of the source.
func (j *Joint) sameFigures(ctx context.Context, bound int) error {
	found, err := exploreChanged(ctx, j.with(0), j.results(-1), "*", bound)
	if err != nil {
		return fmt.Errorf("explore without a mistake: %w", err)
	}
	scenarios, err := explore.Load(os.DirFS(filepath.Join(j.root, explorer, "testdata/scenarios")), "*")
	if err != nil {
		return err
	}
	if len(scenarios) != len(found) {
		return fmt.Errorf("explore without a mistake: %d scenarios, not %d", len(found), len(scenarios))
	}
	for i, s := range scenarios {
		s.Bound = bound
		want, err := explore.Explore(ctx, s)
		if err != nil {
			return err
		}
		if found[i] != want {
			return fmt.Errorf("explore without a mistake: got %+v, want %+v", found[i], want)
		}
	}
	return nil
}
