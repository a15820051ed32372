package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
)

// app is what the commands need of the world.
type app struct {
	in       io.Reader
	out, err io.Writer
	terminal bool // err is one: progress may be drawn there
	typed    bool // in is one: somebody types
	env      func(string) string

	openServer func(serverOptions) (server, error)
	// inspectFolder opens a folder to look at, repairFolder to mend what is in it: it opens the destinations too.
	inspectFolder, repairFolder opening
}

// opening opens a data folder that no server runs on.
type opening func(ctx context.Context, dataDir string, c *config.Config) (folder, error)

// serverOptions are what a server is opened with.
type serverOptions struct {
	Config  *config.Config
	DataDir string
	Listen  string
	Stdout  io.Writer
	Log     *slog.Logger
}

// server is a whole system in this process.
type server interface {
	// Run serves until the context ends, drains, and gives nil. It calls ready once, with the address that it listens on.
	Run(ctx context.Context, ready func(address string)) error
	Close() error
}

// folder is a data folder that no server runs on.
type folder interface {
	admin.Admin
	Close() error
}

// run runs one command line and gives the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.err = &oneByOne{w: a.err}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if text := err.Error(); text != "" {
		_, _ = fmt.Fprintln(a.err, "once: "+strings.ReplaceAll(text, "\n", "\nonce: "))
	}
	return codeOf(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "once",
		Short: "Make at-least-once delivery behave as if it were exactly once",
		Long: `once takes messages in over HTTP or SQS, drops duplicates, keeps messages in order, and forwards each to its destinations
under a stable identity: effectively once.

Exit codes are explained by: once help exit-codes`,
		Example: `  once dev                                                  # the whole system in this process
  once send messages '{"hello":"world"}' --key first        # send it twice: it counts once
  once show messages                                        # what the system knows`,
		Args:              unknownCommand,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		// A transposition is two steps away.
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Version = built(debug.ReadBuildInfo()).String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, err) })
	root.AddCommand(a.dev(), a.check(), a.cost(), a.send(), a.show(), a.sweep(), a.redrive(), a.version(), exitCodes())
	return root
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError(cmd, fmt.Errorf("%s", text))
}

// oneByOne lets several goroutines write, each line whole.
type oneByOne struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneByOne) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

// arguments makes a usage error of what a rule on the number of arguments says.
func arguments(rule cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := rule(cmd, args); err != nil {
			return usageError(cmd, err)
		}
		return nil
	}
}
