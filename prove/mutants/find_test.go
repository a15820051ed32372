package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const kinds = `package kinds

func decide(a, b bool, n int, err error) (bool, error) {
	if a && !b || n < 2 {
		n++
	}
	for n >= 3 {
		n -= 1
	}
	switch n {
	case 1:
		keep(n)
	case 2:
		return true, nil
	}
	switch {
	case a:
		defer keep(n)
	}
	log.Info("locks, log lines and panics stay")
	mu.Lock()
	f := func() error { return err }
	_ = entry{Name: "x", Empty: nil, List: []entry{{}}, F: f}
	if err != nil {
		return false, err
	}
	return n == 4, f()
}
`

func TestEveryKindOfMutantIsFound(t *testing.T) {
	found, err := find("internal/kinds", "kinds.go", []byte(kinds))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, m := range found {
		m.number = i + 1
		got = append(got, strings.TrimPrefix(m.name, "kinds.go decide: "))
	}
	want := []string{
		"a && !b || n < 2: always",
		"a && !b: left out",
		"n < 2: left out",
		"a: left out",
		"!b: left out",
		"n < 2: or equal",
		"n++: left out",
		"n >= 3: never",
		"n >= 3: always",
		"n >= 3: not equal",
		"n -= 1: left out",
		"keep(n): branch left out",
		"keep(n): left out",
		"true: never",
		"a: never",
		"a: always",
		"defer keep(n): left out",
		"err: nil",
		`"x": zero in (Name)`,
		"[]entry{{}}: zero in (List)",
		"f: zero in (F)",
		"err != nil: never",
		"err != nil: always",
		"false: always",
		"err: nil (2)",
		"n == 4: never",
		"n == 4: always",
		"f(): nil",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("mutants (-want +got)\n%s", d)
	}
	r := render([]byte(kinds), found)
	if _, err := parser.ParseFile(token.NewFileSet(), "kinds.go", r.text, 0); err != nil || strings.Count(r.text, "\n") != strings.Count(kinds, "\n") {
		t.Errorf("%v in\n%s", err, r.text)
	}
}

func TestTheMutantAtACompilerErrorIsTheInnermost(t *testing.T) {
	const source = "package p\n\nfunc f(a, b bool) bool {\n\treturn g(a && b) && a\n}\n"
	found, err := find("p", "p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range found {
		m.number = i + 1
	}
	r := render([]byte(source), found)
	line := strings.Split(r.text, "\n")[3]
	if m := r.innermost(4, strings.Index(line, "b)")+1); m == nil || m.name != "p.go f: b: left out" {
		t.Errorf("at b: %+v in %s", m, line)
	}
	if m := r.innermost(3, 1); m != nil {
		t.Errorf("at the function: %+v", m)
	}
}

func TestTheSampleDoesNotChangeWhenMutantsAreAdded(t *testing.T) {
	draw := func(names ...string) []string {
		c := &changed{}
		for _, name := range names {
			c.mutants = append(c.mutants, &mutant{pkg: "p", name: name})
		}
		sample, err := c.draw(options{sample: 2})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, m := range sample {
			out = append(out, m.name)
		}
		return out
	}
	sample := draw("a", "b", "c", "d", "e")
	if d := cmp.Diff(sample, draw(sample[1], sample[0])); d != "" {
		t.Errorf("sample (-of more +of fewer)\n%s", d)
	}
}

func TestASurvivorWithoutAReasonAndALowScoreAreErrors(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "survivors.yaml"), []byte("p/b: changes nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options{root: folder, survivors: "survivors.yaml"}
	var sample []*mutant
	known := map[string]result{}
	for i := range 20 {
		name := string(rune('a' + i))
		sample = append(sample, &mutant{pkg: "p", name: name})
		known["p/"+name] = result{Mutant: "p/" + name, By: "TestX"}
	}
	known["p/b"] = result{Mutant: "p/b"}
	if err := report(o, sample, known); err != nil {
		t.Errorf("one of 20 survives, with a reason: %v", err)
	}
	known["p/c"] = result{Mutant: "p/c"}
	if err := report(o, sample, known); err == nil || !strings.Contains(err.Error(), "1 mutants survive without a reason") {
		t.Errorf("one survives without a reason: %v", err)
	}
	known["p/d"] = result{Mutant: "p/d"}
	if err := report(o, sample, known); err == nil || !strings.Contains(err.Error(), "85 % of the mutants are noticed") {
		t.Errorf("three of 20 survive: %v", err)
	}
}
