package main

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/internal/config"
)

const defaultConfig = "once.yaml"

func configFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().String("config", defaultConfig, "configuration file; without one a built-in default applies")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json") // fails only for an unknown flag
	return path
}

// configured is a configuration and its source.
type configured struct {
	*config.Config
	file string // empty for the built-in default
}

// source returns the source of the configuration, for people.
func (c configured) source() string {
	if c.file == "" {
		return "built-in default (there is no " + defaultConfig + " here)"
	}
	return c.file
}

// load reads the configuration. A file must exist only if the caller named it.
func load(cmd *cobra.Command, path string) (configured, error) {
	c, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) && !cmd.Flags().Changed("config") {
		c := config.Default()
		if data := cmd.Flags().Lookup("data"); data != nil {
			c.Destinations["file"] = config.Destination{File: filepath.Join(data.Value.String(), filepath.Base(config.DefaultFile))}
		}
		return configured{Config: c}, nil
	}
	if err != nil {
		return configured{}, notThere(err)
	}
	return configured{c, path}, nil
}

// completeStreams completes the names of the configured streams as the first argument.
func completeStreams(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	path := defaultConfig
	if flag := cmd.Flags().Lookup("config"); flag != nil {
		path = flag.Value.String()
	}
	c, err := config.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		c, err = config.Default(), nil
	}
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.StreamNames(), cobra.ShellCompDirectiveNoFileComp
}
