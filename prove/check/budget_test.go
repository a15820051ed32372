package main

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// planted makes a repository with the files, and returns its tree.
func planted(t *testing.T, files map[string]string) *tree {
	t.Helper()
	root := t.TempDir()
	git(t, root, "init", "-q")
	for name, text := range files {
		write(t, root, name, text)
	}
	return reopened(t, root)
}

func git(t *testing.T, root string, args ...string) {
	t.Helper()
	args = append([]string{"-C", root, "-c", "user.name=once", "-c", "user.email=once@example.com"}, args...)
	out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func reopened(t *testing.T, root string) *tree {
	t.Helper()
	out, err := openTree(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// problem checks the text of an error, or that there is none if want is empty.
func problem(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	equal(t, "error", got, want)
}

func TestEachSizeCountsOnlyItsFiles(t *testing.T) {
	tr := planted(t, map[string]string{
		".gitignore":                    "/out/\n",
		"out/ignored.go":                "package out\n",
		"a.go":                          "package a\n\nvar x = 1 //" + "nolint:all // because\n",
		"a_test.go":                     "package a\n",
		"internal/x/x.go":               "package x\n",
		"internal/y/z/z.go":             "package z\n\n",
		"internal/doc.go":               "package internal\n",
		"internal/x/latest/x.go":        "package latest\n",
		"internal/queue/queuetest/q.go": "package queuetest\n",
		"internal/testkit/a/a.go":       "package a\n",
		"oncetest/o.go":                 "package oncetest\n",
		"bench/b.go":                    "package main\n",
		"e2e/b.go":                      "package main\n",
		"prove/b.go":                    "package main\n",
		"examples/b/b.go":               "package main\n",
		"localstack/b.go":               "package main\n",
		"infra/testdata/shop/main.go":   "package main\n",
		"README.md":                     "three words here\n",
		"docs/a.md":                     "# A page\nof five\n",
		"docs/testdata/b.md":            "not counted\n",
	})
	quick, _ := measurements("")
	got, err := measure(t.Context(), tr, quick)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "lines", got["shipped-go-lines"], 3+1+2+1+1+1)
	equal(t, "words", got["page-words"], 3+5)
	equal(t, "largest page", got["largest-page-words"], 5)
	equal(t, "folders", got["internal-folders"], 4)
	equal(t, "exceptions", got["linter-exceptions"], 1)
}

// compared compares measured numbers with the text of a file.
func compared(t *testing.T, budgets string, measured numbers) (string, error) {
	t.Helper()
	text, err := compare(io.Discard, []byte(budgets), measured, false)
	return string(text), err
}

// advice says what to do about a number above its budget.
func advice(budget string) string {
	return `delete as much as you add, or raise it in prove/check/budgets.yaml and write "# raised from ` + budget + `: REASON" above it`
}

func TestOneTooManyOfEachFails(t *testing.T) {
	text, err := os.ReadFile("budgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	budgets, err := parseBudgets(text)
	if err != nil {
		t.Fatal(err)
	}
	for name := range budgets {
		measured := maps.Clone(budgets)
		if _, err := compared(t, string(text), measured); err != nil {
			t.Errorf("within the budgets: %v", err)
		}
		over := 1.0
		if name == "binary-bytes" {
			over += 3 * sizeStep
		}
		measured[name] += over
		want := name + ": " + digits(measured[name]) + ", " + digits(over) + " above the budget of " + digits(budgets[name]) + ": " + advice(strconv.FormatFloat(budgets[name], 'f', -1, 64))
		_, err := compared(t, string(text), measured)
		problem(t, err, want)
	}
}

func TestTheErrorHasNumbersThatAreRead(t *testing.T) {
	_, err := compared(t, "lines: 92000\n", numbers{"lines": 92345})
	problem(t, err, "lines: 92,345, 345 above the budget of 92,000: "+advice("92000"))
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -123: "-123", 114.84: "114.8", 1114.8: "1,114.8"} {
		equal(t, "digits", digits(n), want)
	}
}

func TestTenthsOfAllocationsDoNotFail(t *testing.T) {
	_, err := compared(t, "allocations-x: 114.8\n", numbers{"allocations-x": 115.2})
	problem(t, err, "")
	_, err = compared(t, "allocations-x: 114.8\n", numbers{"allocations-x": 115.6})
	problem(t, err, "allocations-x: 115.6, 0.8 above the budget of 114.8: "+advice("114.8"))
}

func TestANumberWithoutBudgetAndABudgetWithoutNumberFail(t *testing.T) {
	_, err := compared(t, "old: 1\n", numbers{"new": 2})
	problem(t, err, "new: 2, and prove/check/budgets.yaml has no budget for it\nold: nothing measures it; remove it from prove/check/budgets.yaml")
}

func TestBudgetsFall(t *testing.T) {
	text, err := compared(t, "# why\n# raised from 900: a page\nlines: 1000 # remark\n\nbinary-bytes: 900000\nmore: 7\n", numbers{"lines": 985, "binary-bytes": 612345, "more": 8})
	problem(t, err, "more: 8, 1 above the budget of 7: "+advice("7"))
	equal(t, "file", text, "# why\nlines: 985 # remark\n\nbinary-bytes: 700000\nmore: 7\n")
	var out strings.Builder
	if _, err := compare(&out, []byte("lines: 1000\nwords: 1000\n"), numbers{"lines": 989, "words": 991}, false); err != nil {
		t.Fatal(err)
	}
	equal(t, "remarks", strings.Count(out.String(), "can fall"), 1)
}

func TestARaiseNeedsItsReason(t *testing.T) {
	base := []byte("a: 10\nb: 5\n")
	problem(t, raised(base, []byte("a: 9\nb: 5\nc: 3\n")), "")
	problem(t, raised(base, []byte("a: 11\nb: 5\n")), `a: raised to 11 without a reason: write "# raised from 10: REASON" above it`)
	problem(t, raised(base, []byte("# raised from 10: a page for operators\na: 11\nb: 5\n")), "")
	problem(t, raised(base, []byte("# raised from 10: a page for operators\na: 11\nb: 6\n")), `b: raised to 6 without a reason: write "# raised from 5: REASON" above it`)
	problem(t, raised(base, []byte("# raised from 8: an older reason\na: 11\nb: 5\n")), `a: raised to 11 without a reason: write "# raised from 10: REASON" above it`)
}

func TestTheCommandComparesWithTheBase(t *testing.T) {
	tr := planted(t, map[string]string{budgetsFile: "page-words: 3\n", "README.md": "one two three\n"})
	git(t, tr.root, "add", ".")
	git(t, tr.root, "commit", "-qm", "first")
	write(t, tr.root, budgetsFile, "page-words: 5\nlargest-page-words: 5\nshipped-go-lines: 0\ninternal-folders: 0\nlinter-exceptions: 0\nreal-time-sleeps: 0\nreal-time-elapsed: 0\nvirtual-time: 0\n")
	var out strings.Builder
	args := []string{"budget", "-root", tr.root, "-quick"}
	problem(t, run(t.Context(), args, &out, io.Discard), "")
	problem(t, run(t.Context(), append(args, "-base", "HEAD"), &out, io.Discard), `budget: page-words: raised to 5 without a reason: write "# raised from 3: REASON" above it`)
	problem(t, run(t.Context(), append(args, "-base", "nowhere"), &out, io.Discard), "budget: the base nowhere is not in this clone")
	problem(t, run(t.Context(), append(args, "-fall"), &out, io.Discard), "")
	text, err := tr.read(budgetsFile)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "file", strings.HasPrefix(string(text), "page-words: 3\nlargest-page-words: 3\n"), true)
}

func TestTheOutputsOfTestsAreRead(t *testing.T) {
	got, err := matches("=== ATTR  TestX write-units-key 1\n    === ATTR  TestX read-units-key 2\n=== ATTR TestX other 3\n", unitLine, nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "units", got["write-units-key"]*10+got["read-units-key"], 12)
	got, err = matches("BenchmarkMessageToFile-2   20  78 ns/op   114.7 allocs/message\nBenchmarkMessageAccepted   20  78 ns/op   80.00 allocs/message\nPASS\n", allocationLine, allocationNames())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "to a file", got["allocations-http-to-file"], 114.7)
	equal(t, "accepted", got["allocations-http-202"], 80)
	if _, err := matches("ok\n", allocationLine, nil); err == nil {
		t.Error("an output without numbers is no error")
	}
}

func TestAProgramThatIsGivenIsNotBuilt(t *testing.T) {
	tr := planted(t, map[string]string{"once": "12345"})
	got, err := binarySize(filepath.Join(tr.root, "once"))(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "size", got["binary-bytes"], 5)
}

func TestTheHelpListsEachCommand(t *testing.T) {
	var help strings.Builder
	_ = run(t.Context(), []string{"-h"}, io.Discard, &help)
	for _, c := range commands() {
		if !strings.Contains(help.String(), "\n"+c.name+" ") || len(c.examples) == 0 {
			t.Errorf("the help has no %s", c.name)
		}
	}
	problem(t, run(t.Context(), []string{"nothing"}, io.Discard, io.Discard), `no check has the name "nothing"; -h lists them`)
}
