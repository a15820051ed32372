package mistakes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/testkit/overlay"
)

// A Joint is one build of the source with many mistakes. An environment variable chooses which of
// them a process makes; without it, the process makes none.
type Joint struct {
	root, folder string
	list         []Mistake
	changed      []map[string]string // by mistake, and by path
	alone        map[int]error       // the mistakes that have builds of their own, and why
	wider        map[int][]string    // what mistakes change beside bodies of functions
	binaries     map[string]string   // by package
}

// Join builds the checks of mistakes into folder, which must be empty. Mistakes that do not compile
// together with the others are left for builds of their own.
func Join(ctx context.Context, root, folder string, list []Mistake) (*Joint, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("join mistakes: %w", err)
	}
	j := &Joint{root: root, folder: folder, list: list, changed: make([]map[string]string, len(list)), alone: map[int]error{}, wider: map[int][]string{}, binaries: map[string]string{}}
	for i, m := range list {
		if j.changed[i], err = overlay.Apply(root, m.Changes); err != nil {
			j.alone[i] = err
		}
	}
	for {
		texts, err := j.combine()
		if err != nil {
			return nil, fmt.Errorf("join mistakes: %w", err)
		}
		before := len(j.alone)
		out, err := j.build(ctx, texts)
		if err == nil {
			return j, nil
		}
		if j.blame(out); len(j.alone) == before {
			return nil, fmt.Errorf("join mistakes: %w\n%s", err, out)
		}
	}
}

// Alone returns the names of the mistakes that have builds of their own, and why.
func (j *Joint) Alone() []string {
	var out []string
	for _, i := range slices.Sorted(maps.Keys(j.alone)) {
		out = append(out, fmt.Sprintf("%s: %v", j.list[i].Name, j.alone[i]))
	}
	return out
}

// combine returns the changed files. A mistake that does not fit into one file is left out of all.
func (j *Joint) combine() (texts map[string]string, err error) {
	versions := map[string][]version{}
	for i, files := range j.changed {
		if j.alone[i] != nil {
			continue
		}
		for path, text := range files {
			versions[path] = append(versions[path], version{i + 1, text})
		}
	}
	clear(j.wider)
	texts, before := map[string]string{}, len(j.alone)
	for _, path := range slices.Sorted(maps.Keys(versions)) {
		original, err := os.ReadFile(path) //nolint:gosec // named by the mistakes
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		c, err := combine(filepath.Base(path), string(original), versions[path])
		if err != nil {
			return nil, err
		}
		for mistake, why := range c.left {
			j.alone[mistake-1] = errors.New(why)
		}
		for mistake, names := range c.wider {
			j.wider[mistake-1] = append(j.wider[mistake-1], names...)
		}
		texts[path] = c.render()
		texts[filepath.Join(filepath.Dir(path), "mistake_switches.go")] = fmt.Sprintf(switches, c.file.Name.Name)
	}
	if len(j.alone) > before {
		return j.combine()
	}
	return texts, nil
}

// build compiles the changed packages, and then the checks. If it fails, out has the errors of the
// compiler.
func (j *Joint) build(ctx context.Context, texts map[string]string) (out string, err error) {
	list, err := overlay.Write(j.folder, texts)
	if err != nil {
		return "", err
	}
	changed := map[string][]string{} // by module
	for path := range texts {
		folder, name := module(filepath.Dir(path))
		changed[folder] = append(changed[folder], name)
	}
	for folder, names := range changed {
		said, failed := goCommand(ctx, folder, append([]string{"build", "-o", os.DevNull, "-overlay", list}, slices.Compact(slices.Sorted(slices.Values(names)))...)...)
		out, err = out+said, errors.Join(err, failed)
	}
	for _, together := range j.packages() {
		if err != nil {
			return out, err
		}
		out, err = j.buildTests(ctx, list, together)
	}
	return out, err
}

func (j *Joint) buildTests(ctx context.Context, list string, packages []string) (out string, err error) {
	into, err := os.MkdirTemp(j.folder, "tests-")
	if err != nil {
		return "", err
	}
	folder, _ := module(filepath.Join(j.root, packages[0]))
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", into + "/"}
	for _, pkg := range packages {
		_, name := module(filepath.Join(j.root, pkg))
		args = append(args, name)
		j.binaries[pkg] = filepath.Join(into, filepath.Base(pkg)+".test")
	}
	return goCommand(ctx, folder, args...)
}

// packages returns the packages of the checks. One command of Go builds those of one module whose
// last names differ.
func (j *Joint) packages() [][]string {
	var all []string
	for i, m := range j.list {
		if j.alone[i] == nil {
			all = append(all, m.check())
		}
	}
	slices.Sort(all)
	together := map[string][]string{}
	for _, pkg := range slices.Compact(all) {
		folder, _ := module(filepath.Join(j.root, pkg))
		n := 0
		key := func() string { return fmt.Sprint(folder, n) }
		for slices.ContainsFunc(together[key()], func(other string) bool { return filepath.Base(other) == filepath.Base(pkg) }) {
			n++
		}
		together[key()] = append(together[key()], pkg)
	}
	return slices.Collect(maps.Values(together))
}

var mistakeInError = regexp.MustCompile(`mistake_(\d+)\.go:\d+`)

// blame leaves out the mistakes in which the compiler found errors, and those that changed what an
// error names. If there are none, it leaves out all that change more than the bodies of functions.
func (j *Joint) blame(out string) {
	before := len(j.alone)
	for line := range strings.Lines(out) {
		var blamed []int
		for i, names := range j.wider {
			if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(line, name) }) {
				blamed = append(blamed, i)
			}
		}
		if at := mistakeInError.FindStringSubmatch(line); at != nil && len(blamed) == 0 {
			number, _ := strconv.Atoi(at[1]) // digits only
			blamed = append(blamed, number-1)
		}
		for _, i := range blamed {
			if j.alone[i] == nil {
				j.alone[i] = fmt.Errorf("it does not compile with the others: %s", strings.TrimSpace(line))
			}
		}
	}
	found := len(j.alone) > before
	for i := range j.wider {
		if j.alone[i] == nil && !found {
			j.alone[i] = errors.New("it changes more than bodies of functions")
		}
	}
}

// Make makes a mistake of the list and returns how it was caught. If it was not, the error wraps
// ErrSurvived.
func (j *Joint) Make(ctx context.Context, i int) (Catch, error) {
	run, err := j.runner(i)
	if err != nil {
		return Catch{}, fmt.Errorf("make mistake %q: %w", j.list[i].Name, err)
	}
	return j.list[i].caught(ctx, run, j.results(i))
}

func (j *Joint) results(i int) string {
	return filepath.Join(j.folder, fmt.Sprint("results-", i, ".json"))
}

// runner returns a function that runs checks with a mistake of the list.
func (j *Joint) runner(i int) (runner, error) {
	switch {
	case j.alone[i] == nil:
		return j.with(i + 1), nil
	case j.changed[i] == nil:
		return nil, j.alone[i]
	}
	list, err := overlay.Write(j.folder, j.changed[i])
	return changedBy(j.root, list), err
}

// with returns a function that runs checks with the mistake of a number, or with none for 0.
func (j *Joint) with(mistake int) runner {
	return func(ctx context.Context, pkg string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, j.binaries[pkg], append([]string{"-test.paniconexit0"}, args...)...) //nolint:gosec // its own binary
		// Many short processes run: garbage collection would cost more than the memory.
		cmd.Dir, cmd.Env = filepath.Join(j.root, pkg), append(os.Environ(), "GOGC=400", "GOMEMLIMIT=2GiB", fmt.Sprint(mistakeNumber, "=", mistake))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}
