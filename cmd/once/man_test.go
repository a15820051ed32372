package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manual returns the pages that once man writes, by the names of their files.
func manual(t *testing.T) map[string]string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "man1")
	w := newWorld(t)
	if code := w.once(t.Context(), "", "man", folder); code != exitOK {
		t.Fatalf("once man: exit %d, want 0: %s", code, w.err.String())
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		pages[f.Name()] = string(text)
	}
	return pages
}

func TestTheManualHasAPageForEveryCommandWithItsFlagsAndExamples(t *testing.T) {
	pages := manual(t)
	var want []string
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "help" {
			return
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		want = append(want, name)
		expected := []string{".TH ", ".SH NAME\n", `once\-exit\-codes(1)`, roff(cmd.Example)}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				expected = append(expected, roff("--"+f.Name)+`\fR`)
			}
		})
		for _, text := range expected {
			if !strings.Contains(pages[name], text) {
				t.Errorf("%s has no %q", name, text)
			}
		}
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	visit(root)
	var got []string
	for name := range pages {
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pages (-want +got)\n%s", d)
	}
}

func TestThePagesOfTheManualUseOnlyMacrosOfMan(t *testing.T) {
	macros := []string{".TH", ".SH", ".PP", ".TP", ".nf", ".fi"}
	for name, text := range manual(t) {
		for line := range strings.Lines(text) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.HasPrefix(line, ".") && !slices.Contains(macros, word) {
				t.Errorf("%s: %s is not a macro of this page: %q", name, word, line)
			}
		}
	}
}

func TestATextOfTheManualHasNoRequestsOfRoff(t *testing.T) {
	if got, want := roff(".so /etc/passwd\n'br\n\\n[x] --a"), `\&.so /etc/passwd`+"\n"+`\(aqbr`+"\n"+`\en[x] \-\-a`; got != want {
		t.Errorf("roff: %q, want %q", got, want)
	}
}

func TestAParagraphWithIndentedLinesKeepsItsLines(t *testing.T) {
	got := paragraphs("one\ntwo\n\n  0  done\n  1  failed\n\n\tonce send\n")
	want := "one\ntwo\n.PP\n.nf\n  0  done\n  1  failed\n.fi\n.PP\n.nf\n    once send\n.fi\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
