package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
)

// target is the system for a command: a data folder, a server on another machine, or a stack.
type target struct {
	config, data *string
	remote       *remoteOptions
	stack        *stackOptions
}

func targetFlags(cmd *cobra.Command) target {
	path := configFlag(cmd)
	cmd.Flags().Lookup("config").Usage = "configuration file; without one a built-in default applies, and with --stack the configuration that was deployed"
	return target{config: path, data: dataFlag(cmd), remote: remoteFlags(cmd), stack: stackFlags(cmd)}
}

// look calls f with the system.
func (a *app) look(cmd *cobra.Command, t target, open opening, f func(context.Context, admin.Admin) error) error {
	if err := errors.Join(t.stack.check(cmd, "data"), t.remote.check(cmd, "data", "config", "stack")); err != nil {
		return usageError(cmd, err)
	}
	if t.stack.Name != "" {
		return a.lookAtStack(cmd, t, f)
	}
	return a.lookHere(cmd, t.remote, open, *t.data, *t.config, f)
}

// lookHere calls f with the server on another machine if one is named, and otherwise with the
// system on a data folder.
func (a *app) lookHere(cmd *cobra.Command, o *remoteOptions, open opening, data, configPath string, f func(context.Context, admin.Admin) error) (err error) {
	client, err := a.remote(cmd, o)
	if err != nil {
		return err
	}
	if client == nil {
		return look(cmd, open, data, configPath, f)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return f(cmd.Context(), client)
}

var errNoFolder = errors.New("no data folder")

// look calls f with the system on a data folder: through the running server, or by opening the
// folder if there is none.
func look(cmd *cobra.Command, open opening, data, configPath string, f func(context.Context, admin.Admin) error) (err error) {
	ctx := cmd.Context()
	client, err := admin.Dial(ctx, admin.Socket(data))
	switch {
	case err == nil:
		defer func() { err = errors.Join(err, client.Close()) }()
		return f(ctx, client)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED):
		return &exitError{exitAway, err}
	}
	// Opening would create the folder, and an empty result would hide a mistyped name.
	if _, err := os.Stat(data); err != nil {
		return &exitError{exitAway, fmt.Errorf("there is %w %s: did once dev run here? Name another one with --data, a server on another machine with --url, or a deployed system with --stack", errNoFolder, data)}
	}
	c, err := load(cmd, configPath)
	if err != nil {
		return err
	}
	opened, err := open(ctx, data, c.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if c.file == "" {
		return f(ctx, unconfigured{opened, c.Config})
	}
	return f(ctx, opened)
}

// unconfigured is a folder without its configuration. The built-in configuration is used instead.
type unconfigured struct {
	folder
	builtIn *config.Config
}

// Stats leaves out the streams of the built-in configuration if nothing of them is in the folder,
// but something else is: another program made the folder.
func (u unconfigured) Stats(ctx context.Context) (admin.Stats, error) {
	stats, err := u.folder.Stats(ctx)
	var used []admin.StreamStats
	for _, x := range stats.Streams {
		if _, builtIn := u.builtIn.Streams[x.Stream]; !builtIn || x != (admin.StreamStats{Stream: x.Stream}) {
			used = append(used, x)
		}
	}
	if len(used) > 0 || stats.Decorators != nil {
		stats.Streams = used
	}
	return stats, err
}
