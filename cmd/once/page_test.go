package main

import (
	"fmt"
	"os"
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

func help(t *testing.T) string {
	t.Helper()
	w := newWorld(t)
	var page strings.Builder
	var add func(names []string, cmd *cobra.Command)
	add = func(names []string, cmd *cobra.Command) {
		names = append(names, cmd.Name())
		if code := w.once(t.Context(), "", append([]string{"help"}, names...)...); code != 0 {
			t.Fatalf("help %s: exit %d", names, code)
		}
		name := strings.Join(names, " ")
		fmt.Fprintf(&page, "\n## %s\n\n```text\n%s\n```\n", name, strings.TrimSpace(w.out.String()))
		for _, below := range cmd.Commands() {
			add(names, below)
		}
	}
	for _, cmd := range (&app{}).root().Commands() {
		if !cmd.Hidden {
			add(nil, cmd)
		}
	}
	return page.String()
}
