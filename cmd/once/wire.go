package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/aws/sign"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/telemetry/otlp"
)

// embeddedServer is a server on a data folder.
type embeddedServer struct {
	*embedded.System
	ready   func(string)
	reserve []byte
}

func openServer(o embedded.Options) (server, error) {
	e := &embeddedServer{reserve: reserve(os.DirFS("/"))}
	o.Collector, o.Sign, o.Ready = otlp.New, signer, func(address string) { e.ready(address) }
	var err error
	if e.System, err = openStarted(o); err != nil {
		return nil, err
	}
	return e, nil
}

// signer returns a transport that signs requests to a URL of API Gateway with the credentials of
// the environment.
func signer(url string, next http.RoundTripper) (http.RoundTripper, error) {
	cfg, err := awsconfig.Load(context.Background())
	if err != nil {
		return nil, err
	}
	return sign.New(cfg.Credentials, sign.RegionOf(url, cfg.Region), next), nil
}

// Run serves until the context ends.
func (e *embeddedServer) Run(ctx context.Context, ready func(address string)) error {
	e.ready = ready
	return e.System.Run(ctx)
}

func inspectFolder(_ context.Context, dir string, c *config.Config) (folder, error) {
	return openExisting(embedded.Options{Config: c, DataDir: dir, ReadOnly: true})
}

func editFolder(_ context.Context, dir string, c *config.Config) (folder, error) {
	// the log has a line for each dead letter that is dropped
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return openExisting(embedded.Options{Config: c, DataDir: dir, Inspect: true, Log: log})
}

func repairFolder(_ context.Context, dir string, c *config.Config) (folder, error) {
	return openExisting(embedded.Options{Config: c, DataDir: dir, Programs: os.Stderr, Sign: signer})
}

// openExisting opens a folder on which once ran before. Opening another one would write a database
// into it, and show an empty system.
func openExisting(o embedded.Options) (*embedded.System, error) {
	files, err := os.ReadDir(filepath.Join(o.DataDir, "db"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if slices.ContainsFunc(files, ofDatabase) {
		return openStarted(o)
	}
	return nil, &exitError{exitUsage, fmt.Errorf("%s is not a data folder: there is no database in it; name another one with --data, or a deployed system with --stack", o.DataDir)}
}

// ofDatabase reports whether a file shows that there is a database, even a damaged one.
func ofDatabase(f os.DirEntry) bool {
	name := f.Name()
	return name == "SYNCED" || strings.HasPrefix(name, "MANIFEST-") || strings.HasPrefix(name, "marker.") ||
		slices.Contains([]string{".log", ".sst"}, filepath.Ext(name))
}

func openStarted(o embedded.Options) (*embedded.System, error) {
	s, err := embedded.Open(o)
	if locked, ok := errors.AsType[*embedded.LockedError](err); ok {
		return nil, &exitError{exitAway, fmt.Errorf("data folder %s is in use by %s: stop it, or name another folder with --data", locked.Dir, process(locked.Pid))}
	}
	if err != nil {
		return nil, err
	}
	if _, err := s.Start(nil); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
