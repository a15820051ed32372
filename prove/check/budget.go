package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// budgetsFile has the budgets, relative to the root.
const budgetsFile = "prove/check/budgets.yaml"

func defineBudget(flags *flag.FlagSet) action {
	fall := flags.Bool("fall", false, "write the measured numbers that are lower than their budgets")
	quick := flags.Bool("quick", false, "measure only what needs no build")
	base := flags.String("base", "", "`revision` since which each raise needs its reason; the default compares with none")
	binary := flags.String("binary", "", "`file` of the program whose size is measured; built by default")
	return func(ctx context.Context, t *tree, out, _ io.Writer, _ []string) error {
		text, err := t.read(budgetsFile)
		if err != nil {
			return err
		}
		reading, building := measurements(*binary)
		if !*quick {
			reading = append(reading, building...)
		}
		measured, err := measure(ctx, t, reading)
		if err != nil {
			return err
		}
		next, err := compare(out, text, measured, *quick)
		if *fall {
			// The file exists, and keeps its mode.
			err = errors.Join(err, os.WriteFile(filepath.Join(t.root, budgetsFile), next, 0o600))
		}
		if *base != "" {
			err = errors.Join(err, t.raisedSince(ctx, *base, text))
		}
		return err
	}
}

// compare prints each number beside its budget. It returns an error that names each number above
// its budget, and the text of the file with the lower numbers. With some, budgets may remain that
// were not measured.
func compare(out io.Writer, text []byte, measured numbers, some bool) ([]byte, error) {
	budgets, err := parseBudgets(text)
	if err != nil {
		return text, err
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		n, budget := measured[name], budgets[name]
		_, known := budgets[name]
		remark := ""
		switch above := n - budget; {
		case !known:
			problems = append(problems, fmt.Errorf("%s: %s, and %s has no budget for it", name, digits(n), budgetsFile))
		case above > slack(name):
			problems = append(problems, fmt.Errorf("%s: %s, %s above the budget of %s: delete as much as you add, or raise it in %s and write %q above it", name, digits(n), digits(above), digits(budget), budgetsFile, reasonLine(budget)))
			remark = "  too much"
		case lower(name, n) < budget*0.99:
			remark = "  the budget can fall: -fall writes it"
		}
		if known && lower(name, n) < budget {
			// without the reason of a raise, which another raise from the same number would need
			// again
			text = regexp.MustCompile(`(?m)(^# raised from .*\n)?^`+name+`: [\d_.]+`).ReplaceAll(text, []byte(name+": "+strconv.FormatFloat(lower(name, n), 'f', -1, 64)))
		}
		_, _ = fmt.Fprintf(out, "%-34s %12s of %12s%s\n", name, digits(n), digits(budget), remark)
	}
	for _, name := range slices.Sorted(maps.Keys(budgets)) {
		if _, ok := measured[name]; !ok && !some {
			problems = append(problems, fmt.Errorf("%s: nothing measures it; remove it from %s", name, budgetsFile))
		}
	}
	return text, errors.Join(problems...)
}

func parseBudgets(text []byte) (numbers, error) {
	budgets := numbers{}
	if err := yaml.Unmarshal(text, &budgets); err != nil {
		return nil, fmt.Errorf("%s: %w", budgetsFile, err)
	}
	return budgets, nil
}

// slack returns how far a number may be above its budget. Of the allocations of a message, tenths
// come from work that is not for one message, and differ. The program has the paths of the
// source and of the modules, which differ from machine to machine.
func slack(name string) float64 {
	switch {
	case strings.HasPrefix(name, "allocations-"):
		return 0.5
	case name == "binary-bytes":
		return 3 * sizeStep
	}
	return 0
}

// sizeStep is the unit of the budget of the program's size: a compiler's release changes some
// kilobytes.
const sizeStep = 100_000

// lower returns the budget for a measured number.
func lower(name string, n float64) float64 {
	if name == "binary-bytes" {
		return math.Ceil(n/sizeStep) * sizeStep
	}
	return n
}

func (t *tree) raisedSince(ctx context.Context, base string, text []byte) error {
	if err := t.known(ctx, base); err != nil {
		return err
	}
	list, err := t.command(ctx, "git", "ls-tree", "--name-only", base, budgetsFile)
	if err != nil || list == "" { // without the file, no budget could be raised
		return err
	}
	old, err := t.command(ctx, "git", "show", base+":"+budgetsFile)
	if err != nil {
		return err
	}
	return raised([]byte(old), text)
}

// raised returns an error for each budget that is higher than in the text of the base and has no
// comment above it with the old number and a reason.
func raised(base, text []byte) error {
	old, err := parseBudgets(base)
	if err != nil {
		return err
	}
	budgets, err := parseBudgets(text)
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(budgets)) {
		before, ok := old[name]
		if !ok || budgets[name] <= before {
			continue
		}
		line := reasonLine(before)
		reason := regexp.MustCompile(`(?m)^` + strings.Replace(regexp.QuoteMeta(line), "REASON", `.+`, 1) + `\n(#.*\n)*` + name + `:`)
		if !reason.Match(text) {
			problems = append(problems, fmt.Errorf("%s: raised to %s without a reason: write %q above it", name, digits(budgets[name]), line))
		}
	}
	return errors.Join(problems...)
}

// reasonLine returns the comment that a raise from a number needs.
func reasonLine(before float64) string {
	return "# raised from " + strconv.FormatFloat(before, 'f', -1, 64) + ": REASON"
}

// digits formats a number with a comma for each thousand.
func digits(n float64) string {
	whole, rest, _ := strings.Cut(strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		rest = "." + rest
	}
	return whole + rest
}
