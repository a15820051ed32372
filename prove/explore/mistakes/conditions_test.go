package mistakes

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

var (
	removedFrom = flag.String("conditions", "memstore", "remove conditions only from packages whose paths end in this; empty for all, which takes minutes")
	listed      = flag.String("list", "conditions.yaml", "the list of packages in testdata")
)

// A guarded package is a package with conditional writes. Their conditions are removed one at a
// time, and its tests have to notice.
type guarded struct {
	// Package is the package whose source is changed, as a folder of the module.
	Package string `yaml:"package"`
	// Tests are the folders whose tests have to fail; by default the package itself. Run, if it is
	// given, selects tests.
	Tests []string `yaml:"tests"`
	Run   string   `yaml:"run"`
	// Last are slow tests: they run if the others find nothing.
	Last string `yaml:"last"`
	// Functions are the functions whose conditions are removed, by file; for a file without names,
	// all of its functions.
	Functions map[string][]string `yaml:"functions"`
	// Calls are methods that add a condition to an expression.
	Calls []string `yaml:"calls"`
	// Terms are conditions inside texts.
	Terms []term `yaml:"terms"`
	// Add is additional source of the changed package.
	Add string `yaml:"add"`
	// Needs is the environment variable without which the tests test nothing.
	Needs string `yaml:"needs"`
	// Survivors are removals that no test finds, with the reason why none has to.
	Survivors map[string]string `yaml:"survivors"`
}

// A term is a condition inside a text: in New, REMOVED stands for whether it is removed.
type term struct {
	Name   string `yaml:"name"`
	Change `yaml:",inline"`
}

// atOnce is how many conditions of a package are removed at a time: tests wait more than they work.
const atOnce = 4

// outOfTime is in the output of a test binary that exceeds its time limit.
const outOfTime = "panic: test timed out"

// patience is how many times longer tests may take without a condition than with all of them.
// Without some conditions they never end.
const patience = 5

// longest is the time limit of tests with all conditions.
const longest = 10 * time.Minute

func TestEveryConditionOfAConditionalWriteIsTested(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", *listed))
	if err != nil {
		t.Fatal(err)
	}
	var list []guarded
	if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		if !strings.HasSuffix(g.Package, *removedFrom) {
			continue
		}
		t.Run(g.Package, func(t *testing.T) {
			if g.Needs != "" && os.Getenv(g.Needs) == "" {
				t.Skipf("%s is not set", g.Needs)
			}
			t.Parallel()
			g.check(t)
		})
	}
}

// check builds the tests of a package with every condition switchable, and runs them without each.
func (g *guarded) check(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	found, tests := g.build(t, root)
	begun := time.Now()
	if by, err := g.failed(t, root, tests, longest, 0); by != "" || err != nil {
		t.Fatalf("the tests fail with all conditions there: %s, %v", by, err)
	}
	c := counts{guarded: g}
	// real time: the limit of a test that may never end is a multiple of its usual time
	errs := g.removeEach(t, root, tests, len(found), max(10*time.Second, patience*time.Since(begun)), func(i int, by string) {
		c.count(t, found[i].name, by)
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	// If a service that the tests need, such as an emulator, has ended meanwhile, the failures show
	// nothing.
	if by, err := g.failed(t, root, tests, longest, 0); by != "" || err != nil {
		t.Fatalf("the tests fail with all conditions there, after they did not at the beginning: %s, %v", by, err)
	}
	for name := range g.Survivors {
		if !slices.ContainsFunc(found, func(r removal) bool { return r.name == name }) {
			t.Errorf("there is no condition %s any more", name)
		}
	}
	t.Logf("%d conditions removed: %d killed, %d of them by the end of their time, %d survive for a reason, %d survive without",
		len(found), c.killed, c.ended, c.known, len(found)-c.killed-c.known)
}

// counts are the results of one package.
type counts struct {
	*guarded
	killed, ended, known int
}

// count reports the result of one removal as soon as it is known, because a package takes minutes.
func (c *counts) count(t *testing.T, name, by string) {
	reason, expected := c.Survivors[name]
	switch {
	case expected: // a test that finds it only sometimes does not count
		c.known++
		if by != "" {
			reason += "; this time it was found, by " + by
		}
		t.Logf("survives %s: %s", name, reason)
	case by != "":
		c.killed++
		if strings.HasPrefix(by, outOfTime) {
			c.ended++
		}
		t.Logf("killed %s: %s", name, by)
	default:
		t.Errorf("no test fails without %s", name)
	}
}

// removeEach runs the tests without each condition, some concurrently, and calls result, one call
// at a time, with the test that failed.
func (g *guarded) removeEach(t *testing.T, root string, tests []string, n int, limit time.Duration, result func(i int, by string)) []error {
	errs := make([]error, n)
	next := make(chan int)
	var runs sync.WaitGroup
	var one sync.Mutex
	for range atOnce {
		runs.Go(func() {
			for i := range next {
				by, err := g.killer(t, root, tests, limit, i+1)
				if errs[i] = err; err != nil {
					continue
				}
				one.Lock()
				result(i, by)
				one.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	runs.Wait()
	return errs
}

// killer returns the name of a test that fails without a condition, or "" if none does. If the
// tests exceed their time limit, the machine may be slow. So they also run with all conditions at
// that moment, and have to be much faster.
func (g *guarded) killer(t *testing.T, root string, tests []string, limit time.Duration, number int) (string, error) {
	for {
		by, err := g.failed(t, root, tests, limit, number)
		if err != nil || !strings.HasPrefix(by, outOfTime) {
			return by, err
		}
		begun := time.Now()
		if now, err := g.failed(t, root, tests, longest, 0); now != "" || err != nil {
			return "", errors.Join(fmt.Errorf("the tests fail with all conditions there: %q", now), err)
		}
		enough := patience * time.Since(begun) // real time: as above
		if enough <= limit {
			return by, nil
		}
		limit = enough
	}
}

// build returns the removals and the binaries of the tests.
func (g *guarded) build(t *testing.T, root string) (found []removal, tests []string) {
	folder, into := filepath.Join(root, g.Package), t.TempDir()
	found, name, err := g.find(folder)
	if err != nil {
		t.Fatal(err)
	}
	replace, err := write(folder, into, name, g.Add, found)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(into, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, test := range g.tests() {
		tests = append(tests, filepath.Join(into, fmt.Sprint(i, ".test")))
		cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", tests[i], "./"+test)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build the tests of %s: %v\n%s", test, err, out)
		}
	}
	return found, tests
}

func (g *guarded) tests() []string {
	if len(g.Tests) == 0 {
		return []string{g.Package}
	}
	return g.Tests
}

// find lists the conditions, numbered from 1.
func (g *guarded) find(folder string) (found []removal, name string, err error) {
	next := 1
	var files []string
	for file := range g.Functions {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range files {
		var of []removal
		if of, name, err = removals(folder, file, g.Functions[file], g.Calls, &next); err != nil {
			return nil, "", err
		}
		found = append(found, of...)
	}
	for _, x := range g.Terms {
		r, err := x.removal(folder, next)
		if err != nil {
			return nil, "", err
		}
		found = append(found, r)
		next++
	}
	return found, name, nil
}

func (x *term) removal(folder string, number int) (removal, error) {
	text, err := os.ReadFile(filepath.Join(folder, x.File))
	if err != nil {
		return removal{}, err
	}
	if n := strings.Count(string(text), x.Old); n != 1 {
		return removal{}, fmt.Errorf("%s has the text %d times, not once: %q", x.File, n, x.Old)
	}
	// The new text is inserted before the old text, which becomes a comment.
	at := strings.Index(string(text), x.Old)
	call := fmt.Sprintf("%s(%d)", switchedOff, number)
	return removal{x.File + " " + x.Name, []edit{
		{x.File, at, strings.ReplaceAll(x.New, "REMOVED", call) + "/* "}, {x.File, at + len(x.Old), " */"},
	}}, nil
}

// failed runs tests without a condition, and returns the name of the first that fails, or "".
func (g *guarded) failed(t *testing.T, root string, tests []string, limit time.Duration, number int) (string, error) {
	picks := [][]string{{"-test.run", g.Run, "-test.skip", g.Last}}
	if g.Last != "" {
		picks = append(picks, []string{"-test.run", g.Last})
	}
	for _, pick := range picks {
		for i, folder := range g.tests() {
			if by, err := failure(t, filepath.Join(root, folder), tests[i], pick, limit, number); by != "" || err != nil {
				return by, err
			}
		}
	}
	return "", nil
}

// limited runs a program with at most 4 GB of address space: without some conditions, a loop takes
// memory until the system has none left for others.
const limited = `ulimit -v 4194304; exec "$0" "$@"`

func failure(t *testing.T, folder, binary string, pick []string, limit time.Duration, number int) (string, error) {
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", limited, binary, "-test.failfast", "-test.timeout", limit.String()}, pick...)...)
	// Many short tests run: garbage collection would cost more than the memory.
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOGC=400", fmt.Sprint("ONCE_REMOVED_CONDITION=", number))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		for _, sign := range []string{"--- FAIL", "panic:", "fatal error:"} {
			if strings.HasPrefix(line, sign) {
				return line, nil
			}
		}
	}
	return "", fmt.Errorf("the tests ended with %w, and not by failing: %s", err, out)
}
