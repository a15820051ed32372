package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

const (
	defaultData   = ".once"
	defaultListen = "127.0.0.1:8080"
	defaultURL    = "http://" + defaultListen
)

func dataFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().String("data", defaultData, "data folder: queues, groups and tokens")
	_ = cmd.MarkFlagDirname("data") // it only fails for a flag that is not there
	return path
}

func (a *app) dev() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the whole system in this process",
		Long: `Dev runs the front door, the engine and the publisher in this process, on one data folder. GET /healthz answers 200 when it is ready. SIGTERM
and ctrl-C drain: what has been started is finished. A kill loses nothing that was acknowledged: the next start goes on.

Without a configuration file it serves one stream, messages, that is forwarded to ` + config.DefaultFile + `.

With --lambda it runs what a deployment would: the bootstrap binaries of the functions as processes behind the Lambda Runtime API, fed by SQS as Lambda feeds
them, with kills, duplicates and hangs on request. DynamoDB and SQS are those of AWS_ENDPOINT_URL_DYNAMODB and AWS_ENDPOINT_URL_SQS: an emulator.`,
		Example: `  once dev
  once dev --config shop.yaml --data /var/lib/once --listen :8080
  localstack/aws.sh run once dev --lambda --config shop.yaml --kill-every 2s --duplicate 0.2`,
		Args: arguments(cobra.NoArgs),
	}
	path, data := configFlag(cmd), dataFlag(cmd)
	listen := cmd.Flags().String("listen", defaultListen, "address to serve HTTP and the SQS protocol on")
	lambda := newLambdaFlags(cmd)
	level := slog.LevelInfo
	cmd.Flags().TextVar(&level, "log-level", slog.LevelInfo, "least severe log entries to print: debug, info, warn or error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := lambda.check(cmd); err != nil {
			return usageError(cmd, err)
		}
		if err := checkListen(*listen); err != nil {
			return usageError(cmd, err)
		}
		c, err := load(cmd, *path)
		if err != nil {
			return err
		}
		for _, w := range c.Warnings() {
			_, _ = fmt.Fprintln(a.err, "warning: "+w)
		}
		log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
		if lambda.on {
			return a.devLambda(cmd.Context(), lambda.options, c, *listen, log)
		}
		return a.serve(cmd.Context(), serverOptions{Config: c.Config, DataDir: *data, Listen: *listen, Stdout: a.out, Log: log}, c.source())
	}
	return cmd
}

// checkListen refuses what can be no address of this machine, before anything is opened: the listener comes last. Whether the port is free shows only then.
func checkListen(address string) error {
	_, _, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.ResolveTCPAddr("tcp", address)
	}
	if err != nil {
		return fmt.Errorf("--listen %q must be HOST:PORT or :PORT: %w", address, err)
	}
	return nil
}

func (a *app) serve(ctx context.Context, o serverOptions, source string) (err error) {
	s, err := a.openServer(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Run(ctx, func(address string) { greet(a.err, o, "http://"+reachable(address), source) })
}

// reachable gives an address that a client on this machine can call, where the server listens on all of them.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// greet tells what runs, and what to try next.
func greet(w io.Writer, o serverOptions, url, source string) {
	_, _ = fmt.Fprintf(w, "\nonce is ready at %s\n\n", url)
	pairs := []string{"  configuration", source, "  data folder", o.DataDir}
	for _, name := range o.Config.StreamNames() {
		s := o.Config.Streams[name]
		pairs = append(pairs, "  stream", fmt.Sprintf("%s (%s) -> %s", name, s.Admission, dash(strings.Join(s.Destinations, ", "))))
	}
	for _, name := range o.Config.DestinationNames() {
		d := o.Config.Destinations[name]
		pairs = append(pairs, "  destination", fmt.Sprintf("%s: %s %s", name, d.Kind(), visible(d)))
	}
	_ = lines(w, pairs...) // standard error is gone: nobody reads this
	stream, flags := example(o.Config)
	at := ""
	if url != defaultURL {
		at = " --url " + url
	}
	show := "once show " + stream
	if key, ok := strings.CutPrefix(flags, "--key "); ok {
		show += " --id " + key
	}
	if o.DataDir != defaultData {
		show += " --data " + o.DataDir
	}
	_, _ = fmt.Fprintf(w, "\n  try     once send %s '{\"hello\":\"world\"}' %s%s\n  twice,  and it counts once; then\n          %s\n\n", stream, flags, at, show)
}

// example gives a stream to try, and the flags that prove a message there to be new.
func example(c *config.Config) (stream, flags string) {
	names := c.StreamNames()
	stream = names[0]
	for _, name := range slices.Backward(names) {
		if s := c.Streams[name]; s.Admission == record.ByKey && (len(s.Destinations) > 0 || c.Streams[stream].Admission != record.ByKey) {
			stream = name
		}
	}
	if c.Streams[stream].Admission == record.BySequence {
		return stream, "--source me --sequence 1"
	}
	return stream, "--key first"
}
