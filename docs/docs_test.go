// Package docs compares the pages with the code. The checks in e2e run the commands of the pages.
package docs

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// pages returns every page, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "../*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			out[path] = read(t, path)
		}
	}
	return out
}

// blocks returns the texts of the fenced blocks of a kind.
func blocks(page, kind string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

func TestEveryConfigurationOnAPageIsValid(t *testing.T) {
	found := 0
	for path, page := range pages(t) {
		for _, text := range blocks(page, "yaml") {
			found++
			if _, err := config.Parse(path, []byte(text)); err != nil {
				t.Error(err)
			}
		}
	}
	if found == 0 {
		t.Error("no page has a configuration")
	}
}

// schema is the JSON Schema that the tables are compared with. It is generated from the types that
// read the configuration.
type schema struct {
	Ref        string            `json:"$ref"`
	Defs       map[string]schema `json:"$defs"`
	Properties map[string]schema
	Enum       []string
	Default    any
}

// fields returns the fields of a type by their names in a table: gap, gap.policy, gap.after.
func (s schema) fields(defs map[string]schema, prefix string) map[string]schema {
	out := map[string]schema{}
	for name, p := range s.Properties {
		out[prefix+name] = p
		if p.Ref != "" {
			maps.Copy(out, defs[strings.TrimPrefix(p.Ref, "#/$defs/")].fields(defs, prefix+name+"."))
		}
	}
	return out
}

// rows returns the rows of the first table of a section, by the name in their first column.
func rows(t *testing.T, page, heading string) map[string]string {
	t.Helper()
	_, section, ok := strings.Cut(page, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("no section %s", heading)
	}
	out, inside := map[string]string{}, false
	for line := range strings.SplitSeq(section, "\n") {
		name, rest, isRow := strings.Cut(strings.TrimPrefix(line, "| `"), "` |")
		switch {
		case isRow && strings.HasPrefix(line, "| `"):
			out[name], inside = rest, true
		case inside:
			return out
		}
	}
	return out
}

func TestTheTablesOfTheConfigurationHaveEveryFieldAndNoOther(t *testing.T) {
	var s schema
	if err := json.Unmarshal([]byte(read(t, "../schema/once.schema.json")), &s); err != nil {
		t.Fatal(err)
	}
	page := read(t, "configuration.md")
	for heading, typ := range map[string]string{"Streams": "Stream", "Destinations": "Destination", "Sources": "Ingress", "Schedules": "Schedule"} {
		fields, table := s.Defs[typ].fields(s.Defs, ""), rows(t, page, heading)
		if diff := cmp.Diff(names(fields), names(table)); diff != "" {
			t.Errorf("%s (-schema +page)\n%s", heading, diff)
		}
		for name, f := range fields {
			for _, word := range f.Enum {
				if !strings.Contains(table[name], "`"+word+"`") {
					t.Errorf("the row of %s does not say %s", name, word)
				}
			}
			if d := defaultText(f.Default); d != "" && !strings.HasPrefix(table[name], " `"+d+"` |") {
				t.Errorf("the row of %s does not give the default %s", name, d)
			}
		}
	}
}

func names[T any](m map[string]T) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func defaultText(v any) string {
	if v == nil {
		return ""
	}
	text, _ := json.Marshal(v) // a value that was decoded from JSON can be encoded
	return strings.Trim(string(text), `"`)
}

func TestEveryGoProgramOnAPageIsPartOfAnExample(t *testing.T) {
	var examples strings.Builder
	for _, pattern := range []string{"../examples/*/*.go", "../*example*_test.go", "../client/example_test.go", "../client/*/example_test.go", "../infra/testdata/*/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			examples.WriteString(read(t, path))
		}
	}
	for _, path := range []string{"../README.md", "tutorial.md", "handlers.md", "howto.md", "sessions.md", "constructs.md"} {
		for _, code := range blocks(read(t, path), "go") {
			if !strings.Contains(examples.String(), code) {
				t.Errorf("%s: no example has this:\n%s", path, code)
			}
		}
	}
}

func TestTheReadmeIsShortAndFitsATerminal(t *testing.T) {
	readme := read(t, "../README.md")
	if n := len(strings.Fields(readme)); n > 1400 {
		t.Errorf("README.md has %d words, more than 1,400: move something to docs/", n)
	}
	for _, picture := range blocks(readme, "text") {
		for line := range strings.Lines(picture) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 80 {
				t.Errorf("README.md has a line of %d columns in a picture:\n%s", n, line)
			}
		}
	}
}

func TestTheReadmeNamesEveryFolderOfGoFiles(t *testing.T) {
	_, layout, _ := strings.Cut(read(t, "../README.md"), "\n## Layout\n")
	layout, _, _ = strings.Cut(layout, "\n## ")
	named := strings.FieldsFunc(layout, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",;/", r) })
	for _, pattern := range []string{"../*", "../internal/*", "../internal/*/*", "../localstack/*", "../bench/*", "../e2e/*", "../prove/*", "../prove/*/*"} {
		files, err := filepath.Glob(pattern + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if name := filepath.Base(filepath.Dir(file)); !slices.Contains(named, name) && name != "testdata" {
				t.Errorf("the layout in README.md does not name %s", filepath.Dir(file))
				named = append(named, name)
			}
		}
	}
}

// go run prints the exit code of the program and exits with 1 itself.
func TestSessionsRunTheInstalledCommand(t *testing.T) {
	for path, page := range pages(t) {
		for _, session := range blocks(page, "console") {
			if strings.Contains(session, "go run ./cmd/once") {
				t.Errorf("%s: write once in place of go run ./cmd/once:\n%s", path, session)
			}
		}
	}
}

func TestTheIndexNamesEveryPage(t *testing.T) {
	index := read(t, "README.md")
	for path := range pages(t) {
		if filepath.Dir(path) == "." && path != "README.md" && !strings.Contains(index, "("+path+")") {
			t.Errorf("docs/README.md does not link to %s", path)
		}
	}
}

func TestAnswersOfTheHowToPageComeFirst(t *testing.T) {
	_, sections, _ := strings.Cut(read(t, "howto.md"), "\n## ")
	for section := range strings.SplitSeq(sections, "\n## ") {
		heading, text, _ := strings.Cut(section, "\n")
		answer, _, _ := strings.Cut(strings.TrimSpace(text), "\n\n")
		if n := strings.Count(answer, "\n") + 1; n > 3 || strings.HasPrefix(answer, "```") {
			t.Errorf("%s: answer in the first three lines, not after %d", heading, n)
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	for path, page := range all {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(page, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s links to %s: there is no such heading", path, m[1])
			}
		}
	}
}

// anchors returns a page's headings as links spell them.
func anchors(page string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(text, " ", "-"))
	}
	return out
}
