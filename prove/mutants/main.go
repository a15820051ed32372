// Command mutants makes small faults in the product, one at a time, and reports which of them no
// test notices: go -C prove run ./mutants.
//
// A fault negates a condition in one direction, moves a bound by one, leaves out a statement, an
// operand or a branch, returns nil in place of an error, or leaves a field at zero. All faults are
// compiled at once, by an overlay, and each is switched on by a variable of the environment. The
// short tests of its own package run first, then those of other packages that reach it.
//
// # Limits
//
// Locks, log lines and releases of contexts and timers stay: a test without the race detector can
// not see them. The engine, internal/record and internal/dedup, is left out: the explorer and the
// removal of its conditions are stricter.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

type options struct {
	root, results, table, survivors string
	sample                          int
	pattern                         string
	own, list                       bool
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "..", "root of the source")
	flag.IntVar(&o.sample, "sample", 300, "how many mutants to try, drawn at random, always the same; 0 for all")
	flag.StringVar(&o.pattern, "only", "", "of the sample, try only mutants whose package and name match this pattern")
	flag.BoolVar(&o.own, "own", false, "run only the tests of a mutant's own package")
	flag.StringVar(&o.results, "results", "", "a file of results: mutants in it are not tried again, others are added")
	flag.StringVar(&o.table, "table", "", "a file for the table of the documentation")
	flag.StringVar(&o.survivors, "survivors", "mutants/survivors.yaml", "the list of mutants that may survive, with reasons")
	flag.BoolVar(&o.list, "list", false, "list the mutants that would be tried, and try none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// outside reports whether a package is part of the product and not of the engine.
func outside(path string) bool {
	for _, not := range []string{"internal/record", "internal/dedup", "localstack"} {
		if path != "internal/dedup/lease" && (path == not || strings.HasPrefix(path, not+"/")) {
			return false
		}
	}
	return true
}

func run(ctx context.Context, o options) error {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	product, err := goList(ctx, root, "-deps", ".", "./client", "./cmd/once", "./embedded", "./functions/...", "./onlambda", "./oncetest")
	if err != nil {
		return err
	}
	product = slices.DeleteFunc(product, func(f folder) bool { return !outside(f.path()) })
	c, err := change(root, product)
	if err != nil {
		return err
	}
	if o.list {
		sample, err := c.draw(o)
		for _, m := range sample {
			fmt.Println(m.pkg + "/" + m.name)
		}
		return err
	}
	into, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(into) }()
	list, err := c.compile(ctx, into)
	if err != nil {
		return err
	}
	sample, err := c.draw(o)
	if err != nil {
		return err
	}
	return c.measure(ctx, o, list, into, sample)
}

// draw returns the mutants to try: those in the sample that match the pattern.
func (c *changed) draw(o options) ([]*mutant, error) {
	pattern, err := regexp.Compile(o.pattern)
	if err != nil {
		return nil, err
	}
	sample := slices.DeleteFunc(slices.Clone(c.mutants), func(m *mutant) bool { return m.dropped })
	fmt.Printf("%d mutants, %d of them compile\n", len(c.mutants), len(sample))
	slices.SortFunc(sample, func(a, b *mutant) int { return cmp.Compare(a.hash(), b.hash()) })
	if o.sample > 0 && len(sample) > o.sample {
		sample = sample[:o.sample]
	}
	return slices.DeleteFunc(sample, func(m *mutant) bool { return !pattern.MatchString(m.pkg + "/" + m.name) }), nil
}

// A result is one line of the file of results.
type result struct {
	Mutant string `json:"mutant"`
	By     string `json:"by,omitempty"`
	Hung   bool   `json:"hung,omitempty"`
	Missed bool   `json:"missed,omitempty"` // no test reaches it
}

// measure tries the sample and prints the table.
func (c *changed) measure(ctx context.Context, o options, list, into string, sample []*mutant) error {
	known, err := readResults(o.results)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(sample), func(m *mutant) bool { _, done := known[m.pkg+"/"+m.name]; return done })
	var failed error
	if len(rest) > 0 {
		failed = c.tryRest(ctx, o, list, into, rest, known)
	}
	return errors.Join(failed, report(o, sample, known))
}

func (c *changed) tryRest(ctx context.Context, o options, list, into string, rest []*mutant, known map[string]result) error {
	everything, err := goList(ctx, c.root, ".", "./client/...", "./cmd/...", "./embedded/...", "./functions/...", "./internal/...", "./onlambda/...", "./oncetest/...")
	if err != nil {
		return err
	}
	binaries, err := c.buildTests(ctx, list, into, slices.DeleteFunc(everything, func(f folder) bool { return !o.needed(f.path(), rest) }))
	if err != nil {
		return err
	}
	failing := learn(ctx, binaries, into)
	if failing != nil {
		fmt.Println("  FAILED:", failing)
	}
	var file *os.File
	if o.results != "" {
		if file, err = os.OpenFile(o.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return err
		}
		defer file.Close()
	}
	var bad error
	err = tryAll(ctx, binaries, rest, func(f fate) {
		r := result{f.pkg + "/" + f.name, f.by, f.hung, !f.reached}
		known[r.Mutant] = r
		fmt.Printf("  %-60s %s\n", cmp.Or(r.By, "SURVIVED"), r.Mutant)
		if file != nil {
			bad = errors.Join(bad, json.NewEncoder(file).Encode(r))
		}
	})
	return errors.Join(err, bad, failing)
}

// needed reports whether the tests of a package are to run.
func (o options) needed(path string, rest []*mutant) bool {
	return !o.own || slices.ContainsFunc(rest, func(m *mutant) bool { return m.pkg == path })
}

func readResults(name string) (map[string]result, error) {
	known := map[string]result{}
	if name == "" {
		return known, nil
	}
	text, err := os.ReadFile(name) //nolint:gosec // named by the caller
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		known[r.Mutant] = r
	}
	return known, nil
}
