package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/testkit/overlay"
)

const (
	module = "github.com/effectively-once/once"
	// allErrors has the compiler print all errors. It is the same in each build, or all would be
	// compiled again.
	allErrors = "-gcflags=" + module + "/...=-e"
)

// A folder is one package, as printed by go list.
type folder struct {
	Dir, ImportPath, Name string
	GoFiles               []string
	TestGoFiles           []string
	XTestGoFiles          []string
}

func (f *folder) path() string {
	return strings.TrimPrefix(strings.TrimPrefix(f.ImportPath, module), "/")
}

// tested reports whether a package has tests of its own.
func (f *folder) tested() bool { return len(f.TestGoFiles)+len(f.XTestGoFiles) > 0 }

func goList(ctx context.Context, root string, args ...string) ([]folder, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,Name,GoFiles,TestGoFiles,XTestGoFiles"}, args...)...) //nolint:gosec // own arguments
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var list []folder
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var f folder
		if err := d.Decode(&f); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if strings.HasPrefix(f.ImportPath, module) {
			list = append(list, f)
		}
	}
}

// A changed source is the product with all mutants in it.
type changed struct {
	root    string
	mutants []*mutant
	files   map[string][]*mutant // by absolute path
	sources map[string][]byte
	names   map[string]folder // the packages, by folder
}

// change finds the mutants of packages, and numbers them from 1 in each: when one package changes,
// the others need not be compiled again.
func change(root string, packages []folder) (*changed, error) {
	c := &changed{root: root, files: map[string][]*mutant{}, sources: map[string][]byte{}, names: map[string]folder{}}
	for _, p := range packages {
		first := len(c.mutants)
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			source, err := os.ReadFile(path) //nolint:gosec // own source
			if err != nil {
				return nil, err
			}
			found, err := find(p.path(), name, source)
			if err != nil {
				return nil, err
			}
			if len(found) > 0 {
				c.files[path], c.sources[path], c.names[p.Dir] = found, source, p
				c.mutants = append(c.mutants, found...)
			}
		}
		for i, m := range c.mutants[first:] {
			m.number = i + 1
		}
	}
	return c, nil
}

// compile writes the overlay, and drops mutants that do not compile until the rest does.
func (c *changed) compile(ctx context.Context, into string) (list string, err error) {
	for range 20 {
		texts, all := map[string]string{}, map[string]rendered{}
		for path, mutants := range c.files {
			r := render(c.sources[path], mutants)
			texts[path], all[path] = r.text, r
		}
		for dir, p := range c.names {
			texts[filepath.Join(dir, "mutants_switched.go")] = fmt.Sprintf(switches, p.Name, p.path())
		}
		texts[filepath.Join(c.root, "internal/mutantswitch/mutantswitch.go")] = switchPackage
		if list, err = overlay.Write(into, texts); err != nil {
			return "", err
		}
		args := []string{"build", allErrors, "-overlay", list}
		for dir := range c.names {
			args = append(args, dir)
		}
		slices.Sort(args[4:])
		cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // own arguments
		cmd.Dir = c.root
		out, err := cmd.CombinedOutput()
		if err == nil {
			return list, nil
		}
		originals, err2 := replaced(list)
		if err2 != nil {
			return "", err2
		}
		if dropped, unknown := c.drop(string(out), originals, all); dropped == 0 {
			return "", fmt.Errorf("compile the mutants: %w\n%s", err, unknown)
		}
	}
	return "", errors.New("compile the mutants: errors remain after 20 builds")
}

// drop leaves out the mutants at which the compiler found errors.
func (c *changed) drop(out string, originals map[string]string, all map[string]rendered) (dropped int, unknown string) {
	for line := range strings.Lines(out) {
		at := compileError.FindStringSubmatch(line)
		if at == nil {
			continue
		}
		path := at[1]
		if original, ok := originals[path]; ok {
			path = original
		} else if !filepath.IsAbs(path) {
			path = filepath.Join(c.root, path)
		}
		r, ok := all[path]
		row, _ := strconv.Atoi(at[2]) // digits only
		column, _ := strconv.Atoi(at[3])
		if m := r.innermost(row, column); ok && m != nil {
			if !m.dropped {
				m.dropped = true
				dropped++
			}
			continue
		}
		unknown += line
	}
	return dropped, unknown
}

// replaced returns the original file of each file of an overlay: the compiler names either.
func replaced(list string) (map[string]string, error) {
	text, err := os.ReadFile(list) //nolint:gosec // own file
	if err != nil {
		return nil, err
	}
	var overlaid struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlaid); err != nil {
		return nil, err
	}
	originals := map[string]string{}
	for original, file := range overlaid.Replace {
		originals[file] = original
	}
	return originals, nil
}

var compileError = regexp.MustCompile(`^(\S+\.go):(\d+):(\d+): `)

// A binary is the compiled tests of one package, with all mutants in them.
type binary struct {
	folder
	file    string
	reached map[string]bool // by [mutant.id]
	seconds float64
}

// buildTests compiles the tests of packages.
func (c *changed) buildTests(ctx context.Context, list, into string, packages []folder) ([]*binary, error) {
	var out []*binary
	for _, p := range packages {
		if !p.tested() {
			continue
		}
		b := &binary{folder: p, file: filepath.Join(into, fmt.Sprintf("%d.test", len(out))), reached: map[string]bool{}}
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", allErrors, "-ldflags=-s -w", "-overlay", list, "-o", b.file, p.Dir) //nolint:gosec // own arguments
		cmd.Dir = c.root
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile the tests of %s: %w\n%s", p.path(), err, text)
		}
		out = append(out, b)
	}
	return out, nil
}
