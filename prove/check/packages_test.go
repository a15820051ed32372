package main

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// moduled is a repository with a module: b imports a, and the tests of c import b.
func moduled(t *testing.T) *tree {
	t.Helper()
	tr := planted(t, map[string]string{
		stepsFile: `
always: [tidy, "test:docs"]
everything: [go.mod]
suffice: [prove, docs, a, b, c, d, ":(glob)*.go", "*.md", testdata]
claims:
  - {steps: [test], paths: [localstack]}
  - {steps: ["test:c"], paths: [docs/c.md]}
`,
		"go.mod":           "module github.com/effectively-once/once\n\ngo 1.26\n",
		"once.go":          "package once\n",
		"once_test.go":     "package once\n",
		"a/a.go":           "package a\n",
		"a/a_test.go":      "package a\n",
		"a/inner/inner.go": "package inner\n",
		"b/b.go":           "package b\n\nimport _ \"github.com/effectively-once/once/a\"\n",
		"b/b_test.go":      "package b_test\n",
		"c/c.go":           "package c\n",
		"c/c_test.go":      "package c_test\n\nimport _ \"github.com/effectively-once/once/b\"\n",
		"d/d.go":           "package d\n\nimport _ \"github.com/effectively-once/once/a\"\n",
		"docs/docs.go":     "package docs\n",
		"localstack/up.sh": "\n",
	})
	git(t, tr.root, "add", ".")
	git(t, tr.root, "commit", "-qm", "first")
	return tr
}

func TestAChangeNeedsTheTestsOfThePackagesThatImportIt(t *testing.T) {
	tr := moduled(t)
	for name, want := range map[string]string{
		"a/a.go":             "tidy test:docs test:c test:a test:b",
		"a/page.html":        "tidy test:docs test:c test:a test:b",
		"a/a_test.go":        "tidy test:docs test:a",
		"a/testdata/x/y.txt": "tidy test:docs test:a",
		"a/inner/inner.go":   "tidy test:docs",
		"b/b.go":             "tidy test:docs test:c test:b",
		"c/c.go":             "tidy test:docs test:c",
		"d/d.go":             "tidy test:docs",
		"once.go":            "tidy test:docs test:.",
		"testdata/x":         "tidy test:docs test:.",
		"README.md":          "tidy test:docs",
		"docs/c.md":          "tidy test:docs test:c",
		"localstack/up.sh":   "tidy test",
		"go.mod":             "tidy test",
		"unknown/x":          "tidy test",
	} {
		equal(t, name, stepsOf(t, tr, name), want)
	}
	equal(t, "both", stepsOf(t, tr, "b/b.go", "localstack/up.sh"), "tidy test")
}

func TestSourceThatDoesNotCompileNeedsEveryStep(t *testing.T) {
	tr := moduled(t)
	write(t, tr.root, "a/a.go", "package\n")
	equal(t, "steps", stepsOf(t, tr, "-base", "HEAD"), "tidy test")
}

// Imports say nothing of the files that a test opens.
func TestAChangeOfAFileThatATestReadsNeedsTheTest(t *testing.T) {
	tr, p := repository(t)
	packages, err := tr.packages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	outside := regexp.MustCompile("[\"`]((?:\\.\\./)+[^\"`]*)[\"`]")
	found := 0
	for _, name := range tr.files {
		folder := path.Dir(name)
		if _, ours := packages[folder]; !ours || !strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := tr.read(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range outside.FindAllSubmatch(text, -1) {
			read := path.Join(folder, string(m[1]))
			if slices.Contains(tr.files, path.Join(read, "go.mod")) {
				continue // where a program is built
			}
			for _, other := range tr.files {
				if matches, _ := path.Match(read, other); !matches && !strings.HasPrefix(other, read+"/") || folderOf(packages, other) == folder {
					continue
				}
				found++
				steps, _ := p.steps(other)
				if steps = append(steps, p.Always...); !slices.Contains(steps, testStep) && !slices.Contains(steps, testStep+":"+folder) {
					t.Errorf("a change of %s needs the step %s:%s, because %s names it", other, testStep, folder, name)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("the tests name %d files outside of their folders", found)
	}
}

// The tests of the functions build them.
func TestAChangeOfAFunctionNeedsTheTestsThatBuildIt(t *testing.T) {
	tr, p := repository(t)
	const tests = "internal/system/function"
	packages, err := tr.packages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	built := ours(t, tr, ".", "-tags", "lambda.norpc", "-deps", "./functions/...")
	built = append(built, ours(t, tr, "examples", "-tags", "lambda.norpc", "-deps", "./lambda")...)
	if len(built) < 50 {
		t.Fatalf("the functions are built of %v only", built)
	}
	for _, folder := range built {
		if steps, _ := p.steps(folder + "/any.go"); !packages[tests][folder] && !slices.Contains(steps, testStep+":"+tests) {
			t.Errorf("a change of %s needs the step %s:%s", folder, testStep, tests)
		}
	}
}

func TestNothingShippedImportsAPackageForTests(t *testing.T) {
	tr, _ := repository(t)
	imports := regexp.MustCompile(`"` + module + `/(` + strings.Join(testPackages(), "|") + `)"`)
	if err := tr.each(".go", func(name string, text []byte) error {
		if found := imports.Find(text); found != nil && !forTests(name) {
			t.Errorf("%s imports %s: its lines are shipped, so take it from testPackages", name, found)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, folder := range testPackages() {
		if !slices.ContainsFunc(tr.files, func(name string) bool { return path.Dir(name) == folder }) {
			t.Errorf("%s is not there", folder)
		}
	}
}
