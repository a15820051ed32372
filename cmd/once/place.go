package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/inprocess"
)

// A place is the system for a command that speaks the HTTP API: a server, a stack, or a data folder
// that no server runs on.
type place struct {
	sending
	config, data *string
}

// A served folder answers requests in this process.
type servedFolder interface {
	Handler() http.Handler
	Close() error
}

func placeFlags(cmd *cobra.Command) *place {
	p := &place{}
	f := cmd.Flags()
	f.StringVar(&p.url, "url", "", "server; default $"+adminURLVariable+" if there is a key of operators, else $ONCE_URL or "+defaultURL)
	p.data = f.String("data", "", "data folder that no server runs on; it is opened instead of asking a server")
	p.config = configFlag(cmd)
	_ = cmd.MarkFlagDirname("data") // fails only for an unknown flag
	p.operator = &remoteOptions{}
	keyFlags(cmd, p.operator)
	p.stack = stackFlags(cmd)
	return p
}

// call calls f with a client of the system.
func (a *app) call(cmd *cobra.Command, p *place, f func(ctx context.Context, c *client.Client) error) (err error) {
	if err := p.stack.check(cmd, "data", "config"); err != nil {
		return usageError(cmd, err)
	}
	if *p.data == "" {
		c, err := a.consumer(cmd, &p.sending, "")
		if err != nil {
			return err
		}
		return f(cmd.Context(), c)
	}
	if p.url != "" {
		return usageError(cmd, errors.New("--data and --url exclude each other"))
	}
	cfg, err := load(cmd, *p.config)
	if err != nil {
		return err
	}
	opened, err := a.serveFolder(cmd.Context(), *p.data, cfg.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	c, err := client.New(defaultURL, client.Options{HTTP: &http.Client{Transport: inprocess.Transport{Handler: opened.Handler()}}})
	if err != nil {
		return err
	}
	return f(cmd.Context(), c)
}

// serveFolder opens a data folder for requests of this process.
func serveFolder(ctx context.Context, dir string, c *config.Config) (servedFolder, error) {
	opened, err := editFolder(ctx, dir, c)
	if exit, ok := errors.AsType[*exitError](err); ok && exit.code == exitAway {
		return nil, &exitError{exitAway, fmt.Errorf("%w, or ask the server with --url", err)}
	}
	if err != nil {
		return nil, err
	}
	return opened.(servedFolder), nil
}
