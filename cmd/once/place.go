package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/config"
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
	f.StringVar(&p.url, "url", "", "server; default $ONCE_URL or "+defaultURL)
	p.data = f.String("data", "", "data folder that no server runs on; it is opened instead of asking a server")
	p.config = configFlag(cmd)
	_ = cmd.MarkFlagDirname("data") // fails only for an unknown flag
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
	c, err := client.New(defaultURL, client.Options{HTTP: &http.Client{Transport: inProcess{opened.Handler()}}})
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

// inProcess answers requests by a handler.
type inProcess struct{ http.Handler }

// RoundTrip calls the handler.
func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &memoryResponse{header: http.Header{}}
	served := r.Clone(r.Context())
	served.RequestURI = r.URL.RequestURI()
	served.RemoteAddr = "127.0.0.1:0"
	if served.Body == nil {
		served.Body = http.NoBody
	}
	h.ServeHTTP(w, served)
	w.WriteHeader(http.StatusOK) // unless it was called before
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// A memoryResponse keeps a response in memory.
type memoryResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header.
func (w *memoryResponse) Header() http.Header { return w.header }

// WriteHeader sets the status once.
func (w *memoryResponse) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write appends to the body.
func (w *memoryResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}
