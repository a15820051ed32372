package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// man writes the manual pages. It is hidden: only release builds use it.
func (a *app) man() *cobra.Command {
	cmd := &cobra.Command{
		Use: "man FOLDER", Short: "Write the manual pages into a folder", Hidden: true, Args: arguments(cobra.ExactArgs(1)),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // everybody may read them
			return fmt.Errorf("write manual pages: %w", err)
		}
		return writePages(args[0], cmd.Root(), built(debug.ReadBuildInfo()))
	}
	return cmd
}

// writePages writes the pages of a command and of those below it: once.1, once-send.1 and so on.
func writePages(folder string, cmd *cobra.Command, b build) error {
	path := filepath.Join(folder, pageName(cmd)+".1")
	if err := os.WriteFile(path, []byte(page(cmd, b)), 0o644); err != nil { //nolint:gosec // everybody may read it
		return fmt.Errorf("write manual page: %w", err)
	}
	for _, below := range pagesBelow(cmd) {
		if err := writePages(folder, below, b); err != nil {
			return err
		}
	}
	return nil
}

// pagesBelow returns the commands below a command that have a page.
func pagesBelow(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return c.Hidden || c.Name() == "help"
	})
}

func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

// page returns the manual page of a command, in the man macros of roff.
func page(cmd *cobra.Command, b build) string {
	cmd.InitDefaultHelpFlag()
	date, _, _ := strings.Cut(b.Time, "T")
	name := pageName(cmd)
	var p strings.Builder
	fmt.Fprintf(&p, ".TH %q 1 %q %q \"once\"\n", strings.ToUpper(name), date, "once "+b.Version)
	fmt.Fprintf(&p, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	fmt.Fprintf(&p, ".SH SYNOPSIS\n%s\n", roff(cmd.UseLine()))
	if cmd.Long != "" {
		p.WriteString(".SH DESCRIPTION\n" + paragraphs(cmd.Long))
	}
	writeOptions(&p, "OPTIONS", cmd.NonInheritedFlags())
	writeOptions(&p, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		p.WriteString(".SH EXAMPLES\n" + verbatim(cmd.Example))
	}
	p.WriteString(".SH EXIT STATUS\nSee once\\-exit\\-codes(1).\n")
	if related := related(cmd); len(related) > 0 {
		fmt.Fprintf(&p, ".SH SEE ALSO\n%s\n", strings.Join(related, ",\n"))
	}
	return p.String()
}

// related returns the references to the command above and to those below.
func related(cmd *cobra.Command) []string {
	var out []string
	if cmd.HasParent() {
		out = append(out, roff(pageName(cmd.Parent()))+"(1)")
	}
	for _, below := range pagesBelow(cmd) {
		out = append(out, roff(pageName(below))+"(1)")
	}
	return out
}

func writeOptions(p *strings.Builder, heading string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.WriteString(".SH " + heading + "\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(p, ".TP\n\\fB%s\\fR %s\n%s\n", roff(name), roff(value), roff(usage))
	})
}

// paragraphs converts the text of a help. A paragraph with an indented line keeps its lines.
func paragraphs(text string) string {
	var p strings.Builder
	text = strings.ReplaceAll(strings.Trim(text, "\n"), "\t", "    ")
	for part := range strings.SplitSeq(text, "\n\n") {
		if p.Len() > 0 {
			p.WriteString(".PP\n")
		}
		if strings.HasPrefix(part, " ") || strings.Contains(part, "\n ") {
			p.WriteString(verbatim(part))
		} else {
			p.WriteString(roff(part) + "\n")
		}
	}
	return p.String()
}

// verbatim converts a text whose lines are kept.
func verbatim(text string) string {
	return ".nf\n" + roff(strings.Trim(text, "\n")) + "\n.fi\n"
}

// roff converts a text so that it has no escapes and no requests.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
