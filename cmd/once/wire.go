package main

import (
	"context"
	"errors"
	"sync"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/local"
	"github.com/effectively-once/once/internal/telemetry"
)

// embedded is a server on a data folder.
type embedded struct {
	*local.System
	ready     func(string)
	telemetry *telemetry.Telemetry
}

func openServer(o serverOptions) (server, error) {
	e := &embedded{}
	var err error
	known := func(stream string) bool { _, ok := o.Config.Streams[stream]; return ok }
	if e.telemetry, err = telemetry.Open(context.Background(), telemetry.Options{Known: known, Log: o.Log}); err != nil {
		return nil, err
	}
	e.System, err = openStarted(local.Options{
		Config: o.Config, DataDir: o.DataDir, Listen: o.Listen, Stdout: o.Stdout, Log: o.Log, Watch: e.telemetry, Ready: func(address string) { e.ready(address) },
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Run serves until the context ends, and reports to a collector where the environment names one.
func (e *embedded) Run(ctx context.Context, ready func(address string)) error {
	e.ready = ready
	reporting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var reports sync.WaitGroup
	reports.Go(func() { e.telemetry.Run(reporting, 0) })
	defer reports.Wait()
	defer stop()
	return e.System.Run(ctx)
}

func inspectFolder(_ context.Context, dir string, c *config.Config) (folder, error) {
	return openStarted(local.Options{Config: c, DataDir: dir, Inspect: true})
}

func repairFolder(_ context.Context, dir string, c *config.Config) (folder, error) {
	return openStarted(local.Options{Config: c, DataDir: dir})
}

func openStarted(o local.Options) (*local.System, error) {
	s, err := local.Open(o)
	if errors.Is(err, local.ErrLocked) {
		return nil, &exitError{exitAway, err}
	}
	if err != nil {
		return nil, err
	}
	if _, err := s.Start(nil); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
