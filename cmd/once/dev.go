package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/embedded"
)

const (
	defaultData   = ".once"
	defaultListen = "127.0.0.1:8080"
	defaultURL    = "http://" + defaultListen
)

func dataFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().String("data", defaultData, "data folder: queues, groups and tokens")
	_ = cmd.MarkFlagDirname("data") // fails only for an unknown flag
	return path
}

func (a *app) dev() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run the whole system in this process",
		Long: `Dev runs the HTTP server, the engine and the publisher in this process, on one data folder. GET /healthz answers 200 when it is ready. SIGTERM,
SIGHUP and ctrl-C drain: work in flight is finished. A kill loses nothing that was acknowledged: the next start continues.

Dev authenticates nobody and ignores the block server: of the configuration, so it refuses an address that other machines reach, unless --insecure is
given. There is no console then, unless --console is given: anyone who can reach it can read bodies.

/console has pages that show what does not move, and why, and the commands that show or mend it. They only read unless --console write is given.

On a terminal it prints one line for each message that is done, fails, or becomes a dead letter; --quiet turns that off. All other events are logged to
standard error, and without a terminal failures are logged there too.

Without a configuration file it serves one stream, messages, that is forwarded to ` + config.DefaultFile + `.

Up to 64 MB more memory let the garbage collector run less often, and in a container it works harder near nine tenths of the container's memory. If
GOGC or GOMEMLIMIT is in the environment, they alone apply.`,
		Example: `  once dev
  once dev --config shop.yaml --data /var/lib/once --listen 127.0.0.1:8090`,
		Args: arguments(cobra.NoArgs),
	}
	path, data := configFlag(cmd), dataFlag(cmd)
	listen := cmd.Flags().String("listen", defaultListen, "address to serve HTTP and the SQS protocol on")
	acceptLoss := acceptLossFlag(cmd)
	hosts := hostsFlag(cmd)
	waiting, insecure := waitingFlag(cmd), insecureFlag(cmd)
	pages := consoleFlag(cmd, "read on a loopback address, else off")
	level := levelFlag(cmd)
	quiet := cmd.Flags().BoolP("quiet", "q", false, "print no line for each message on a terminal")
	keys := logKeysFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := load(cmd, *path)
		if err != nil {
			return err
		}
		o := embedded.Options{Config: c.Config, DataDir: *data, Listen: *listen, Insecure: *insecure, AllowHosts: *hosts, MaxWaiting: *waiting, Stdout: a.out, AcceptLoss: *acceptLoss, Programs: a.err}
		if _, err := complete(cmd, &o, *pages); err != nil {
			return err
		}
		for _, w := range c.Warnings() {
			_, _ = fmt.Fprintln(a.err, "warning: "+w)
		}
		if c.Server != nil {
			_, _ = fmt.Fprintln(a.err, "warning: server: once dev ignores it, and authenticates nobody: use once serve")
		}
		var handler slog.Handler = slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level.Level})
		watch := a.watched && !*quiet
		if watch {
			handler = &console{rest: handler, out: a.out, config: c.Config, keys: *keys}
		}
		o.Log, o.LogKeys = slog.New(handler), *keys || watch
		return a.runServer(cmd.Context(), o, nil, func(address string) { greet(a.err, o, address, c.source()) })
	}
	return cmd
}

// The flags that dev and serve have in common.

func acceptLossFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("accept-loss", false, "start although a part of the data folder is damaged, missing or older than its output files, and log what is lost")
}

func hostsFlag(cmd *cobra.Command) *[]string {
	return cmd.Flags().StringSlice("allow-host", nil, "host name under which clients or a proxy reach this server; may be repeated")
}

func waitingFlag(cmd *cobra.Command) *int {
	return cmd.Flags().Int("max-waiting", api.DefaultMaxWaiting, "callers that wait for handlers at a time; the next one gets 429")
}

func consoleFlag(cmd *cobra.Command, standard string) *string {
	pages := cmd.Flags().String("console", "", "console at /console: off, read, or write, which may send, redrive, drop and skip; default "+standard)
	_ = cmd.RegisterFlagCompletionFunc("console", cobra.FixedCompletions([]string{"off", "read", "write"}, cobra.ShellCompDirectiveNoFileComp))
	return pages
}

func insecureFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("insecure", false, "listen although other machines reach the address and callers are not authenticated; for a proxy or a firewall that decides who calls")
}

func logKeysFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("log-keys", false, "log the keys and the groups of messages, beside their hashes")
}

// complete sets the console by its flag, and returns the resolved address. It refuses wrong
// settings before anything is opened.
func complete(cmd *cobra.Command, o *embedded.Options, console string) (address string, err error) {
	c, remedy := cmp.Or(o.Server, &config.Server{}), "set server.auth in the configuration"
	if o.Server == nil {
		remedy = "use once serve with server.auth"
	}
	if address, err = checkListen(cmd, o.Listen); err != nil {
		return "", err
	}
	o.Console, err = consoleOf(console, address, c)
	switch {
	case o.MaxWaiting < 1:
		err = errors.New("--max-waiting must be at least 1")
	case c.Auth == nil && !o.Insecure && !config.Loopback(address):
		err = fmt.Errorf("listen on %s: %w: listen on 127.0.0.1, or %s, or allow it with --insecure", o.Listen, access.ErrExposed, remedy)
	}
	if err != nil {
		return "", usageError(cmd, err)
	}
	return address, nil
}

// checkListen resolves an address before anything is opened, because the listener is opened last.
// Whether the port is free is only known then. A name that can't be resolved is no usage error: the
// resolver may not be ready, as at boot, and the service manager tries again.
func checkListen(cmd *cobra.Command, address string) (resolved string, err error) {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(cmd.Context(), "tcp", port)
	}
	if err != nil {
		return "", usageError(cmd, fmt.Errorf("--listen %q must be HOST:PORT or :PORT: %w", address, err))
	}
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return "", fmt.Errorf("resolve the address to listen on, %q: %w", address, err)
	}
	return a.String(), nil
}

// runServer runs a server until the context ends. It calls ready once, with its address. v may be
// nil.
func (a *app) runServer(ctx context.Context, o embedded.Options, v *supervisor, ready func(address string)) (err error) {
	s, err := a.openServer(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if r, ok := s.(running); ok && v != nil {
		ended := make(chan struct{})
		var supervising sync.WaitGroup
		supervising.Go(func() { v.run(ctx, r, ended) })
		defer supervising.Wait()
		defer close(ended)
	}
	err = s.Run(ctx, ready)
	if errors.Is(err, syscall.EADDRINUSE) {
		address, setting := o.Listen, "--listen"
		if failed, ok := errors.AsType[*net.OpError](err); ok && o.Server != nil && o.Server.Admin != nil && failed.Addr != nil && sameAddress(failed.Addr, o.Server.Admin.Listen) {
			address, setting = o.Server.Admin.Listen, "server.admin.listen"
		}
		return &exitError{exitAway, fmt.Errorf("address %s is in use by %s, perhaps another once: stop it, or name another address with %s", address, process(listener(address)), setting)}
	}
	return err
}

// sameAddress reports whether an address is the one that a text names.
func sameAddress(a net.Addr, text string) bool {
	named, err := net.ResolveTCPAddr("tcp", text)
	return err == nil && named.String() == a.String()
}

// reachable returns an address for clients on this machine, if the server listens on all addresses.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// outputs returns where the messages of a stream go: to its sessions or logs, and to its
// destinations.
func outputs(s config.Stream) string {
	to := slices.Clone(s.Destinations)
	switch {
	case s.Pool != nil:
		to = slices.Insert(to, 0, "its sessions")
	case s.Log != nil:
		to = slices.Insert(to, 0, "its logs")
	}
	if len(to) == 0 {
		return ", no destinations"
	}
	return " -> " + strings.Join(to, ", ")
}

// greet prints the bound address, the server's settings, and a command to try.
func greet(w io.Writer, o embedded.Options, address, source string) {
	url, anyone := "http://"+reachable(address), ""
	if !config.Loopback(address) {
		anyone = fmt.Sprintf(", and listens on %s: everybody who reaches that can send, read and delete", address)
	}
	_, _ = fmt.Fprintf(w, "\nonce is ready at %s%s\n\n", url, anyone)
	pairs := []string{"  configuration", source, "  data folder", o.DataDir}
	switch o.Console {
	case embedded.ConsoleOff:
	case embedded.ConsoleWrite:
		pairs = append(pairs, "  console", url+"/console (may write)")
	default:
		pairs = append(pairs, "  console", url+"/console")
	}
	for _, name := range o.Config.StreamNames() {
		s := o.Config.Streams[name]
		pairs = append(pairs, "  stream", fmt.Sprintf("%s (%s)%s", name, s.Admission, outputs(s)))
	}
	for _, name := range o.Config.HandlerNames() {
		h := o.Config.Handlers[name]
		pairs = append(pairs, "  handler", fmt.Sprintf("%s: %s %s", name, h.Kind(), visibleHandler(h)))
	}
	for _, name := range o.Config.DestinationNames() {
		d := o.Config.Destinations[name]
		pairs = append(pairs, "  destination", fmt.Sprintf("%s: %s %s", name, d.Kind(), visible(d)))
	}
	_ = lines(w, pairs...) // if standard error is closed, there is no reader
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

// example returns a stream to try, and the flags that a new message there needs.
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
