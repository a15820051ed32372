package main

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const timed = `{"Action":"start","Package":"github.com/effectively-once/once/internal/x"}
# a line of the compiler
{"Action":"run","Package":"github.com/effectively-once/once/internal/x","Test":"TestKill"}
{"Action":"pass","Package":"github.com/effectively-once/once/internal/x","Test":"TestKill/a","Elapsed":3}
{"Action":"pass","Package":"github.com/effectively-once/once/internal/x","Test":"TestKill","Elapsed":3.04}
{"Action":"pass","Package":"github.com/effectively-once/once/internal/x","Test":"TestFast","Elapsed":1}
{"Action":"fail","Package":"github.com/effectively-once/once","Test":"TestNew","Elapsed":7.5}
{"Action":"pass","Package":"github.com/effectively-once/once/internal/x","Elapsed":4}
`

func TestSlowTestsHaveTheirReasons(t *testing.T) {
	tr := planted(t, map[string]string{
		slowFile:    "- {packages: [internal/x], tests: ^TestKill$, reason: it kills programs}\n- {packages: [internal/other], tests: X, reason: not part of this input}\n",
		"test.json": timed,
	})
	slow := func(flags ...string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), slices.Concat([]string{"slow", "-limit", "2s", "-root", tr.root}, flags, []string{filepath.Join(tr.root, "test.json")}), &out, io.Discard)
		return out.String(), err
	}
	out, err := slow()
	problem(t, err, "")
	equal(t, "output", out, "    7.5 s  . TestNew: not in prove/check/slow.yaml\n    3.0 s  internal/x TestKill: it kills programs\n3 tests, of which 1 took more than 2s and are not listed\n")
	write(t, tr.root, slowFile, "- {packages: [internal/x], tests: ^TestGone$, reason: it kills programs}\n")
	_, err = slow()
	problem(t, err, "slow: prove/check/slow.yaml: internal/x has no test that matches ^TestGone$")
	_, err = slow("-some")
	problem(t, err, "")
	write(t, tr.root, "y_test.go", "package y\n\nfunc TestY() {}\n")
	_, err = slow("-some", "-packages", "internal/x /./.")
	problem(t, err, "")
	tr = planted(t, map[string]string{slowFile: "[]", "test.json": timed, "y/y_test.go": "package y\n\nfunc TestY() {}\n"})
	_, err = slow("-some", "-packages", "y")
	problem(t, err, "slow: y/y_test.go: TestY did not run: a build constraint excludes the file, or TestMain ended early")
	write(t, tr.root, slowFile, "- {packages: [internal/x], tests: ^TestGone$}\n")
	_, err = slow()
	problem(t, err, "slow: prove/check/slow.yaml: entry 1 needs packages, tests and reason")
}

func TestTheListOfSlowTestsIsValid(t *testing.T) {
	text, err := os.ReadFile("slow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := parseSlow(text)
	if err != nil || len(entries) == 0 {
		t.Fatal(len(entries), err)
	}
	tr, _ := repository(t)
	for _, e := range entries {
		for _, folder := range e.Packages {
			if !slices.ContainsFunc(tr.files, func(name string) bool { return path.Dir(name) == folder && strings.HasSuffix(name, "_test.go") }) {
				t.Errorf("%s has no tests", folder)
			}
		}
	}
}

func TestATestThatDidNotRunFails(t *testing.T) {
	tr := planted(t, map[string]string{
		"x/go.mod":            "module x\n",
		"x/a/a_test.go":       "package a\n\nfunc TestMain() {}\nfunc TestA() {}\nfunc Testing() {}\nfunc FuzzA() {}\nfunc (x) TestB() {}\n",
		"x/a/b_linux_test.go": "package a\n\nfunc TestB() {}\nfunc TestC() {}\n",
		"x/b/b_test.go":       "package b\n\nfunc TestB() {}\n",
		"x/b/inner/go.mod":    "module inner\n",
		"x/b/inner/i_test.go": "package inner\n\nfunc TestI() {}\n",
		"y_test.go":           "package y\n\nfunc TestY() {}\n\nfunc ExampleY() {\n\t// Output: y\n}\n\nfunc ExampleZ() {}\n",
	})
	const why = " did not run: a build constraint excludes the file, or TestMain ended early"
	all := []timing{{folder: "x/a", test: "TestA"}, {folder: "x/a", test: "TestB"}, {folder: "x/a", test: "TestC"}, {folder: "x/a", test: "FuzzA"}, {folder: "x/b", test: "TestB"}}
	for _, c := range []struct {
		packages string
		ran      []timing
		some     bool
		want     string
	}{
		{"/x/./...", all, false, ""},
		{"", nil, false, ""},
		{"x/...", all[:4], false, "x/b/b_test.go: TestB" + why},
		{"x/...", append(all[:2:2], all[4]), false, "x/a/a_test.go: FuzzA" + why + "\nx/a/b_linux_test.go: TestC" + why},
		{"x/a x/b", all[:1], true, "x/b/b_test.go: TestB" + why},
		{"/./x/a", all[3:], false, "x/a/a_test.go: TestA" + why + "\nx/a/b_linux_test.go: TestB, TestC" + why},
		{"/./...", all, false, "y_test.go: TestY, ExampleY" + why},
		{"/x/b/inner/.", nil, true, "no test ran\nx/b/inner/i_test.go: TestI" + why},
	} {
		problem(t, tr.unrun(strings.Fields(c.packages), c.ran, c.some), c.want)
	}
}
