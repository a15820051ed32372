package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var groupNames = flag.String("groups", "", "run the tests of these groups of groups.yaml, separated by commas")

// A group is some of the tests, and the paths whose change needs them. See groups.yaml.
type group struct {
	Name  string
	Tests []string
	Paths []string
}

func readGroups() (groups []group, err error) {
	text, err := os.ReadFile("groups.yaml")
	if err != nil {
		return nil, err
	}
	return groups, yaml.UnmarshalWithOptions(text, &groups, yaml.Strict())
}

// pattern matches the names of the group's tests.
func (g *group) pattern() string { return "^Test(" + strings.Join(g.Tests, "|") + ")" }

// git returns the files of the repository that a command of git lists.
func git(args ...string) ([]string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %v: %w", args, err)
	}
	return strings.Fields(string(out)), nil
}

// selectGroups sets -run to the tests of the groups that the flag names.
func selectGroups() error {
	flag.Parse()
	if *groupNames == "" {
		return nil
	}
	groups, err := readGroups()
	if err != nil {
		return err
	}
	unknown := strings.FieldsFunc(*groupNames, func(c rune) bool { return c == ',' })
	var names, patterns []string
	for _, g := range groups {
		named := slices.Contains(unknown, g.Name)
		unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == g.Name })
		if named {
			names, patterns = append(names, g.Name), append(patterns, g.pattern())
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("groups.yaml has no group %q", unknown)
	}
	fmt.Println("groups:", strings.Join(names, ", "))
	return flag.Set("test.run", strings.Join(patterns, "|"))
}

func TestEveryTestIsInOneGroup(t *testing.T) {
	groups, err := readGroups()
	must(t, err)
	tests := testNames(t)
	for _, name := range tests {
		var in []string
		for _, g := range groups {
			if regexp.MustCompile(g.pattern()).MatchString(name) {
				in = append(in, g.Name)
			}
		}
		if len(in) != 1 {
			t.Errorf("%s is in the groups %q of groups.yaml, want one", name, in)
		}
	}
	for _, g := range groups {
		for _, beginning := range g.Tests {
			if !slices.ContainsFunc(tests, func(name string) bool { return strings.HasPrefix(name, "Test"+beginning) }) {
				t.Errorf("group %s: no test begins with %q", g.Name, beginning)
			}
		}
		for _, path := range g.Paths {
			if files, err := git("ls-files", "--", path); err != nil || len(files) == 0 {
				t.Errorf("group %s: no file is at %q (%v)", g.Name, path, err)
			}
		}
	}
}

// testNames returns the names of the tests of this package.
func testNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := os.ReadDir(".")
	must(t, err)
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(f.Name())
		must(t, err)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}
