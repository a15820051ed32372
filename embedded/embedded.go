// Package embedded opens a system on a folder of this machine: durable queues, groups and tokens in one Pebble database, in this process, with no service around
// it. It is what "once dev" runs.
//
// # Limits
//
// A folder belongs to one process at a time. Destinations that need AWS are written to files under the folder instead.
package embedded

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/local"
)

// Options of a system. The zero value serves what is declared in code, with no destinations and no listener.
type Options struct {
	// ConfigFile is the path of a once.yaml. Empty means Config.
	ConfigFile string
	// Config is the text of a once.yaml. Empty means no streams and destinations besides those declared in code.
	Config string
	// Listen is the address that Run serves HTTP on. Empty opens no listener: use [once.System.Handler].
	Listen string
	// Ready is called once, when Run serves, with the address that it listens on.
	Ready func(address string)
	// Stdout is where the file destination "-" writes. Defaults to os.Stdout.
	Stdout io.Writer
	// Log defaults to discarding.
	Log *slog.Logger
}

// ErrLocked says that another process has the folder open.
var ErrLocked = local.ErrLocked

// Open opens or creates the data folder. Close the system when Run has returned.
func Open(dir string, o Options) (*once.System, error) {
	c, err := o.config()
	if err != nil {
		return nil, err
	}
	s, err := local.Open(local.Options{Config: c, DataDir: dir, Listen: o.Listen, Ready: o.Ready, Stdout: o.Stdout, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("open embedded system: %w", err)
	}
	return once.New(s), nil
}

func (o Options) config() (*config.Config, error) {
	switch {
	case o.ConfigFile != "" && o.Config != "":
		return nil, errors.New("open embedded system: ConfigFile and Config exclude each other")
	case o.ConfigFile != "":
		return config.Load(o.ConfigFile)
	case o.Config != "":
		return config.Parse("config", []byte(o.Config))
	default:
		return &config.Config{}, nil
	}
}
