package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// manFolder is where packaging/pages.sh wants the manual pages. They are made by a test because
// only a build needs them: the program does not link the package that formats them.
var manFolder = flag.String("man", "", "write the manual pages to this folder")

// asMarkdown converts a help: cobra takes it for Markdown. A paragraph with an indented line keeps
// its lines.
func asMarkdown(text string) string {
	parts := strings.Split(strings.ReplaceAll(strings.Trim(text, "\n"), "\t", "    "), "\n\n")
	for i, part := range parts {
		if strings.HasPrefix(part, " ") || strings.Contains(part, "\n ") {
			parts[i] = "    " + strings.ReplaceAll(part, "\n", "\n    ")
		} else {
			parts[i] = strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`).Replace(part)
		}
	}
	return strings.Join(parts, "\n\n")
}

// documented calls do for a command and those below it that people see.
func documented(cmd *cobra.Command, do func(cmd *cobra.Command)) {
	if cmd.Hidden || cmd.Name() == "help" {
		return
	}
	do(cmd)
	for _, below := range cmd.Commands() {
		documented(below, do)
	}
}

// TestTheManualHasAPageForEveryCommandWithItsFlags also writes the pages, with -man.
func TestTheManualHasAPageForEveryCommandWithItsFlags(t *testing.T) {
	folder := *manFolder
	if folder == "" {
		folder = t.TempDir()
	}
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	documented(root, func(cmd *cobra.Command) {
		cmd.DisableAutoGenTag = true
		cmd.Long = asMarkdown(cmd.Long)
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		var page strings.Builder
		if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Source: "once " + release, Manual: "once"}, &page); err != nil {
			t.Fatal(err)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if text := `\fB--` + f.Name + `\fP`; !f.Hidden && !strings.Contains(page.String(), text) {
				t.Errorf("%s has no %q", name, text)
			}
		})
		if err := os.WriteFile(filepath.Join(folder, name), []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAParagraphOfAHelpWithIndentedLinesKeepsItsLinesInTheManual(t *testing.T) {
	got := asMarkdown("one\ntwo\n\n  0  done\n  1  failed\n\n\tonce send\n")
	want := "one\ntwo\n\n      0  done\n      1  failed\n\n        once send"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
