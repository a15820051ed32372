package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
)

// opened reads the source that these tests belong to.
var opened = sync.OnceValues(func() (*tree, error) { return openTree(context.Background(), "../..") })

// repository returns the source that these tests belong to, and its steps.
func repository(t *testing.T) (*tree, *plan) {
	t.Helper()
	tr, err := opened()
	if err != nil {
		t.Fatal(err)
	}
	p, err := readPlan(tr)
	if err != nil {
		t.Fatal(err)
	}
	return tr, p
}

func TestEachFileIsClaimed(t *testing.T) {
	tr, p := repository(t)
	for _, name := range tr.files {
		if _, claimed := p.steps(name); !claimed && !claimedBy(p.Everything, name) {
			t.Errorf("nothing in %s claims %s, so each change of it runs every step", stepsFile, name)
		}
	}
}

func TestEachEntryClaimsAFile(t *testing.T) {
	tr, p := repository(t)
	specs := slices.Concat(p.Everything, p.Suffice)
	for _, c := range p.Claims {
		specs = append(specs, c.Paths...)
	}
	for _, spec := range specs {
		if !slices.ContainsFunc(tr.files, func(name string) bool { return claimedBy([]string{spec}, name) }) {
			t.Errorf("%s: no file matches %s", stepsFile, spec)
		}
	}
}

func TestEachStepIsOneOfTheRun(t *testing.T) {
	tr, p := repository(t)
	text, err := tr.read(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, m := range regexp.MustCompile(`(?m)^step_(\w+)\(\)`).FindAllSubmatch(text, -1) {
		known = append(known, string(m[1]))
	}
	for _, name := range p.names() {
		if kind, _, _ := strings.Cut(name, ":"); !slices.Contains(known, kind) {
			t.Errorf("%s: .ci/run has no step %s", stepsFile, name)
		}
	}
	var needed []string
	for _, name := range p.names() {
		kind, _, _ := strings.Cut(name, ":")
		needed = append(needed, kind)
	}
	list := regexp.MustCompile(`(?s)\nsteps=\((.*?)\)`).FindSubmatch(text)
	if list == nil {
		t.Fatal(".ci/run has no list of steps")
	}
	for name := range strings.FieldsSeq(string(list[1])) {
		if !slices.Contains(needed, name) {
			t.Errorf("%s: no change needs the step %s", stepsFile, name)
		}
	}
}

// untested returns the modules, and the folders with tests, that .ci/run does not test.
func untested(t *testing.T, tr *tree) (all []string) {
	t.Helper()
	text := read(t, tr, ".ci/run")
	list := regexp.MustCompile(`(?m)^modules=\((.*)\)$`).FindStringSubmatch(text)
	if list == nil {
		t.Fatal(".ci/run has no list of modules")
	}
	patterns := []string{"./..."}
	for _, m := range regexp.MustCompile(`\(cd (\S+) && (tests [^)]*)\)`).FindAllStringSubmatch(text, -1) {
		for word := range strings.FieldsSeq(m[2]) {
			if word == "." || strings.HasPrefix(word, "./") {
				patterns = append(patterns, m[1]+"/"+word)
			}
		}
	}
	for _, name := range tr.files {
		switch folder := path.Dir(name); {
		case has(folder, "testdata"):
		case path.Base(name) == "go.mod" && !slices.Contains(strings.Fields(list[1]), folder):
			all = append(all, name)
		case strings.HasSuffix(name, "_test.go") && !slices.ContainsFunc(patterns, func(p string) bool { return tr.in(p, folder) }):
			all = append(all, name)
		}
	}
	return all
}

func TestEachModuleAndEachTestIsOneOfTheRun(t *testing.T) {
	tr, _ := repository(t)
	for _, name := range untested(t, tr) {
		t.Errorf("no step of .ci/run tests %s: add its module to the list of modules, and its tests to a step", name)
	}
	tr = planted(t, map[string]string{
		".ci/run":                   "modules=(. e2e)\nstep_e2e() { (cd e2e && tests ./drift && tests . -groups \"$1\"); }\n",
		"a/a_test.go":               "",
		"e2e/go.mod":                "",
		"e2e/e_test.go":             "",
		"e2e/drift/d_test.go":       "",
		"e2e/other/o_test.go":       "",
		"internal/new/go.mod":       "",
		"internal/new/n_test.go":    "",
		"infra/testdata/app/go.mod": "",
	})
	equal(t, "planted", strings.Join(untested(t, tr), " "), "e2e/other/o_test.go internal/new/go.mod internal/new/n_test.go")
}

// A mistake is a change of the text of some files, which must still be there.
func TestAChangeOfAFileWithAMistakeNeedsTheMistakes(t *testing.T) {
	tr, p := repository(t)
	text, err := tr.read("prove/explore/mistakes/testdata/mistakes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var mistakes []struct {
		Changes []struct {
			File string `yaml:"file"`
		} `yaml:"changes"`
	}
	if err := yaml.Unmarshal(text, &mistakes); err != nil {
		t.Fatal(err)
	}
	if len(mistakes) < 100 {
		t.Fatalf("%d mistakes were read", len(mistakes))
	}
	for _, m := range mistakes {
		for _, c := range m.Changes {
			if steps, _ := p.steps(c.File); !slices.Contains(steps, "mistakes") {
				t.Errorf("a change of %s needs the step mistakes", c.File)
			}
		}
	}
}

// ours returns the folders of the product that go list prints in a module.
func ours(t *testing.T, tr *tree, module string, args ...string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Dir = filepath.Join(tr.root, module)
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ") // a package of tests has more
		if folder, ok := strings.CutPrefix(name, "github.com/effectively-once/once/"); ok && !strings.HasSuffix(folder, "_test") {
			folders = append(folders, folder)
		}
	}
	return folders
}

// The explorer runs the product's own code, and other modules import it.
func TestAChangeNeedsTheStepsThatCompileIt(t *testing.T) {
	tr, p := repository(t)
	needed := map[string][]string{"explore": ours(t, tr, "prove", "-deps", "./explore/...")}
	for _, module := range []string{"bench", "examples/sessions", "infra", "watermill"} { // others are always compiled
		needed["build:"+module] = ours(t, tr, module, "-test", "-f", `{{join .Imports "\n"}}`, "./...")
	}
	for step, folders := range needed {
		if len(folders) < 2 {
			t.Errorf("%s needs %v only", step, folders)
		}
		for _, folder := range folders {
			if steps, _ := p.steps(folder + "/any.go"); !slices.Contains(steps, step) {
				t.Errorf("a change of %s needs the step %s", folder, step)
			}
		}
	}
}

func TestAChangeNeedsTheStepsThatSeeIt(t *testing.T) {
	_, p := repository(t)
	for name, want := range map[string][]string{
		"internal/dedup/round.go":                     {"explore", "mistakes"},
		"internal/dedup/dynamostore/commit.go":        {"mistakes", "ports", "stack:ministack", "infra"},
		"internal/queue/sqsqueue/sqsqueue.go":         {"mistakes", "ports", "stack:ministack"},
		"internal/config/config.go":                   {"infra", "scan", "construct", "stack:ministack", "package", "fuzz:internal/config"},
		"internal/jsonpath/testdata/fuzz/FuzzParse/x": {"fuzz:internal/jsonpath"},
		"infra/go.mod":                                {"infra", "scan", "construct", "stack:ministack"},
		"infra/stack.go":                              {"infra", "scan", "construct", "stack:ministack"},
		"docs/security.md":                            {"scan"},
		"docs/operations.md":                          {"infra"},
		"docs/correctness.md":                         {"mistakes"},
		"docs/performance.md":                         {"bench"},
		"functions/process/main.go":                   {"stack:ministack"},
		"packaging/linux/once.1":                      {"package"},
		"packaging/test.sh":                           {"package"},
		"packaging/construct/package.json":            {"construct"},
		"handlers/python/README.md":                   {"python"},
		"handlers/typescript/src/index.ts":            {"typescript"},
		"schema/handler-answer.schema.json":           {"typescript", "python"},
		"watermill/go.mod":                            {"watermill"},
		"middleware.go":                               {"watermill"},
		"bench/go.mod":                                {"bench"},
		"examples/sessions/go.sum":                    {"sessions"},
		"client/session.go":                           {"sessions", "mistakes"},
	} {
		needed := p.needed([]string{name})
		for _, step := range append(want, p.Always...) {
			if _, ok := needed[step]; !ok {
				t.Errorf("a change of %s needs the step %s", name, step)
			}
		}
	}
	needed := p.needed([]string{"docs/decorators.md", "CHANGELOG.md", "prove/check/budgets.yaml"})
	for _, step := range []string{"explore", "mistakes", "infra", "stack:ministack", "ports", "typescript", "bench"} {
		if why, ok := needed[step]; ok {
			t.Errorf("a change of pages does not need %s: %s", step, why)
		}
	}
}

func TestAPathThatNothingClaimsNeedsEveryStep(t *testing.T) {
	_, p := repository(t)
	for name, want := range map[string]string{
		"internal/newthing/x.go": "internal/newthing/x.go changed, and neither prove/check/steps.yaml nor e2e/groups.yaml claims it",
		"planted/x.rs":           "planted/x.rs changed, and neither prove/check/steps.yaml nor e2e/groups.yaml claims it",
		"go.sum":                 "go.sum changed, and needs every step",
		".ci/run":                ".ci/run changed, and needs every step",
	} {
		needed := p.needed([]string{"README.md", name})
		for _, step := range append(p.names(), testStep) {
			if !strings.HasPrefix(step, testStep+":") && needed[step] == "" {
				t.Errorf("a change of %s needs the step %s", name, step)
			}
		}
		equal(t, "reason", needed["format"], want)
	}
}

func TestAPathspecMatchesAsInGit(t *testing.T) {
	for _, c := range []struct {
		spec, name string
		want       bool
	}{
		{"infra", "infra/x/y.go", true},
		{"infra", "infra", true},
		{"infra", "infrared/x.go", false},
		{"infra", "x/infra/y.go", false},
		{"infra/", "infra/y.go", true},
		{"*.md", "README.md", true},
		{"*.md", "docs/a.md", true},
		{"*.md", "docs/a.md.go", false},
		{":(glob)*.go", "once.go", true},
		{":(glob)docs/*", "docs/a.md", true},
		{":(glob)docs/*", "docs/a/b.md", false},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "a-c", false},
		{"ab*bc", "abc", false},
		{":(glob)*.go", "client/once.go", false},
		{"e2e/sqs*", "e2e/sqs_test.go", true},
		{"cmd/once/*backup*", "cmd/once/backup_test.go", true},
	} {
		if got := claimedBy([]string{c.spec}, c.name); got != c.want {
			t.Errorf("%s matches %s: %v", c.spec, c.name, got)
		}
	}
}

// stepped is a repository with steps, groups and one commit.
func stepped(t *testing.T) *tree {
	t.Helper()
	tr := planted(t, map[string]string{
		stepsFile: `
always: [test]
everything: [go.mod]
suffice: [docs, prove]
claims:
  - {steps: [infra, scan], paths: [infra]}
  - {steps: [e2e], paths: [e2e]}
`,
		groupsFile: `
- {name: core, tests: [A]}
- {name: sql, tests: [B], paths: [oncesql, "e2e/sql*"]}
- {name: queues, tests: [C], paths: [internal/queue]}
`,
		"infra/a.go":         "package infra\n",
		"docs/a.md":          "a page\n",
		"e2e/main_test.go":   "package e2e\n",
		"wire/fuzz_test.go":  "package wire\n\nfunc FuzzX() {}\n",
		"oncesql/oncesql.go": "package oncesql\n",
	})
	git(t, tr.root, "add", ".")
	git(t, tr.root, "commit", "-qm", "first")
	return tr
}

func stepsOf(t *testing.T, tr *tree, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), append([]string{"steps", "-root", tr.root}, args...), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

const everyStep = "test e2e:core e2e:sql e2e:queues infra scan fuzz:wire"

func TestCommittedChangedAndNewFilesCount(t *testing.T) {
	tr := stepped(t)
	equal(t, "nothing changed", stepsOf(t, tr, "-base", "HEAD"), "test e2e:core")
	write(t, tr.root, "docs/new.md", "a new page\n")
	equal(t, "a new page", stepsOf(t, tr, "-base", "HEAD"), "test e2e:core")
	write(t, tr.root, "infra/a.go", "package infra // changed\n")
	equal(t, "a changed file", stepsOf(t, tr, "-base", "HEAD"), "test e2e:core infra scan")
	git(t, tr.root, "mv", "oncesql/oncesql.go", "docs/oncesql.go")
	git(t, tr.root, "add", ".")
	git(t, tr.root, "commit", "-qm", "second")
	equal(t, "committed, and one moved away", stepsOf(t, tr, "-base", "HEAD~1"), "test e2e:core e2e:sql infra scan")
	write(t, tr.root, "planted.rs", "")
	equal(t, "a new kind of path", stepsOf(t, tr, "-base", "HEAD"), everyStep)
}

func TestPathsOfTheEndToEndTestsNeedTheirGroupOrAll(t *testing.T) {
	tr := stepped(t)
	equal(t, "of a group", stepsOf(t, tr, "e2e/sql_test.go"), "test e2e:core e2e:sql")
	equal(t, "of no group", stepsOf(t, tr, "e2e/main_test.go"), "test e2e:core e2e:sql e2e:queues")
	if err := os.Remove(tr.root + "/" + groupsFile); err != nil {
		t.Fatal(err)
	}
	equal(t, "without groups", stepsOf(t, tr, "e2e/sql_test.go"), "test e2e")
}

// Folders that are named by hand are tested as in a run: with the race detector and what stands in
// for AWS.
func TestAStepForOneFolderTestsThatFolder(t *testing.T) {
	tr, _ := repository(t)
	script := read(t, tr, ".ci/run")
	version := regexp.MustCompile(`(?m)^summary=(.*)$`).FindStringSubmatch(script)[1]
	out := planted(t, map[string]string{
		".ci/run":                     script,
		"localstack/aws.sh":           "#!/bin/sh\n[ \"$1\" != env ] || echo export AWS=emulated\n",
		".tools/gotestsum-" + version: "#!/bin/sh\necho \"$AWS: $*\"\n",
		"bin/go":                      "#!/bin/sh\necho \"go $*\"\n",
	}).root
	for _, name := range []string{".ci/run", "localstack/aws.sh", ".tools/gotestsum-" + version, "bin/go"} {
		if err := os.Chmod(filepath.Join(out, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), filepath.Join(out, ".ci/run"), "test:client:clock")
	c.Env = append(os.Environ(), "PATH="+filepath.Join(out, "bin")+":"+os.Getenv("PATH"), "WHOLE=")
	text, err := c.CombinedOutput()
	if err != nil {
		t.Fatal(err, string(text))
	}
	for _, want := range []string{"emulated: ", " -race -short -p 4 ./client ./clock\n", "check slow -packages  /./client /./clock "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got %s, want %s", text, want)
		}
	}
}

func TestAChangeBesideAFuzzTargetRunsIt(t *testing.T) {
	tr := stepped(t)
	equal(t, "a file", stepsOf(t, tr, "-base", "HEAD"), "test e2e:core")
	write(t, tr.root, "prove/check/steps.yaml", strings.Replace(read(t, tr, stepsFile), "docs, prove", "docs, prove, wire", 1))
	equal(t, "a file", stepsOf(t, tr, "wire/wire.go"), "test e2e:core fuzz:wire")
	equal(t, "an input", stepsOf(t, tr, "wire/testdata/fuzz/FuzzX/1"), "test e2e:core fuzz:wire")
}

func read(t *testing.T, tr *tree, name string) string {
	t.Helper()
	text, err := tr.read(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWithoutItsBaseEveryStepRuns(t *testing.T) {
	tr := stepped(t)
	equal(t, "an unknown base", stepsOf(t, tr, "-base", "nowhere"), everyStep)
	equal(t, "no base", stepsOf(t, tr), everyStep)
	_, err := tr.changed(t.Context(), "nowhere")
	problem(t, err, "HEAD does not descend from the base nowhere in this clone")
	git(t, tr.root, "checkout", "-q", "--orphan", "moved")
	git(t, tr.root, "commit", "-qm", "another history")
	git(t, tr.root, "tag", "moved-base")
	equal(t, "its own commit", stepsOf(t, tr, "-base", "moved-base"), "test e2e:core")
	git(t, tr.root, "commit", "-qm", "one more", "--amend")
	equal(t, "a base of another history", stepsOf(t, tr, "-base", "moved-base"), everyStep)
}
