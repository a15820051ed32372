package mistakes

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const everyKind = `package kinds

func decide(a, b, ok bool, n, m int, err error) (bool, int) {
	if a && b || n == m {
		n++
	}
	if err != nil {
		return false, 0
	}
	if a = n > m; a {
		n++
	}
	for progress := true; progress && !ok; {
		progress = n < m
	}
	for n < m {
		n++
	}
	for {
		break
	}
	switch {
	case ok, known(n):
		n++
	case !(a && b):
	}
	switch n {
	case 1:
	}
	taken(n, func(n int) bool { return known(n) })
	keep(n >= m, entry{Marks: !ok})
	if (a || b) && (ok) {
		n++
	}
	if ok {
		n++
	}
	if err == nil && n > 0 {
		return known(n), n
	}
	return a, n + m
}

func know(n int) (m int, moved, known bool) { x.equal(n, n == 2); return }

func other(n int) bool { return n == 1 }
`

func TestEveryKindOfConditionIsFound(t *testing.T) {
	folder, next := t.TempDir(), 1
	if err := os.WriteFile(filepath.Join(folder, "kinds.go"), []byte(everyKind), 0o600); err != nil {
		t.Fatal(err)
	}
	found, name, err := removals(folder, "kinds.go", []string{"decide", "know"}, []string{"equal"}, &next)
	if err != nil || name != "kinds" || next != len(found)+1 {
		t.Fatalf("%s, %v, next is %d", name, err, next)
	}
	var got []string
	for _, r := range found {
		got = append(got, strings.TrimPrefix(r.name, "kinds.go "))
	}
	want := []string{
		"decide: a && b || n == m always",
		"decide: a && b",
		"decide: n == m",
		"decide: a",
		"decide: b",
		"decide: a never",
		"decide: a always",
		"decide: n > m never",
		"decide: n > m always",
		"decide: progress && !ok never",
		"decide: progress",
		"decide: !ok",
		"decide: n < m never",
		"decide: n < m always",
		"decide: n < m never (2)",
		"decide: n < m always (2)",
		"decide: ok never",
		"decide: ok always",
		"decide: known(n) never",
		"decide: known(n) always",
		"decide: !(a && b) never",
		"decide: !(a && b) always",
		"decide: a (2)",
		"decide: b (2)",
		"decide: known(n) never (2)",
		"decide: known(n) always (2)",
		"decide: n >= m never",
		"decide: n >= m always",
		"decide: !ok never",
		"decide: !ok always",
		"decide: (a || b) && (ok) never",
		"decide: a || b",
		"decide: ok",
		"decide: a (3)",
		"decide: b (3)",
		"decide: ok never (2)",
		"decide: ok always (2)",
		"decide: err == nil && n > 0 never",
		"decide: n > 0",
		"decide: known(n) never (3)",
		"decide: known(n) always (3)",
		"know: x.equal(n, n == 2)",
		"know: n == 2 never",
		"know: n == 2 always",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	replace, err := write(folder, t.TempDir(), name, "", found)
	if err != nil {
		t.Fatal(err)
	}
	for _, changed := range replace {
		if _, err := parser.ParseFile(token.NewFileSet(), changed, nil, 0); err != nil {
			t.Error(err)
		}
	}
}
