// Command prove checks the product's guarantees: no message lost, no effect doubled. Run it from
// this folder; it takes minutes, or hours with -long, and prints figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// A part of the proof prints its figures. It returns an error if a guarantee was violated.
type part struct {
	name, what string
	run        func(ctx context.Context, o options) error
}

type options struct {
	short, long bool
	root        string
	// update writes the tables of the documentation instead of comparing them.
	update bool
}

func parts() []part {
	return []part{
		{"explore", "every order and every failure of the real code, in small scenarios", exploreAll},
		{"mistakes", "known mistakes, each made in a copy of the source, and the check that catches it", makeMistakes},
		{"conditions", "each condition of each conditional write, removed, and whether a test fails", removeConditions},
		{"mutants", "small faults outside the engine, each made in a copy of the source, and how many the tests notice", tryMutants},
		{"histories", "the answers to concurrent callers of each store and each queue, and whether one order of their calls explains them", histories},
		{"chat", "a chat room in five linked systems under virtual time, with faults, and whether all regions show the same", chat},
		{"fuzz", "every parser and every decoder, with invalid input", fuzzAll},
		{"damage", "data folders with damaged, cut and missing files, and power failures at any operation on the disk", damage},
		{"chaos", "the product's binaries, built with a clock that can be set and shorter waits, while they are killed, stalled and cut off, on a disk that fills up, and the effects", chaos},
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	only := flag.String("only", "", "comma-separated parts to run; default all")
	flag.BoolVar(&o.short, "short", false, fmt.Sprintf("end each exploration after %d states", shortBound))
	flag.BoolVar(&o.long, "long", false, "the long form: hours in place of minutes")
	flag.BoolVar(&o.update, "update", false, "write the tables of docs/correctness.md, in place of comparing them")
	flag.StringVar(&o.root, "root", "..", "root of the source")
	flag.Usage = usage
	flag.Parse()
	known := map[string]bool{}
	for _, p := range parts() {
		known[p.name] = true
	}
	wanted := strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	if i := slices.IndexFunc(wanted, func(name string) bool { return !known[name] }); i >= 0 {
		return fmt.Errorf("no such part: %s; go -C prove run . -h lists them", wanted[i])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var failed []error
	for _, p := range parts() {
		if len(wanted) > 0 && !slices.Contains(wanted, p.name) {
			continue
		}
		fmt.Printf("%s: %s\n", p.name, p.what)
		begin := time.Now()
		if err := p.run(ctx, o); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
			fmt.Printf("  FAILED: %v\n", err)
		}
		fmt.Printf("  %s\n\n", time.Since(begin).Round(time.Second))
	}
	return errors.Join(failed...)
}

func usage() {
	out := flag.CommandLine.Output()
	_, _ = fmt.Fprint(out, "usage: go -C prove run . [flags]\n\n  go -C prove run .                 everything, in minutes\n  go -C prove run . -only explore   one part\n  go -C prove run . -long           for hours\n\nparts:\n")
	for _, p := range parts() {
		_, _ = fmt.Fprintf(out, "  %-10s %s\n", p.name, p.what)
	}
	_, _ = fmt.Fprintln(out, "\nflags:")
	flag.PrintDefaults()
}
