// Command words counts how the comments of the source are worded: go -C prove run ./words. With
// -limits it fails if a limit is not met; with -list it prints each hit, to work through them.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A kind is a kind of wording, counted in hits per 10,000 words of comments.
type kind struct {
	name, title string
	pattern     *regexp.Regexp // nil for the share of lines that are too wide, in percent
	least, most float64
}

func kinds() []kind {
	re := func(s string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + s + `)\b`) }
	const (
		what = `what\s+(is|it|its|was|are|were|has|had|they|the|an?|this|that|these|those|no|` +
			`can|could|will|would|may|must|does|did|there|comes|came|stands)`
		where = `where\s+(it|they|that|there|no|none|nothing|nobody|one|something)`
		those = `the\s+one|another\s+one|those\s+(that|of|in|which|with|whose)`
	)
	none := math.Inf(1)
	return []kind{
		{"what", "what is, what it … as a noun", re(what), 0, 5},
		{"gives", "gives, tells", re(`gives|tells`), 0, 5},
		{"whoever", "whoever, whatever, …ever, …body", re(`who(m?)ever|whatever|whichever|(some|no|every|any)body`), 0, 5},
		{"where", "where it, where there … for if", re(where), 0, 5},
		{"those", "the one, those that, another one", re(those), 0, none},
		{"returns", "returns", re(`returns`), 40, none},
		{"if", "if, when", re(`if|when`), 100, none},
		{"wide", "% of comment lines over 100 columns", nil, 0, 1},
	}
}

// A tally is the number of words, of comment lines, and of hits of each kind.
type tally struct {
	words, lines int
	hits         map[string]int
}

func (t *tally) rate(k kind) float64 {
	if k.pattern == nil {
		return 100 * float64(t.hits[k.name]) / float64(max(t.lines, 1))
	}
	return 10_000 * float64(t.hits[k.name]) / float64(max(t.words, 1))
}

func main() {
	limits := flag.Bool("limits", false, "fail if a limit is not met")
	list := flag.String("list", "", "print file:line of each hit of one `kind`: what, gives, whoever, where, those, returns, if, wide")
	flag.Parse()
	if err := run(os.Stdout, cmp.Or(flag.Arg(0), ".."), *list, *limits); err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(1)
	}
}

// run reads the files below root, and prints the table, or the hits of the kind list.
func run(w io.Writer, root, list string, limits bool) error {
	if list != "" && !slices.ContainsFunc(kinds(), func(k kind) bool { return k.name == list }) {
		return fmt.Errorf("no kind %q: -h lists them", list)
	}
	code, tests := tally{hits: map[string]int{}}, tally{hits: map[string]int{}}
	err := eachFile(root, func(path string, source []byte) error {
		into := &code
		if strings.HasSuffix(path, "_test.go") {
			into = &tests
		}
		return into.read(path, source, func(kind string, line int, text string) {
			if kind == list {
				_, _ = fmt.Fprintf(w, "%s:%d: %s\n", path, line, text)
			}
		})
	})
	if err != nil || list != "" {
		return err
	}
	var broken []string
	_, _ = fmt.Fprintf(w, "%-36s %8s %8s   %s\n", "per 10,000 words of comments", "code", "tests", "limit of code")
	for _, k := range kinds() {
		rate, limit := code.rate(k), ""
		if k.least > 0 {
			limit = fmt.Sprintf("at least %.0f", k.least)
		} else if k.most < math.Inf(1) {
			limit = fmt.Sprintf("at most %.0f", k.most)
		}
		if rate < k.least || rate > k.most {
			broken = append(broken, k.name)
		}
		_, _ = fmt.Fprintf(w, "%-36s %8.1f %8.1f   %s\n", k.title, rate, tests.rate(k), limit)
	}
	_, _ = fmt.Fprintf(w, "%-36s %8d %8d\n", "words", code.words, tests.words)
	if limits && len(broken) > 0 {
		return fmt.Errorf("beyond the limits: %s; -list KIND prints the lines", strings.Join(broken, ", "))
	}
	return nil
}

// eachFile calls do for each Go file below root that is not generated.
func eachFile(root string, do func(path string, source []byte) error) error {
	skipped := []string{"testdata", "cdk.out", "dist", "node_modules"}
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (slices.Contains(skipped, name) || name[0] == '.'):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		source, err := os.ReadFile(path) //nolint:gosec // below the given folder
		if err != nil || generated.Match(source) {
			return err
		}
		return do(path, source)
	})
}

// read counts the comments of one file and calls found for each hit. A directive such as
// //go:embed is not a comment. A tab is four columns wide.
func (t *tally) read(path string, source []byte, found func(kind string, line int, text string)) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	code := bytes.Split(bytes.ReplaceAll(source, []byte("\t"), []byte("    ")), []byte("\n"))
	for _, group := range file.Comments {
		first := set.Position(group.Pos()).Line
		hit := func(kind string, i int) {
			t.hits[kind]++
			found(kind, first+i, string(bytes.TrimSpace(code[first+i-1])))
		}
		var text []string // a string for each line, empty for a directive
		for _, c := range group.List {
			text = append(text, strings.Split(marks.ReplaceAllString(c.Text, ""), "\n")...)
		}
		for i, line := range text {
			if line != "" {
				t.lines++
				t.words += len(strings.Fields(line))
				if utf8.RuneCount(code[first+i-1]) > 100 {
					hit("wide", i)
				}
			}
		}
		all := strings.Join(text, "\n") // a phrase may go on in the next line
		for _, k := range kinds() {
			if k.pattern == nil {
				continue
			}
			for _, at := range k.pattern.FindAllStringIndex(all, -1) {
				hit(k.name, strings.Count(all[:at[0]], "\n"))
			}
		}
	}
	return nil
}

// marks matches the parts of a comment that are not prose: its slashes, or a whole directive.
var marks = regexp.MustCompile(`^//[a-z]+:.*|^/[/*]|\*/$`)
