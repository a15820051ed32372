// Package mistakes checks that known mistakes are caught. Each is a small change of the source, for
// which a check has to fail. A [Joint] is one build with all mistakes, made with go test -overlay:
// the source itself does not refer to them.
//
// # Errors
//
// If the text of a mistake is no longer in the source, or if the changed source does not compile,
// it is an error: the mistake has to be updated.
//
// # Limits
//
// Mistakes that change types or signatures, or constants that have to be constants, have builds of
// their own.
package mistakes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/effectively-once/once/internal/testkit/overlay"
	"github.com/effectively-once/once/prove/explore"
)

// A Mistake is a change that makes the product wrong.
type Mistake struct {
	// Name describes the mistake in a few words.
	Name string `yaml:"name"`
	// Why explains the failure, if the trace does not.
	Why string `yaml:"why"`
	// Changes are applied to the source, one after the other.
	Changes []Change `yaml:"changes"`
	// Scenario is explored to catch it, and Sessions is a scenario of package sessions.
	Scenario string `yaml:"scenario"`
	Sessions string `yaml:"sessions"`
	// Test catches a mistake that no exploration finds: a package and a pattern of tests.
	Test *Test `yaml:"test"`
}

// A Change is one change of the source.
type Change = overlay.Change

// A Test names tests that fail.
type Test struct {
	Package string `yaml:"package"`
	Run     string `yaml:"run"`
}

// A Catch is the result of a mistake that was caught.
type Catch struct {
	Mistake string `json:"mistake"`
	// By is the scenario or the test.
	By string `json:"by"`
	// Steps is the length of the shortest trace; 0 if a test caught it, or if the violation is
	// there at the start.
	Steps int `json:"steps,omitempty"`
	// Wrong is the violation that the exploration found.
	Wrong string   `json:"wrong,omitempty"`
	Trace []string `json:"trace,omitempty"`
}

// ErrSurvived says that no check caught a mistake.
var ErrSurvived = errors.New("nothing caught it")

// Load reads the lists of mistakes whose file names match a pattern of [path.Match], by name.
func Load(files fs.FS, pattern string) ([]Mistake, error) {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, fmt.Errorf("load mistakes: %w", err)
	}
	var out []Mistake
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("load mistakes: %w", err)
		}
		var list []Mistake
		if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("load mistakes %s: %w", name, err)
		}
		out = append(out, list...)
	}
	for _, m := range out {
		if m.Name == "" || len(m.Changes) == 0 || m.checks() != 1 {
			return nil, fmt.Errorf("load mistakes: %q needs a name, changes, and one scenario or test", m.Name)
		}
	}
	return out, nil
}

// checks returns how many checks are named.
func (m Mistake) checks() (n int) {
	for _, named := range []bool{m.Scenario != "", m.Sessions != "", m.Test != nil} {
		if named {
			n++
		}
	}
	return n
}

// Fits returns an error if the source at root no longer contains the texts that the mistake
// changes.
func (m Mistake) Fits(root string) error {
	if _, err := overlay.Apply(root, m.Changes); err != nil {
		return fmt.Errorf("mistake %q: %w", m.Name, err)
	}
	return nil
}

// A runner runs the tests of a package with arguments of a test binary, and returns the output.
type runner func(ctx context.Context, pkg string, args ...string) (string, error)

// The packages of the explorers.
const (
	explorer         = "./prove/explore"
	sessionsExplorer = "./prove/explore/sessions"
)

// check returns the package whose tests catch the mistake.
func (m Mistake) check() string {
	switch {
	case m.Test != nil:
		return m.Test.Package
	case m.Sessions != "":
		return sessionsExplorer
	}
	return explorer
}

// caught runs the check of a mistake, for which results is a file.
func (m Mistake) caught(ctx context.Context, run runner, results string) (Catch, error) {
	c := Catch{Mistake: m.Name}
	var err error
	switch {
	case m.Test != nil:
		c.By = m.Test.Package + " " + m.Test.Run
		err = m.Test.fails(ctx, run)
	case m.Sessions != "":
		c.By = "sessions " + m.Sessions
		err = c.exploredSessions(ctx, run, m.Sessions)
	default:
		c.By = m.Scenario
		err = c.explored(ctx, run, results)
	}
	if err != nil {
		return c, fmt.Errorf("make mistake %q: %w", m.Name, err)
	}
	return c, nil
}

// fails runs tests that have to fail.
func (t *Test) fails(ctx context.Context, run runner) error {
	out, err := run(ctx, t.Package, "-test.run", t.Run, "-test.timeout", "10m", "-test.failfast")
	switch {
	case err == nil:
		return ErrSurvived
	case !strings.Contains(out, "--- FAIL"):
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// exploredSessions explores a scenario of sessions, which has to find a violation.
func (c *Catch) exploredSessions(ctx context.Context, run runner, scenario string) error {
	out, err := run(ctx, sessionsExplorer, "-test.run", "^TestEveryStateOfEveryScenarioOfSessionsIsRight$", "-test.timeout", "24h",
		"-scenario", scenario, "-bound", "0")
	if err == nil {
		return ErrSurvived
	}
	_, found, ok := strings.Cut(out, "sessions_test.go:")
	if ok {
		_, found, ok = strings.Cut(found, ": ")
	}
	wrong, trace, violated := strings.Cut(found, " steps:\n")
	at := strings.LastIndex(wrong, ", after ")
	if !ok || !violated || at < 0 {
		return fmt.Errorf("%w: %s", err, out)
	}
	c.Wrong = wrong[:at]
	c.Steps, err = strconv.Atoi(wrong[at+len(", after "):])
	for line := range strings.Lines(trace) {
		if len(c.Trace) < c.Steps {
			c.Trace = append(c.Trace, strings.TrimSpace(line))
		}
	}
	return err
}

// explored explores a scenario, which has to find a violation.
func (c *Catch) explored(ctx context.Context, run runner, results string) error {
	found, err := exploreChanged(ctx, run, results, c.By, 3_000_000)
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0].Violation == nil {
		return fmt.Errorf("%w: %+v", ErrSurvived, found)
	}
	c.Steps, c.Wrong, c.Trace = len(found[0].Violation.Trace), found[0].Violation.Wrong, found[0].Violation.Trace
	return nil
}

// exploreChanged explores scenarios of a changed source, each up to about bound states. If a test
// failed without a violation, it returns an error, because not all states were explored.
func exploreChanged(ctx context.Context, run runner, results, pattern string, bound int) ([]explore.Result, error) {
	out, err := run(ctx, explorer, "-test.run", "^TestEveryStateOfEveryScenarioIsRight$", "-test.timeout", "24h",
		"-scenario", pattern, "-bound", strconv.Itoa(bound), "-results", results)
	text, missing := os.ReadFile(results) //nolint:gosec // its own file
	if missing != nil {
		return nil, fmt.Errorf("%w: %s", errors.Join(err, missing), out)
	}
	var found []explore.Result
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, err
	}
	if err != nil && !slices.ContainsFunc(found, func(r explore.Result) bool { return r.Violation != nil }) {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return found, os.Remove(results)
}
