package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what comes out to testdata and to the schema")

// traceCase is one "parse NAME", a document, "----" and a result that ends at an empty line.
type traceCase struct{ name, document, result string }

// trace runs every case of a file and compares the results, or writes them with -update.
func trace(t *testing.T, path string, run func(document string) string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, cases := readTrace(string(data))
	if len(cases) == 0 {
		t.Fatalf("%s has no cases", path)
	}
	out := head
	for _, c := range cases {
		got := run(c.document)
		out += "parse " + c.name + "\n" + c.document + "----\n" + got + "\n"
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.result, got); d != "" && !*update {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.TrimRight(out, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func readTrace(text string) (head string, cases []traceCase) {
	var c *traceCase
	inResult := false
	for line := range strings.Lines(text + "\n") {
		name, starts := strings.CutPrefix(line, "parse ")
		switch {
		case c == nil && !starts:
			head += line
		case c == nil:
			c = &traceCase{name: strings.TrimSpace(name)}
		case !inResult && line == "----\n":
			inResult = true
		case !inResult:
			c.document += line
		case strings.TrimSpace(line) == "":
			cases = append(cases, *c)
			c, inResult = nil, false
		default:
			c.result += line
		}
	}
	head = strings.TrimRight(head, "\n") + "\n\n"
	return head, cases
}
