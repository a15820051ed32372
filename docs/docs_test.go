// Package docs compares the pages with the code. The checks in e2e run the commands of the pages.
package docs

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
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
	for _, folder := range goFolders(t, "..") {
		if name := filepath.Base(folder); !slices.Contains(named, name) && name != "testdata" {
			t.Errorf("the layout in README.md does not name %s", folder)
		}
	}
	folders := map[string]bool{}
	err := filepath.WalkDir("..", func(_ string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return fs.SkipDir
		}
		folders[d.Name()] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`([a-z0-9-]+)/`).FindAllStringSubmatch(layout, -1) {
		if !folders[m[1]] {
			t.Errorf("the layout in README.md names %s/, which is no folder", m[1])
		}
	}
}

// goFolders returns the folders with Go files for which the layout has names. It leaves out files
// that git does not know: the tutorial has its reader make a folder.
func goFolders(t *testing.T, root string) (folders []string) {
	t.Helper()
	git := exec.CommandContext(t.Context(), "git", "ls-files", "--others", "--directory")
	git.Dir = root
	others, _ := git.Output() // nothing if root is no repository
	unknown := strings.Fields(string(others))
	for _, pattern := range []string{"*", "internal/*", "internal/*/*", "localstack/*", "bench/*", "e2e/*", "prove/*", "prove/*/*"} {
		files, err := fs.Glob(os.DirFS(root), pattern+"/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			isUnknown := func(path string) bool { return strings.HasPrefix(file, path) }
			if folder := path.Dir(file); !slices.Contains(folders, folder) && !slices.ContainsFunc(unknown, isUnknown) {
				folders = append(folders, folder)
			}
		}
	}
	return folders
}

func TestTheLayoutNeedsNoFolderThatGitDoesNotKnow(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"client/client.go", "internal/front/api/api.go", "mystock/main.go", "internal/mine/mine.go"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := goFolders(t, root), []string{"client", "mystock", "internal/mine", "internal/front/api"}; !slices.Equal(got, want) {
		t.Errorf("without a repository: got %v, want %v", got, want)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "client", "internal/front"}} {
		git := exec.CommandContext(t.Context(), "git", args...)
		git.Dir = root
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if got, want := goFolders(t, root), []string{"client", "internal/front/api"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
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
	link, headings := regexp.MustCompile(`\]\(([^)\s]+)\)`), map[string][]string{}
	for path, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
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
			if anchor != "" && headings[target] == nil {
				headings[target] = anchors(read(t, target))
			}
			if anchor != "" && !slices.Contains(headings[target], anchor) {
				t.Errorf("%s links to %s: there is no such heading", path, m[1])
			}
		}
	}
}

// anchors returns a page's headings as links spell them.
func anchors(page string) []string {
	var out []string
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		text := dropped.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(text, " ", "-"))
	}
	return out
}
