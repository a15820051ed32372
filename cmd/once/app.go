package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
)

// app holds the environment of the commands.
type app struct {
	in       io.Reader
	out, err io.Writer
	terminal bool // err is a terminal: progress may be drawn there
	watched  bool // out is a terminal: a person reads there
	typed    bool // in is a terminal: a person types
	env      func(string) string

	// untilHangup returns a context that also ends with SIGHUP. It may be nil.
	untilHangup func(context.Context) context.Context

	openServer func(embedded.Options) (server, error)
	// inspectFolder opens a folder to read it, editFolder to change its queues. repairFolder opens
	// the destinations too.
	inspectFolder, editFolder, repairFolder opening
	// serveFolder opens a folder for requests of this process.
	serveFolder func(ctx context.Context, dataDir string, c *config.Config) (servedFolder, error)
}

// opening opens a data folder that no server runs on.
type opening func(ctx context.Context, dataDir string, c *config.Config) (folder, error)

// server is a whole system in this process.
type server interface {
	// Run serves until the context ends, finishes work in progress, and returns nil. It calls ready
	// once, with the address on which it listens.
	Run(ctx context.Context, ready func(address string)) error
	Close() error
}

// folder is a data folder that no server runs on.
type folder interface {
	admin.Admin
	Close() error
}

// run runs one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.err = &oneByOne{w: a.err}
	root := a.root()
	completion(root)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if text := err.Error(); text != "" {
		_, _ = fmt.Fprintln(a.err, "once: "+strings.ReplaceAll(safeLines(text), "\n", "\nonce: "))
	}
	return codeOf(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "once",
		Short: "Make at-least-once delivery effectively once",
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
		// A transposition has distance two.
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.Version = built(debug.ReadBuildInfo()).String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Name() != "serve" && a.untilHangup != nil { // serve reloads
			cmd.SetContext(a.untilHangup(cmd.Context()))
		}
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError(cmd, err) })
	root.AddCommand(a.dev(), a.serve(), a.check(), a.send(), a.show(), a.tail(), a.consume(), a.sessions(), a.session(), a.end(), a.schedules(), a.sweep(), a.redrive(), a.drop(), a.skip(), a.backup(), a.restore(), a.verify(), a.logs(), a.version(), exitCodes(), a.consoleOfStack(), a.handler())
	return root
}

// completion makes an unknown shell an error.
func completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return usageError(cmd, fmt.Errorf("%q must be bash, zsh, fish or powershell", args[0]))
	}
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

// oneByOne serialises writes, so that lines are not mixed.
type oneByOne struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneByOne) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

// arguments converts the error of a rule on the number of arguments to a usage error.
func arguments(rule cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := rule(cmd, args); err != nil {
			return usageError(cmd, err)
		}
		return nil
	}
}
