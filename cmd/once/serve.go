package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
)

func (a *app) serve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the whole system as a server for other machines",
		Long: `Serve runs what dev runs, for a network: with TLS, with keys or tokens that callers need, and with limits. The block server: of the configuration has
the settings; without it serve listens on ` + config.DefaultListen + ` and authenticates nobody, as dev does. An address that other machines reach needs server.auth, or
--insecure.

A certificate is read again when its files change. If server.auth is there, every request but GET /healthz needs a key or a token, and the SQS protocol is
refused. The console then asks for server.admin.key, as the password of any user name, and is off without it.

Make a key with: openssl rand -hex 32

If other machines can reach the address and server.auth or server.tls is missing, or if every user of the machine can read a key, serve says so at every
start.

SIGHUP reloads the configuration without an interruption: destinations, retries, keys, limits, and new streams. If something in it can't be changed without
a restart, or has a mistake, nothing is changed, and the log names it. Files of keys and certificates are read again in any case.

GET /healthz answers 200 when it is ready. SIGTERM and ctrl-C drain: work in flight is finished. A kill loses nothing that was acknowledged: the next
start continues. Events and failures are logged to standard error. It tells systemd when it is ready, reloads and stops, and serves its watchdog.`,
		Example: `  once serve --config /etc/once/once.yaml --data /var/lib/once
  once serve --config served.yaml --listen 0.0.0.0:8443 --allow-host once.example.com`,
		Args: arguments(cobra.NoArgs),
	}
	path, data := configFlag(cmd), dataFlag(cmd)
	listen := cmd.Flags().String("listen", "", "address to serve on; default that of the configuration, else "+config.DefaultListen)
	acceptLoss := acceptLossFlag(cmd)
	hosts := hostsFlag(cmd)
	waiting, insecure := waitingFlag(cmd), insecureFlag(cmd)
	pages := consoleFlag(cmd, "that of the configuration")
	level := levelFlag(cmd)
	keys := logKeysFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadServer(cmd, *path)
		if err != nil {
			return err
		}
		o := embedded.Options{
			Config: c, Server: c.Server, DataDir: *data, Listen: cmp.Or(*listen, c.Server.Listen, config.DefaultListen), Insecure: *insecure,
			AllowHosts: *hosts, MaxWaiting: *waiting, Stdout: a.out, LogKeys: *keys, AcceptLoss: *acceptLoss,
			Log: slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level.Level})),
		}
		address, err := complete(cmd, &o, *pages)
		if err != nil {
			return err
		}
		for _, w := range c.Warnings() {
			_, _ = fmt.Fprintln(a.err, "warning: "+w)
		}
		for _, w := range c.Server.Exposed(address) {
			_, _ = fmt.Fprintln(a.err, "WARNING: "+w)
		}
		v := supervised(o, func() (*config.Config, error) { return loadServer(cmd, *path) })
		v.options.Listen = address // resolved, for its warnings
		return a.runServer(cmd.Context(), o, v, func(address string) {
			announce(o, address)
			close(v.ready)
		})
	}
	return cmd
}

// loadServer reads the configuration of a server.
func loadServer(cmd *cobra.Command, path string) (*config.Config, error) {
	c, err := load(cmd, path)
	if err != nil {
		return nil, err
	}
	if c.Server == nil {
		c.Server = &config.Server{}
	}
	return c.Config, nil
}

// consoleOf returns the setting of the console, by a flag or by the configuration. By default,
// there is none on an address that other machines reach: it shows bodies to everyone who asks.
func consoleOf(flag, listen string, c *config.Server) (embedded.Console, error) {
	setting := embedded.Console(cmp.Or(flag, c.Console))
	closed := c.Auth != nil && c.Admin == nil // callers are authenticated, and operators can't be
	switch err := setting.Check(); {
	case err != nil:
		return "", fmt.Errorf("--%w", err)
	case setting == "" && config.Loopback(listen) && !closed:
		return embedded.ConsoleRead, nil
	case setting == "":
		return embedded.ConsoleOff, nil
	case setting != embedded.ConsoleOff && closed:
		return "", errors.New("--console needs server.admin.key in the configuration, because callers are authenticated")
	}
	return setting, nil
}

// announce logs how a server that is ready can be reached, and what protects it.
func announce(o embedded.Options, address string) {
	scheme := "http"
	if o.Server.TLS != nil {
		scheme = "https"
	}
	auth := []string{}
	if o.Server.Auth != nil && o.Server.Auth.Keys != "" {
		auth = append(auth, "keys")
	}
	if o.Server.Auth != nil && o.Server.Auth.OIDC != nil {
		auth = append(auth, "tokens of "+o.Server.Auth.OIDC.Issuer)
	}
	if len(auth) == 0 {
		auth = append(auth, "nobody is authenticated")
	}
	o.Log.Info("ready", "url", scheme+"://"+reachable(address), "address", address, "auth", auth, "console", o.Console, "data", o.DataDir)
}
