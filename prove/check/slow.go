package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// slowFile lists the tests that need more than a second, relative to the root.
const slowFile = "prove/check/slow.yaml"

// module is the beginning of the names of packages.
const module = "github.com/effectively-once/once"

// An entry says why some tests of packages are slow.
type entry struct {
	Packages []string `yaml:"packages"` // the folders, from the root
	Tests    string   `yaml:"tests"`    // a regular expression
	Reason   string   `yaml:"reason"`

	pattern *regexp.Regexp
}

// A timing is the time of one test, subtests included.
type timing struct {
	folder, test string
	took         time.Duration
}

func defineSlow(flags *flag.FlagSet) action {
	// Under the race detector, and beside other packages, a test takes several times as long as
	// alone.
	limit := flags.Duration("limit", 5*time.Second, "the `time` above which a test is slow")
	packages := flags.String("packages", "", "the `folders` that were tested, from the root: each test in them must have run. A folder with /... stands for all of its module below it")
	some := flags.Bool("some", false, "only some tests of the packages were chosen: at least one in each must have run")
	return func(_ context.Context, t *tree, out, _ io.Writer, files []string) error {
		text, err := t.read(slowFile)
		if err != nil {
			return err
		}
		entries, err := parseSlow(text)
		if err != nil {
			return err
		}
		tests, err := timings(files)
		if err != nil {
			return err
		}
		printSlow(out, entries, tests, *limit)
		// No test is for another system than Linux only.
		gone := t.unrun(strings.Fields(*packages), tests, *some || runtime.GOOS != "linux")
		if *some {
			return gone
		}
		return errors.Join(gone, unmatched(entries, tests))
	}
}

func parseSlow(text []byte) ([]entry, error) {
	var entries []entry
	if err := yaml.UnmarshalWithOptions(text, &entries, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", slowFile, err)
	}
	for i := range entries {
		e := &entries[i]
		if len(e.Packages) == 0 || e.Tests == "" || e.Reason == "" {
			return nil, fmt.Errorf("%s: entry %d needs packages, tests and reason", slowFile, i+1)
		}
		var err error
		if e.pattern, err = regexp.Compile(e.Tests); err != nil {
			return nil, fmt.Errorf("%s: %w", slowFile, err)
		}
	}
	return entries, nil
}

// explains reports whether the entry is about a test.
func (e *entry) explains(test timing) bool {
	return slices.Contains(e.Packages, test.folder) && e.pattern.MatchString(test.test)
}

// timings reads the files, or standard input if there are none.
func timings(files []string) ([]timing, error) {
	if len(files) == 0 {
		return readTimings(os.Stdin)
	}
	var all []timing
	for _, name := range files {
		text, err := fs.ReadFile(os.DirFS(filepath.Dir(name)), filepath.Base(name))
		if err != nil {
			return nil, err
		}
		some, err := readTimings(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// readTimings reads the output of go test -json. Lines that are no events, such as those of a
// compiler, are skipped.
func readTimings(r io.Reader) ([]timing, error) {
	var all []timing
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var event struct {
			Action, Package, Test string
			Elapsed               float64
		}
		if json.Unmarshal(line, &event) == nil && event.Test != "" && !strings.Contains(event.Test, "/") &&
			slices.Contains([]string{"pass", "fail", "skip"}, event.Action) {
			all = append(all, timing{folderIn(event.Package), event.Test, time.Duration(event.Elapsed * float64(time.Second))})
		}
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// printSlow prints the slow tests, the slowest first. Time is no verdict.
func printSlow(out io.Writer, entries []entry, tests []timing, limit time.Duration) {
	slices.SortStableFunc(tests, func(a, b timing) int { return cmp.Compare(b.took, a.took) })
	unlisted := 0
	for _, test := range tests {
		if test.took <= limit {
			continue
		}
		reason := "not in " + slowFile
		i := slices.IndexFunc(entries, func(e entry) bool { return e.explains(test) })
		if i >= 0 {
			reason = entries[i].Reason
		} else {
			unlisted++
		}
		_, _ = fmt.Fprintf(out, "%7.1f s  %s %s: %s\n", test.took.Seconds(), test.folder, test.test, reason)
	}
	_, _ = fmt.Fprintf(out, "%d tests, of which %d took more than %s and are not listed\n", len(tests), unlisted, limit)
}

// unmatched returns an error for each entry that matches no test of a package that has been tested.
func unmatched(entries []entry, tests []timing) error {
	var problems []error
	for _, e := range entries {
		for _, folder := range e.Packages {
			in := func(test timing) bool { return test.folder == folder }
			if slices.ContainsFunc(tests, in) && !slices.ContainsFunc(tests, func(test timing) bool { return in(test) && e.explains(test) }) {
				problems = append(problems, fmt.Errorf("%s: %s has no test that matches %s", slowFile, folder, e.Tests))
			}
		}
	}
	return errors.Join(problems...)
}
