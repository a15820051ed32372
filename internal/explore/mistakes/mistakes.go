// Package mistakes checks that known mistakes are caught. Each is a small change of the source,
// applied with go test -overlay, for which a check has to fail. The source itself does not refer to
// them.
//
// # Errors
//
// If the text of a mistake is no longer in the source, or if the changed source does not compile,
// it is an error: the mistake has to be updated.
package mistakes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/effectively-once/once/internal/explore"
	"github.com/effectively-once/once/internal/testkit/overlay"
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

// Make applies a mistake to the module at root and returns how it was caught. If it was not, the
// error wraps ErrSurvived.
func Make(ctx context.Context, root string, m Mistake) (Catch, error) {
	folder, err := os.MkdirTemp("", "mistake")
	if err != nil {
		return Catch{}, fmt.Errorf("make mistake: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	files, err := overlay.Apply(root, m.Changes)
	if err != nil {
		return Catch{}, fmt.Errorf("make mistake %q: %w", m.Name, err)
	}
	list, err := overlay.Write(folder, files)
	if err != nil {
		return Catch{}, fmt.Errorf("make mistake %q: %w", m.Name, err)
	}
	c := Catch{Mistake: m.Name}
	switch {
	case m.Test != nil:
		c.By = m.Test.Package + " " + m.Test.Run
		err = tested(ctx, root, list, m.Test)
	case m.Sessions != "":
		c.By = "sessions " + m.Sessions
		err = c.exploredSessions(ctx, root, list, m.Sessions)
	default:
		c.By = m.Scenario
		err = c.explored(ctx, root, list, filepath.Join(folder, "results.json"))
	}
	if err != nil {
		return c, fmt.Errorf("make mistake %q: %w", m.Name, err)
	}
	return c, nil
}

// tested runs tests that have to fail. The package may be a module of its own.
func tested(ctx context.Context, root, list string, t *Test) error {
	folder, name := root, t.Package
	if _, err := os.Stat(filepath.Join(root, name, "go.mod")); err == nil {
		folder, name = filepath.Join(root, name), "."
	}
	out, err := goTest(ctx, folder, list, name, "-run", t.Run)
	switch {
	case err == nil:
		return ErrSurvived
	case !strings.Contains(out, "--- FAIL"):
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// exploredSessions explores a scenario of sessions, which has to find a violation.
func (c *Catch) exploredSessions(ctx context.Context, root, list, scenario string) error {
	out, err := goTest(ctx, root, list, "./internal/explore/sessions", "-run", "^TestEveryStateOfEveryScenarioOfSessionsIsRight$", "-timeout", "24h",
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
func (c *Catch) explored(ctx context.Context, root, list, results string) error {
	found, err := exploreChanged(ctx, root, list, results, c.By, 3_000_000)
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
func exploreChanged(ctx context.Context, root, list, results, pattern string, bound int) ([]explore.Result, error) {
	out, err := goTest(ctx, root, list, "./internal/explore", "-run", "^TestEveryStateOfEveryScenarioIsRight$", "-timeout", "24h",
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

func goTest(ctx context.Context, root, list string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-overlay", list}, args...)...) //nolint:gosec // the list of mistakes is part of the source
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}
