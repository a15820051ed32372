package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// least is the required share of noticed mutants, in percent.
const least = 90

// A score counts the mutants of one package.
type score struct{ tried, noticed, hung, survived int }

// report prints the scores and the survivors, and fails if too many survive or one is not listed.
func report(o options, sample []*mutant, known map[string]result) error {
	reasons, err := readSurvivors(filepath.Join(o.root, o.survivors))
	if err != nil {
		return err
	}
	scores, all := map[string]*score{}, &score{}
	var unlisted []string
	for _, m := range sample {
		r := known[m.pkg+"/"+m.name]
		of := scores[m.pkg]
		if of == nil {
			of = &score{}
			scores[m.pkg] = of
		}
		for _, s := range []*score{of, all} {
			s.count(r)
		}
		if reason, listed := reasons[r.Mutant]; r.By == "" && !listed {
			unlisted = append(unlisted, r.Mutant)
		} else if r.By == "" {
			fmt.Printf("  survives, for a reason: %s: %s\n", r.Mutant, reason)
		}
	}
	for name := range reasons {
		if _, tried := known[name]; !tried && o.pattern == "" {
			fmt.Println("  listed as a survivor, and not in the sample:", name)
		}
	}
	table := tableOf(scores, all)
	fmt.Print(table)
	if o.table != "" {
		if err := os.WriteFile(o.table, []byte(table), 0o600); err != nil {
			return err
		}
	}
	slices.Sort(unlisted)
	for _, name := range unlisted {
		fmt.Println("  no test notices, and no reason is listed:", name)
	}
	if o.pattern != "" || len(sample) == 0 {
		return nil
	}
	if share := 100 * all.noticed / all.tried; share < least {
		err = fmt.Errorf("%d %% of the mutants are noticed, not %d %%", share, least)
	}
	if len(unlisted) > 0 {
		err = errors.Join(err, fmt.Errorf("%d mutants survive without a reason in %s", len(unlisted), o.survivors))
	}
	return err
}

func (s *score) count(r result) {
	s.tried++
	switch {
	case r.By == "":
		s.survived++
	case r.Hung:
		s.hung++
		s.noticed++
	default:
		s.noticed++
	}
}

func tableOf(scores map[string]*score, all *score) string {
	var b strings.Builder
	b.WriteString("| package | mutants | noticed | of these by a time limit | survive |\n|---|---|---|---|---|\n")
	var paths []string
	for path := range scores {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range append(paths, "") {
		s, name := scores[path], "`"+path+"`"
		if path == "" && s != nil {
			name = "`once`"
		}
		if s != nil {
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", name, s.tried, s.noticed, s.hung, s.survived)
		}
		scores[path] = nil
	}
	fmt.Fprintf(&b, "| **all** | %d | %d (%d %%) | %d | %d |\n", all.tried, all.noticed, 100*all.noticed/max(all.tried, 1), all.hung, all.survived)
	return b.String()
}

// readSurvivors returns the mutants that may survive, with the reason for each.
func readSurvivors(name string) (map[string]string, error) {
	text, err := os.ReadFile(name) //nolint:gosec // named by the caller
	if err != nil {
		return nil, fmt.Errorf("read survivors: %w", err)
	}
	reasons := map[string]string{}
	if err := yaml.UnmarshalWithOptions(text, &reasons, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("read survivors: %w", err)
	}
	return reasons, nil
}
