// Command check compares the source with the rules that .ci/run enforces and no linter has. Run it
// from the root of the source with: go -C prove run ./check -h.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
)

// A command is the first argument. define adds its flags, and returns its action.
type command struct {
	name, what string
	examples   []string
	define     func(*flag.FlagSet) action
}

// An action prints its result to out, and remarks for people to notes.
type action func(ctx context.Context, t *tree, out, notes io.Writer, args []string) error

func commands() []command {
	return []command{
		{"budget", "measures the sizes of prove/check/budgets.yaml, and fails if one is above its budget", []string{
			"budget                   measures everything; builds once and two test programs",
			"budget -quick            measures only what needs no build",
			"budget -fall             writes the measured numbers that are lower into the file",
			"budget -base main        fails if a budget was raised since main without its reason",
			"budget -binary out/once  measures this program in place of building one",
		}, defineBudget},
		{"steps", "prints the steps of .ci/run that a change needs, one a line, and the reasons on standard error", []string{
			"steps -base main                those for all that differs from main, commits or not",
			"steps internal/queue/queue.go   those for a change of these files",
		}, defineSteps},
		{"realtime", "finds tests that sleep, measure time, wait for less than 10 s or listen on a fixed port", []string{
			"realtime        prints each with what to do, and fails if there is one",
			"realtime -list  prints those that are kept, with their reasons, too",
		}, defineRealtime},
		{"slow", "prints the slow tests with the reasons of prove/check/slow.yaml, and fails if a test did not run", []string{
			"slow test.json                       reads the output of go test -json from files",
			"slow < test.json                     or from standard input",
			"slow -limit 9s test.json bench.json  prints those above nine seconds",
			"slow -packages bench/... test.json   fails too if a test of module bench did not run",
		}, defineSlow},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

// run runs the command that the arguments name. It returns [flag.ErrHelp] after it has printed a
// help.
func run(ctx context.Context, args []string, out, problems io.Writer) error {
	if len(args) == 0 || slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		usage(problems)
		return flag.ErrHelp
	}
	i := slices.IndexFunc(commands(), func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return fmt.Errorf("no check has the name %q; -h lists them", args[0])
	}
	c := commands()[i]
	flags := flag.NewFlagSet("check "+c.name, flag.ContinueOnError)
	flags.SetOutput(problems)
	flags.Usage = func() {
		_, _ = fmt.Fprintf(problems, "%s %s.\n\n", c.name, c.what)
		for _, e := range c.examples {
			_, _ = fmt.Fprintf(problems, "  go -C prove run ./check %s\n", e)
		}
		_, _ = fmt.Fprintln(problems)
		flags.PrintDefaults()
	}
	root := flags.String("root", "..", "`folder` of the source")
	do := c.define(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	t, err := openTree(ctx, *root)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if err := do(ctx, t, out, problems, flags.Args()); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

func usage(w io.Writer) {
	_, _ = fmt.Fprint(w, "usage: go -C prove run ./check NAME [flags]\n")
	for _, c := range commands() {
		_, _ = fmt.Fprintf(w, "\n%s %s\n", c.name, c.what)
		for _, e := range c.examples {
			_, _ = fmt.Fprintf(w, "  go -C prove run ./check %s\n", e)
		}
	}
	_, _ = fmt.Fprint(w, "\ngo -C prove run ./check NAME -h lists the flags.\n")
}
