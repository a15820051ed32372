package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
)

const (
	connections = 64
	bodyBytes   = 1 << 10
)

const benchConfig = `
streams:
  messages: {destinations: [out]}
  numbered: {admission: sequence, destinations: [out]}
destinations:
  out: {file: %q}
`

// A server is a system with a listener.
type server struct {
	*embedded.System
	url  string
	dir  string
	stop func() error
}

// openServer opens a system in a new folder. A paused one accepts messages and does not process
// them.
func openServer(ctx context.Context, o options, paused bool) (*server, error) {
	dir, err := os.MkdirTemp(o.dir, "once-bench-")
	if err != nil {
		return nil, err
	}
	c, err := config.Parse("bench", fmt.Appendf(nil, benchConfig, filepath.Join(dir, "out.jsonl")))
	if err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", Ready: func(a string) { address <- a }})
	if err != nil {
		return nil, err
	}
	if _, err := s.Start(nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	if paused {
		url, stop, err := listen(ctx, s.Handler())
		if err != nil {
			cancel()
			return nil, err
		}
		address <- url
		go func() { <-ctx.Done(); done <- stop() }()
	} else {
		go func() { done <- s.Run(ctx) }()
	}
	out := &server{System: s, dir: dir}
	select {
	case a := <-address:
		out.url = "http://" + a
	case err := <-done:
		cancel()
		return nil, errors.Join(err, s.Close())
	}
	out.stop = func() error {
		cancel()
		return errors.Join(<-done, s.Close(), os.RemoveAll(dir))
	}
	return out, nil
}

func listen(ctx context.Context, h http.Handler) (address string, stop func() error, err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // returns after Close
	return l.Addr().String(), s.Close, nil
}

// bare returns the minimal server with durable acceptance: it reads the body and puts it into
// Pebble, synced.
func bare(db *pebble.DB) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "", http.StatusBadRequest)
			return
		}
		if err := db.Set([]byte(r.Header.Get("Idempotency-Key")), body, pebble.Sync); err != nil {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		// the caller may be gone
		_, _ = io.WriteString(w, `{"id":"0123456789","stream":"messages","status":"accepted"}`)
	})
}

// post sends messages over keep-alive connections.
func post(url, group string) side {
	transport := &http.Transport{MaxIdleConns: connections, MaxIdleConnsPerHost: connections}
	client := &http.Client{Transport: transport}
	body := append(append([]byte(`{"text":"`), bytes.Repeat([]byte("x"), bodyBytes-12)...), `"}`...)
	return func(ctx context.Context, d time.Duration) (float64, error) {
		run := time.Now().UnixNano()
		return hammer(ctx, connections, d, func(ctx context.Context, caller int, i uint64) (int, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				return 0, err
			}
			r.Header.Set("Idempotency-Key", fmt.Sprintf("%d-%d-%d", run, caller, i))
			r.Header.Set("Content-Type", "application/json")
			if group != "" {
				r.Header.Set("Once-Group", fmt.Sprintf("%s-%d-%d", group, caller, i%100))
			}
			response, err := client.Do(r)
			if err != nil {
				return 0, err
			}
			_, err = io.Copy(io.Discard, response.Body)
			if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode != http.StatusAccepted {
				err = errors.New(response.Status)
			}
			return 1, err
		})
	}
}

func httpAccept(ctx context.Context, o options) (err error) {
	db, closing, err := open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	address, stop, err := listen(ctx, bare(db))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	baseline := post("http://"+address+"/", "")
	for _, c := range []struct {
		name, group string
		paused      bool
		atLeast     float64
	}{
		{"202, processing paused", "", true, 0.5},
		{"202, whole pipeline running, no groups", "", false, 0.2},
		{"202, whole pipeline running, 6,400 groups", "g", false, 0.2},
	} {
		s, err := openServer(ctx, o, c.paused)
		if err != nil {
			return err
		}
		err = compare(ctx, o, c.name, post(s.url+"/v1/streams/messages/messages", c.group), baseline, c.atLeast)
		if err = errors.Join(err, s.stop()); err != nil {
			return err
		}
	}
	return nil
}
