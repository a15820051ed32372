package main

import (
	stdcmp "cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

const (
	pageFile = "../../docs/cli.md"
	pageMark = "<!-- What follows is the commands' own help: go test ./cmd/once -run Page -update -->\n"
)

// TestThePageOfTheCommandLineHasTheHelpOfTheCommands keeps the help in docs/cli.md equal to the
// commands'; -update writes it. The text before the mark is written by hand.
func TestThePageOfTheCommandLineHasTheHelpOfTheCommands(t *testing.T) {
	stored, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	byHand, _, ok := strings.Cut(string(stored), pageMark)
	if !ok {
		t.Fatal("the mark is gone")
	}
	page := byHand + pageMark + help(t)
	if *update {
		if err := os.WriteFile(pageFile, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(stored), page); d != "" {
		t.Errorf("run go test ./cmd/once -run Page -update (-stored +commands)\n%s", d)
	}
}

// A section of the page is the help of a command.
type section struct {
	name  string
	lines []string
}

// inMany is how many commands have to have a flag with one text, so that the page has it once.
const inMany = 5

func help(t *testing.T) string {
	t.Helper()
	var sections []section
	w := newWorld(t)
	var add func(names []string, cmd *cobra.Command)
	add = func(names []string, cmd *cobra.Command) {
		names = append(names, cmd.Name())
		if code := w.once(t.Context(), "", append([]string{"help"}, names...)...); code != 0 {
			t.Fatalf("help %s: exit %d", names, code)
		}
		sections = append(sections, section{strings.Join(names, " "), strings.Split(strings.TrimSpace(w.out.String()), "\n")})
		for _, below := range cmd.Commands() {
			add(names, below)
		}
	}
	for _, cmd := range (&app{}).root().Commands() {
		if !cmd.Hidden {
			add(nil, cmd)
		}
	}
	common := commonFlags(sections)
	var page strings.Builder
	fmt.Fprintf(&page, "\n## Common flags\n\n```text\n%s\n```\n", strings.Join(slices.Sorted(maps.Values(common)), "\n"))
	for _, s := range sections {
		var names []string
		s.lines = slices.DeleteFunc(s.lines, func(line string) bool {
			name, text := flagOf(line)
			if name == "--help" || text != "" && common[name] == text {
				names = append(names, name)
				return true
			}
			return false
		})
		if names = slices.DeleteFunc(names, func(name string) bool { return name == "--help" }); len(names) > 0 {
			s.lines = append(s.lines, "", "Common flags: "+strings.Join(names, " "))
		}
		text := strings.TrimSpace(strings.ReplaceAll(strings.Join(s.lines, "\n")+"\n", "\nFlags:\n\n", "\n"))
		fmt.Fprintf(&page, "\n## %s\n\n```text\n%s\n```\n", s.name, text)
	}
	return page.String()
}

var flagLine = regexp.MustCompile(`^ +(-\w, )?(--[a-z-]+)( [a-z]+)? {2,}(.*)$`)

// flagOf returns the name of the flag that a line of a help describes, and the description without
// the width of its columns.
func flagOf(line string) (name, text string) {
	if m := flagLine.FindStringSubmatch(line); m != nil {
		return m[2], stdcmp.Or(m[1], "    ") + m[2] + m[3] + "  " + m[4]
	}
	return "", ""
}

// commonFlags returns the descriptions of flags that many commands have, by the names of the flags.
func commonFlags(sections []section) map[string]string {
	count, common := map[string]int{}, map[string]string{}
	for _, s := range sections {
		for _, line := range s.lines {
			name, text := flagOf(line)
			if name == "" || name == "--help" {
				continue
			}
			if count[text]++; count[text] >= inMany && count[text] > count[common[name]] {
				common[name] = text
			}
		}
	}
	return common
}
