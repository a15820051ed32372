package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/api"
	pages "github.com/effectively-once/once/internal/front/console"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/embedded"
)

const (
	consoleListen = "127.0.0.1:8090"
	// consoleTime bounds a call of the HTTP API of a stack, with its retries.
	consoleTime = 15 * time.Second
)

const consoleLong = `Console serves pages for a deployed system on an address of this machine, until ctrl-C: groups that wait for a number, groups, messages, logs, sessions, dead letters,
and rates from CloudWatch. Each page names the command that shows the same. The pages only read: they have no form that changes something.

It reads with your AWS credentials, and everyone who can reach the address can read the pages, so it listens on a loopback address only. To look at it from
another machine, forward the port, for example with ssh -L 8090:127.0.0.1:8090.

A page is read again every 15 seconds at most while somebody looks at it. Pages that scan a table or receive dead letters are read only when they are loaded. docs/console.md says
what each page reads, and which permissions it needs. The configuration is read at the start: after a deployment that changes streams, start again.`

// consoleOfStack is the command console.
func (a *app) consoleOfStack() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "console --stack NAME",
		Short: "Serve pages that show a deployed system",
		Long:  consoleLong,
		Example: `  once console --stack Once
  once console --stack Shop/Orders --profile prod --region eu-west-1 --listen 127.0.0.1:9000`,
		Args: arguments(cobra.NoArgs),
	}
	listen := cmd.Flags().String("listen", consoleListen, "loopback address to serve the pages on")
	url := cmd.Flags().String("url", "", "address of the API of the stack; default from its outputs")
	stack := stackFlags(cmd)
	principalFlag(cmd, stack)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := stack.check(cmd); err != nil {
			return usageError(cmd, err)
		}
		if stack.Name == "" {
			return usageError(cmd, errors.New("name the deployed system with --stack; once dev serves the console of a data folder"))
		}
		address, err := checkListen(cmd, *listen)
		if err != nil {
			return err
		}
		if !config.Loopback(address) {
			return usageError(cmd, fmt.Errorf("--listen %q must be a loopback address, such as %s: the pages show what your credentials can read", *listen, consoleListen))
		}
		return a.serveConsole(cmd, stack, *listen, *url)
	}
	return cmd
}

// serveConsole serves the console of a stack until the command is interrupted.
func (a *app) serveConsole(cmd *cobra.Command, o *stackOptions, listen, url string) error {
	ctx := cmd.Context()
	var principal *string
	if cmd.Flags().Changed("principal") {
		principal = &o.principal
	}
	handler, err := a.stackConsole(ctx, o, principal, listen, url)
	if err != nil {
		return err
	}
	listener, err := access.ListenLoopback(ctx, listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return &exitError{exitAway, fmt.Errorf("address %s is in use: name another one with --listen", listen)}
	}
	if err != nil {
		return err
	}
	server := api.Server(listen, handler)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	_, _ = fmt.Fprintf(a.err, "the console of %s is at http://%s%s\n", o.Name, listener.Addr(), pages.Path)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}

// stackConsole opens a stack, and returns its pages.
func (a *app) stackConsole(ctx context.Context, o *stackOptions, principal *string, listen, url string) (http.Handler, error) {
	found, err := deployed.Open(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	system, err := found.System(deployed.SystemOptions{Principal: principal, Log: a.stackLog()})
	if err != nil {
		return nil, err
	}
	streams, err := system.Streams(ctx)
	if err != nil {
		return nil, err
	}
	if url == "" {
		url = found.Outputs.APIURL
	}
	c, err := client.New(url, client.Options{HTTP: &http.Client{Transport: found.Signer()}, MaxElapsed: consoleTime})
	if err != nil {
		return nil, err
	}
	handler, err := pages.Handler(pages.Options{
		System: system, Streams: func() []record.Stream { return streams }, Rates: found.Rates(time.Now).Of,
		Remote:  &pages.Remote{Name: o.Name + " in " + found.Region, Flags: o.flags(), Client: c},
		Allowed: embedded.AllowedHosts(listen, nil), Done: ctx.Done(), Now: time.Now, Log: slog.New(slog.NewTextHandler(a.err, nil)),
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle(pages.Path, handler)
	mux.Handle(pages.Path+"/", handler)
	mux.Handle("/{$}", http.RedirectHandler(pages.Path, http.StatusSeeOther))
	return mux, nil
}

// flags returns the flags that select the stack in another command.
func (o *stackOptions) flags() []string {
	out := []string{"--stack", o.Name}
	if o.Profile != "" {
		out = append(out, "--profile", o.Profile)
	}
	if o.Region != "" {
		out = append(out, "--region", o.Region)
	}
	return out
}
