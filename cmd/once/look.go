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
)

// look calls f with the system on a data folder: through the server that runs on it, or else by opening the folder.
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
	// Opening would make the folder, and an empty answer would hide a mistyped name.
	if _, err := os.Stat(data); err != nil {
		return &exitError{exitAway, fmt.Errorf("there is no data folder %s: did once dev run here? Name another one with --data", data)}
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
	return f(ctx, opened)
}
