package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/prove/explore/mistakes"
)

func makeMistakes(ctx context.Context, o options) error {
	list, err := mistakes.Load(os.DirFS(filepath.Join(o.root, "prove/explore/mistakes/testdata")), "mistakes*.yaml")
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "mistakes")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	begin := time.Now()
	joint, err := mistakes.Join(ctx, o.root, folder, list)
	if err != nil {
		return err
	}
	alone := joint.Alone()
	fmt.Printf("  %d mistakes in one build, in %.0f s, and %d in builds of their own:\n", len(list)-len(alone), time.Since(begin).Seconds(), len(alone))
	for _, name := range alone {
		fmt.Println("  " + name)
	}
	caught, errs := makeEach(ctx, joint, len(list))
	for i, c := range caught {
		switch {
		case errs[i] != nil:
			fmt.Printf("  %-72s SURVIVED\n", list[i].Name)
		case list[i].Test == nil:
			fmt.Printf("  %-72s %3d steps  %s\n", c.Mistake, c.Steps, c.By)
		default:
			fmt.Printf("  %-72s %9s  %s\n", c.Mistake, "a test", c.By)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("  %d mistakes, all caught\n", len(list))
	return o.documented("mistakes", table(list, caught))
}

// unchangedBound is about how many states of a scenario are visited without a mistake.
const unchangedBound = 1500

// makeEach makes mistakes, several concurrently, and checks the build without one, too.
func makeEach(ctx context.Context, joint *mistakes.Joint, n int) (caught []mistakes.Catch, errs []error) {
	unchanged := joint.Unchanged(unchangedBound)
	caught, errs = make([]mistakes.Catch, n), make([]error, n+len(unchanged))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error {
			caught[i], errs[i] = joint.Make(ctx, i)
			return nil
		})
	}
	for i, check := range unchanged {
		group.Go(func() error {
			errs[n+i] = check(ctx)
			return nil
		})
	}
	_ = group.Wait()
	return caught, errs
}

// table returns the documentation's table of mistakes.
func table(list []mistakes.Mistake, caught []mistakes.Catch) string {
	var b strings.Builder
	b.WriteString("| mistake | caught by | steps |\n|---|---|---|\n")
	for i, c := range caught {
		name, steps, by := c.Mistake, strconv.Itoa(c.Steps), "`"+c.By+"`"
		if why := list[i].Why; why != "" {
			name += ": " + strings.TrimSuffix(why, ".")
		}
		if list[i].Test != nil {
			steps, by = "", "the tests of `"+strings.TrimPrefix(list[i].Test.Package, "./")+"`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, by, steps)
	}
	return b.String()
}
