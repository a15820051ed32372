package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

const (
	stepsFile  = "prove/check/steps.yaml"
	groupsFile = "e2e/groups.yaml"
)

// A claim says which steps a change of its paths needs.
type claim struct {
	Steps []string `yaml:"steps"`
	Paths []string `yaml:"paths"`
}

// plan is the content of prove/check/steps.yaml and e2e/groups.yaml.
type plan struct {
	Always     []string `yaml:"always"`
	Everything []string `yaml:"everything"`
	Suffice    []string `yaml:"suffice"`
	Claims     []claim  `yaml:"claims"`

	groups []group
	fuzzed map[string]bool // folders with fuzz targets
}

// A group is some of the end-to-end tests. Every change needs a group without paths.
type group struct {
	Name  string   `yaml:"name"`
	Paths []string `yaml:"paths"`
}

func defineSteps(flags *flag.FlagSet) action {
	base := flags.String("base", "", "`revision` with which the source is compared; without it every step runs")
	return func(ctx context.Context, t *tree, out, notes io.Writer, paths []string) error {
		p, err := readPlan(t)
		if err != nil {
			return err
		}
		if len(paths) == 0 {
			paths, err = t.changed(ctx, *base)
		}
		needed := p.needed(paths)
		if err == nil {
			err = t.addTests(ctx, needed, paths)
		}
		if err != nil {
			needed = p.all(err.Error())
		}
		names := p.names()
		rank := func(name string) int { return cmp.Or(slices.Index(names, name)+1, len(names)+1) }
		for _, name := range slices.SortedFunc(maps.Keys(needed), func(a, b string) int {
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
		}) {
			_, _ = fmt.Fprintln(out, name)
			_, _ = fmt.Fprintf(notes, "%-24s %s\n", name, needed[name])
		}
		return nil
	}
}

func readPlan(t *tree) (*plan, error) {
	text, err := t.read(stepsFile)
	if err != nil {
		return nil, err
	}
	p := &plan{fuzzed: map[string]bool{}}
	if err := yaml.UnmarshalWithOptions(text, p, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", stepsFile, err)
	}
	text, err = t.read(groupsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &p.groups); err != nil {
		return nil, fmt.Errorf("%s: %w", groupsFile, err)
	}
	return p, t.each(".go", func(name string, text []byte) error {
		if strings.HasSuffix(name, "_test.go") && bytes.Contains(text, []byte("\nfunc Fuzz")) {
			p.fuzzed[path.Dir(name)] = true
		}
		return nil
	})
}

// changed lists the files that differ from the base, and those that git would add.
func (t *tree) changed(ctx context.Context, base string) ([]string, error) {
	if base == "" {
		return nil, errors.New("no base is given")
	}
	if err := t.ancestor(ctx, base); err != nil {
		return nil, err
	}
	differ, err := t.command(ctx, "git", "diff", "--name-only", "--no-renames", "-z", base)
	if err != nil {
		return nil, err
	}
	added, err := t.command(ctx, "git", "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(differ+added, func(r rune) bool { return r == 0 }), nil
}

// names returns all steps, in the order in which they are printed.
func (p *plan) names() []string {
	names := slices.Clone(p.Always)
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, g := range p.groups {
		add("e2e:" + g.Name)
	}
	for _, c := range p.Claims {
		for _, name := range c.Steps {
			if name != "e2e" || len(p.groups) == 0 {
				add(name)
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(p.fuzzed)) {
		add("fuzz:" + folder)
	}
	return names
}

// all returns every step, for one reason.
func (p *plan) all(why string) map[string]string {
	needed := map[string]string{testStep: why}
	for _, name := range p.names() {
		if !strings.HasPrefix(name, testStep+":") {
			needed[name] = why
		}
	}
	return needed
}

// needed returns the steps that a change of the paths needs, each with its reason.
func (p *plan) needed(paths []string) map[string]string {
	needed := map[string]string{}
	for _, name := range p.Always {
		needed[name] = "always"
	}
	for _, g := range p.groups {
		if len(g.Paths) == 0 {
			needed["e2e:"+g.Name] = "always"
		}
	}
	for _, name := range paths {
		if claimedBy(p.Everything, name) {
			return p.all(name + " changed, and needs every step")
		}
		steps, claimed := p.steps(name)
		if !claimed {
			return p.all(fmt.Sprintf("%s changed, and neither %s nor %s claims it", name, stepsFile, groupsFile))
		}
		for _, step := range steps {
			if _, ok := needed[step]; !ok {
				needed[step] = name + " changed"
			}
		}
	}
	return needed
}

// steps returns the steps that claim a path, and reports whether anything claims it.
func (p *plan) steps(name string) (steps []string, claimed bool) {
	claimed = claimedBy(p.Suffice, name)
	if folder := fuzzFolder(name); p.fuzzed[folder] {
		steps = append(steps, "fuzz:"+folder)
	}
	grouped := false
	for _, g := range p.groups {
		if claimedBy(g.Paths, name) {
			steps, claimed, grouped = append(steps, "e2e:"+g.Name), true, true
		}
	}
	for _, c := range p.Claims {
		if !claimedBy(c.Paths, name) {
			continue
		}
		claimed = true
		for _, step := range c.Steps {
			switch {
			case step != "e2e" || len(p.groups) == 0:
				steps = append(steps, step)
			case !grouped:
				for _, g := range p.groups {
					steps = append(steps, "e2e:"+g.Name)
				}
			}
		}
	}
	return steps, claimed
}

// fuzzFolder returns the folder of the package to which a Go file or an input of a fuzz target
// belongs, or nothing.
func fuzzFolder(name string) string {
	folder, _, found := strings.Cut(name, "/testdata/fuzz/")
	if found {
		return folder
	}
	if path.Ext(name) != ".go" {
		return ""
	}
	return path.Dir(name)
}

// claimedBy reports whether one of the pathspecs matches a path.
func claimedBy(specs []string, name string) bool {
	return slices.ContainsFunc(specs, func(spec string) bool {
		if glob, ok := strings.CutPrefix(spec, ":(glob)"); ok {
			matches, err := path.Match(glob, name)
			return err == nil && matches
		}
		if strings.Contains(spec, "*") {
			return starred(strings.Split(spec, "*"), name)
		}
		return name == spec || strings.HasPrefix(name, strings.TrimSuffix(spec, "/")+"/")
	})
}

// starred reports whether a path has the parts in their order, from its beginning to its end.
func starred(parts []string, name string) bool {
	first, last := parts[0], parts[len(parts)-1]
	rest, found := strings.CutPrefix(name, first)
	if !found {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, rest, found = strings.Cut(rest, part); !found {
			return false
		}
	}
	return strings.HasSuffix(rest, last)
}
