package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/lambdadev"
	"github.com/effectively-once/once/internal/lambdahost"
)

// lambdaFlags are the flags of dev that count with --lambda only.
type lambdaFlags struct {
	on      bool
	options lambdadev.Options
}

func newLambdaFlags(cmd *cobra.Command) *lambdaFlags {
	f := &lambdaFlags{}
	flags, o := cmd.Flags(), &f.options
	flags.BoolVar(&f.on, "lambda", false, "run the bootstrap binaries of the functions as Lambda does, on the DynamoDB and SQS of AWS_ENDPOINT_URL_DYNAMODB and _SQS")
	flags.StringVar(&o.Functions, "functions", "", "with --lambda: folder with ingest/bootstrap, process/bootstrap and publish/bootstrap; built inside the repository, else dist")
	flags.StringVar(&o.Name, "name", "once", "with --lambda: beginning of the names of tables and queues, which are made where they are missing")
	flags.DurationVar(&o.Timeout, "timeout", lambdahost.DefaultTimeout, "with --lambda: time limit of an invocation")
	flags.DurationVar(&o.Visibility, "visibility", 0, "with --lambda: when a message that failed comes again (default six times the timeout)")
	flags.IntVar(&o.Pollers, "batches", 2, "with --lambda: how many batches of each queue are worked on at once")
	flags.IntVar(&o.Requests, "requests", 8, "with --lambda: how many requests are worked on at once")
	flags.DurationVar(&o.Sweep, "sweep-every", 0, "with --lambda: time between sweeps (default 5m)")
	flags.DurationVar(&o.Faults.KillEvery, "kill-every", 0, "with --lambda: kill a process of the functions about this often")
	flags.Float64Var(&o.Faults.Duplicate, "duplicate", 0, "with --lambda: share of deliveries handed out twice, 0 to 1")
	flags.Float64Var(&o.Faults.Hang, "hang", 0, "with --lambda: share of invocations that hang until the time limit, 0 to 1")
	return f
}

// check refuses flags that do nothing without --lambda, or with it, and values that nothing can be done with.
func (f *lambdaFlags) check(cmd *cobra.Command) error {
	if !f.on {
		for _, name := range []string{"functions", "name", "timeout", "visibility", "batches", "requests", "sweep-every", "kill-every", "duplicate", "hang"} {
			if cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s needs --lambda", name)
			}
		}
		return nil
	}
	switch o := f.options; {
	case cmd.Flags().Changed("data"):
		return errors.New("--lambda and --data exclude each other: tables and queues keep everything")
	case !share(o.Faults.Duplicate):
		return errors.New("--duplicate must be between 0 and 1")
	case !share(o.Faults.Hang):
		return errors.New("--hang must be between 0 and 1")
	case o.Faults.KillEvery < 0:
		return errors.New("--kill-every must be at least 0")
	case o.Pollers < 1:
		return errors.New("--batches must be at least 1")
	case o.Requests < 1:
		return errors.New("--requests must be at least 1")
	case o.Timeout <= 0:
		return errors.New("--timeout must be more than 0")
	case o.Sweep < 0:
		return errors.New("--sweep-every must be at least 0")
	case o.Visibility != 0 && o.Visibility <= o.Timeout:
		return fmt.Errorf("--visibility must be longer than the timeout, %v: two would work on one delivery", o.Timeout)
	}
	return nil
}

// share is false for NaN too, which flags take.
func share(x float64) bool { return x >= 0 && x <= 1 }

// devLambda runs what would be deployed.
func (a *app) devLambda(ctx context.Context, o lambdadev.Options, c configured, listen string, log *slog.Logger) error {
	o.Config, o.Listen, o.Output, o.Log = c.file, listen, a.err, log
	o.Ready = func(address string) {
		_, _ = fmt.Fprintf(a.err, "\nonce is ready at http://%s: the functions as Lambda runs them\n\n", reachable(address))
		pairs := []string{"  configuration", c.source(), "  tables and queues", o.Name + "-*"}
		for _, name := range c.StreamNames() {
			s := c.Streams[name]
			pairs = append(pairs, "  stream", fmt.Sprintf("%s (%s) -> %s", name, s.Admission, dash(strings.Join(s.Destinations, ", "))))
		}
		_ = lines(a.err, pairs...) // standard error is gone: nobody reads this
	}
	return lambdadev.Run(ctx, o)
}
