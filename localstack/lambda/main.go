package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/effectively-once/once/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	err := command(ctx, os.Args[1:], os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "lambda:", err)
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "lambda:", err)
	os.Exit(1)
}

// errUsage is returned if the command line or the configuration is wrong. Nothing was started.
var errUsage = errors.New("wrong use")

const defaultConfigFile = "once.yaml"

// command runs the functions with the options in args, and writes logs and messages to stderr.
func command(ctx context.Context, args []string, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	c, err := load(&o)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	o.ready = func(address string) { greet(stderr, address, o, c) }
	return serveFunctions(ctx, o)
}

// parse returns the options in args.
func parse(args []string, stderr io.Writer) (options, error) {
	o := defaults()
	level := slog.LevelInfo
	f := flag.NewFlagSet("lambda", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.config, "config", "", "configuration file (default "+defaultConfigFile+" if it exists, or one stream without destinations)")
	f.StringVar(&o.listen, "listen", o.listen, "loopback address to serve HTTP on")
	f.StringVar(&o.functions, "functions", "", "folder with ingest/bootstrap, process/bootstrap and publish/bootstrap (default: built from the repository, or dist outside it)")
	f.StringVar(&o.name, "name", o.name, "beginning of the names of tables and queues, which are created if they are missing")
	f.DurationVar(&o.timeout, "timeout", o.timeout, "time limit of an invocation")
	f.DurationVar(&o.visibility, "visibility", 0, "visibility timeout of the queues (default six times the time limit)")
	f.IntVar(&o.pollers, "batches", o.pollers, "batches of each queue in flight")
	f.IntVar(&o.batch, "batch", o.batch, "most messages in a batch of a queue that is not FIFO")
	f.IntVar(&o.requests, "requests", o.requests, "HTTP requests in flight")
	f.DurationVar(&o.sweepEvery, "sweep-every", o.sweepEvery, "time between sweeps")
	f.DurationVar(&o.faults.KillEvery, "kill-every", 0, "kill a process of the functions about this often")
	f.Int64Var(&o.faults.KillNth, "kill-nth", 0, "kill the process of each so many-th invocation, during it or after it has answered")
	f.Float64Var(&o.faults.Duplicate, "duplicate", 0, "share of deliveries handed out twice, 0 to 1")
	f.Float64Var(&o.faults.Hang, "hang", 0, "share of invocations that hang until the time limit, 0 to 1")
	f.TextVar(&level, "log-level", level, "least severe log entries to print: debug, info, warn or error")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, fmt.Errorf("%w: %w", errUsage, err)
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%w: unexpected argument %q", errUsage, f.Arg(0))
	}
	o.output, o.log = stderr, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	if err := errors.Join(o.validate(), checkEndpoints(os.Getenv)); err != nil {
		return o, fmt.Errorf("%w: %w", errUsage, err)
	}
	return o, nil
}

// load reads the configuration. If the caller named no file, a missing file is not an error.
func load(o *options) (*config.Config, error) {
	path := o.config
	if path == "" {
		path = defaultConfigFile
	}
	c, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) && o.config == "" {
		return config.Parse("default", []byte(defaultConfig))
	}
	o.config = path
	return c, err
}

// greet prints the address, the names and the streams.
func greet(w io.Writer, address string, o options, c *config.Config) {
	for _, warning := range append(c.Warnings(), c.MissingSecrets()...) {
		_, _ = fmt.Fprintln(w, "warning: "+warning) // ignore a closed standard error
	}
	_, _ = fmt.Fprintf(w, "\nthe functions are ready at http://%s, with tables and queues named %s-*\n", address, o.name)
	for _, name := range c.IngressNames() {
		_, _ = fmt.Fprintf(w, "  source %s: queue %s-source-%s%s\n", name, o.name, name, map[bool]string{true: ".fifo"}[c.Ingress[name].FIFO])
	}
	for _, name := range c.StreamNames() {
		s := c.Streams[name]
		_, _ = fmt.Fprintf(w, "  stream %s (%s) -> %v\n", name, s.Admission, s.Destinations)
	}
}
