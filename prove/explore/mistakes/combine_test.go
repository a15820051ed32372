package mistakes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A combination is a file with a function say, and versions of it.
type combination struct {
	name, original string
	versions       [][2]string // old and new text
	want           []string    // what say returns without a mistake, and with each
	left           string      // why a version does not fit
}

func combinations() []combination {
	change := func(all ...[2]string) [][2]string { return all }
	return []combination{
		{
			"a body and a second one", "func say() string { return one() + two() }\nfunc one() string { return `1` }\nfunc two() string { return `2` }",
			change([2]string{"`1`", "`x`"}, [2]string{"`2`", "`y`"}, [2]string{"{ return one() +", "{\n\t// swapped\n\tif true { return `-` }; return one() +"}),
			[]string{"12", "x2", "1y", "-"},
			"",
		},
		{
			"two mistakes in one function without results", "var said string\n\nfunc say() string { said = `a`; more(); return said }\nfunc more() {\n\tdefer func() { said += `.` }()\n\tsaid += `b`\n}",
			change([2]string{"+= `b`", "+= `c`"}, [2]string{"\tsaid += `b`\n", ""}),
			[]string{"ab.", "ac.", "a."},
			"",
		},
		{
			"a method, and a value of it", "type t struct{ s string }\n\nfunc (t *t) m(string) string { return t.s }\nfunc say() string { f, g := (&t{`p`}).m, (*t).m; return f(``) + g(&t{`q`}, ``) }",
			change([2]string{"return t.s", "return t.s + `!`"}),
			[]string{"pq", "p!q!"},
			"",
		},
		{
			"a method of the same name", "type a struct{}\ntype b struct{}\n\nfunc (a) m() string { return `a` }\nfunc (*b) m() string { return `b` }\nfunc say() string { return a{}.m() + new(b).m() }",
			change([2]string{"`b`", "`c`"}),
			[]string{"ab", "ac"},
			"",
		},
		{
			"a generic function", "func pick[T any](a, b T) T { return a }\nfunc say() string { return pick(`a`, `b`) }",
			change([2]string{"return a", "return b"}),
			[]string{"a", "b"},
			"",
		},
		{
			"a method of a generic type", "type g[T any] struct{ v T }\n\nfunc (g *g[T]) get() T { return g.v }\nfunc say() string { return (&g[string]{`v`}).get() }",
			change([2]string{"{ return g.v }", "{ var zero T; return zero }"}),
			[]string{"v", ""},
			"",
		},
		{
			"recursion", "func say() string { return down(3) }\nfunc down(n int) string {\n\tif n == 0 {\n\t\treturn ``\n\t}\n\treturn `.` + down(n-1)\n}",
			change([2]string{"`.` +", "`:` +"}),
			[]string{"...", ":::"},
			"",
		},
		{
			"named results", "func say() string { s, _ := both(); return s }\nfunc both() (s string, err error) { s = `a`; return }",
			change([2]string{"s = `a`", "s = `b`"}),
			[]string{"a", "b"},
			"",
		},
		{
			"labels", "func say() (s string) {\nagain:\n\tfor i := range 3 {\n\t\tfor range 3 {\n\t\t\ts += `.`\n\t\t\tif i > 0 {\n\t\t\t\tcontinue again\n\t\t\t}\n\t\t}\n\t}\n\treturn s\n}",
			change([2]string{"continue again", "break again"}, [2]string{"i > 0", "i > 1"}),
			[]string{".....", "....", "......."},
			"",
		},
		{
			"a new variable", "import \"fmt\"\n\nfunc say() string { return fmt.Sprint(`a`) }",
			change([2]string{"import \"fmt\"\n", "import (\n\t\"fmt\"\n\t\"strings\"\n)\n\nvar _ = fmt.Sprint\n"}), nil, "it declares value _",
		},
		{
			"an import of a version, and one that a version does not use", "import \"fmt\"\n\nfunc say() string { return fmt.Sprint(`a`) }",
			change([2]string{"import \"fmt\"\n\nfunc say() string { return fmt.Sprint", "import \"strings\"\n\nfunc say() string { return strings.ToUpper"}),
			[]string{"a", "A"},
			"",
		},
		{
			"a constant and a variable", "const n = 3\n\nvar s = []string{`a`}\n\nfunc say() string { return s[0] + `....`[:n] }",
			change([2]string{"n = 3", "n = 1"}, [2]string{"n = 3", "n = 2"}, [2]string{"`a`", "`b`"}),
			[]string{"a...", "a.", "a..", "b..."},
			"",
		},
		{
			"a variable that needs a changed function", "var s = first()\n\nfunc first() string { return `a` }\nfunc say() string { return s }",
			change([2]string{"return `a`", "return `b`"}),
			[]string{"a", "b"},
			"",
		},
		{
			"a new function", "func say() string { return `a` }",
			change([2]string{"return `a` }", "return more() }\n\nfunc more() string { return `b` }"}),
			[]string{"a", "b"},
			"",
		},
		{"a signature", "func say() string { return one() }\nfunc one() string { return `` }", change([2]string{"one() string", "one() (s string)"}), nil, "it changes the declaration of func one"},
		{"a type", "type t struct{}\n\nfunc say() string { return `` }", change([2]string{"struct{}", "struct{ n int }"}), nil, "it changes or removes type t struct{}"},
		{"constants in parentheses", "const (\n\ta = iota\n\tb\n)\n\nfunc say() string { return `` }", change([2]string{"iota", "iota + 1"}), nil, "it changes or removes const ("},
		{"a function less", "func say() string { return `` }\nfunc one() {}", change([2]string{"func one() {}", ""}), nil, "it changes or removes func one"},
		{"no Go", "func say() string { return `` }", change([2]string{"func", "fun"}), nil, "3:1: "},
	}
}

func (c *combination) combine(t *testing.T) *combined {
	t.Helper()
	original := "package main\n\n" + c.original + "\n"
	var versions []version
	for i, v := range c.versions {
		versions = append(versions, version{i + 1, strings.Replace(original, v[0], v[1], 1)})
	}
	found, err := combine("say.go", original, versions)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestACombinedFileBehavesAsTheVersionThatIsChosen(t *testing.T) {
	for _, c := range combinations() {
		t.Run(c.name, func(t *testing.T) {
			found := c.combine(t)
			if c.left != "" {
				if !strings.HasPrefix(found.left[1], c.left) {
					t.Errorf("got %v, want %q", found.left, c.left)
				}
				return
			}
			if len(found.left) > 0 {
				t.Fatal(found.left)
			}
			binary := built(t, map[string]string{
				"go.mod": "module m\n\ngo 1.26.0\n", "say.go": found.render(), "switches.go": fmt.Sprintf(switches, "main"),
				"main.go": "package main\n\nfunc main() { print(say()) }\n",
			})
			for i, want := range c.want {
				cmd := exec.CommandContext(t.Context(), binary)
				cmd.Env = append(os.Environ(), fmt.Sprint(mistakeNumber, "=", i))
				if got, err := cmd.CombinedOutput(); string(got) != want || err != nil {
					t.Errorf("mistake %d: got %q, %v, want %q", i, got, err, want)
				}
			}
		})
	}
}

func built(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := written(t, files)
	binary := filepath.Join(folder, "m")
	if out, err := goCommand(t.Context(), folder, "build", "-ldflags=-s -w", "-o", binary, "."); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, files["say.go"])
	}
	return binary
}

func written(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestTwoVersionsThatDeclareOneFunctionDifferentlyDoNotBothFit(t *testing.T) {
	c := combination{original: "func say() string { return `` }", versions: [][2]string{
		{"return `` }", "return more() }\n\nfunc more() string { return `b` }"},
		{"return `` }", "return more() }\n\nfunc more() string { return `c` }"},
		{"{ return `` }", "{ return `d` + more() }\n\nfunc more() string { return `b` }"},
	}}
	if found := c.combine(t); found.left[2] != "it declares func more" || len(found.left) != 1 {
		t.Errorf("got %v", found.left)
	}
}

// A module whose mistakes can't all be made in one build.
func TestMistakesThatDoNotFitOrCompileHaveBuildsOfTheirOwn(t *testing.T) {
	root := written(t, map[string]string{
		"go.mod":        "module m\n\ngo 1.26.0\n",
		"p/p.go":        "package p\n\nconst n, size = 1, 2\n\nconst many = 3\n\nfunc Sum() int { return n + len([many]int{}) }\n\nfunc More() int { return 4 }\n",
		"p/p_test.go":   "package p\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum() != 4 {\n\t\tt.Error(Sum())\n\t}\n}\n\nfunc TestMore(t *testing.T) {\n\tif More() != 4 {\n\t\tt.Error(More())\n\t}\n}\n",
		"q/p/q.go":      "package q\n\nimport \"m/p\"\n\nfunc Twice() int { return 2 * p.More() }\n",
		"q/p/q_test.go": "package q\n\nimport \"testing\"\n\nfunc TestTwice(t *testing.T) {\n\tif Twice() != 8 {\n\t\tt.Error(Twice())\n\t}\n}\n",
	})
	mistake := func(name, file, was, now, pkg, run string) Mistake {
		return Mistake{Name: name, Changes: []Change{{File: file, Old: was, New: now}}, Test: &Test{pkg, run}}
	}
	list := []Mistake{
		mistake("joint", "p/p.go", "return n", "return 2*n", "./p", "TestSum"),
		mistake("not found", "p/p.go", "return n", "return 2*n", "./p", "TestMore"),
		mistake("constant", "p/p.go", "many = 3", "many = 2", "./p", "TestSum"),
		mistake("two constants", "p/p.go", "= 1, 2", "= 2, 2", "./p", "TestSum"),
		mistake("undefined", "p/p.go", "return n", "return m", "./p", "TestSum"),
		mistake("elsewhere", "p/p.go", "return 4", "return 5", "./q/p", "TestTwice"),
		mistake("gone", "p/p.go", "return 9", "return 5", "./p", "."),
		mistake("added", "p/new_test.go", "", "package p\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) { t.Fail() }\n", "./p", "."),
	}
	j, err := Join(t.Context(), root, t.TempDir(), list)
	if err != nil {
		t.Fatal(err)
	}
	var alone []string
	for _, said := range j.Alone() {
		name, _, _ := strings.Cut(said, ":")
		alone = append(alone, name)
	}
	if want := []string{"constant", "two constants", "undefined", "gone", "added"}; !slices.Equal(alone, want) {
		t.Errorf("got %q, want %q", j.Alone(), want)
	}
	for i, want := range []string{"", ErrSurvived.Error(), "", "", "undefined: m", "", "not once", ""} {
		if _, err := j.Make(t.Context(), i); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", list[i].Name, err, want)
		}
	}
}
