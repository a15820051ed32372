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

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/explore/mistakes"
)

func makeMistakes(ctx context.Context, o options) error {
	list, err := mistakes.Load(os.DirFS(filepath.Join(o.root, "internal/explore/mistakes/testdata")), "mistakes*.yaml")
	if err != nil {
		return err
	}
	caught, errs := make([]mistakes.Catch, len(list)), make([]error, len(list))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, m := range list {
		group.Go(func() error {
			caught[i], errs[i] = mistakes.Make(ctx, o.root, m)
			return nil
		})
	}
	_ = group.Wait()
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
