package main

import (
	"bufio"
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
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/system/embedded"
)

const benchConfig = `
streams:
  messages: {destinations: [out], direct: %v}
destinations:
  out: {file: %q}
`

// openServer returns a function that opens the embedded system with a client. A message counts when
// its line is in the output file; in a paused system, which accepts and does not process, when it
// is accepted. A queued system processes nothing without its queue.
func openServer(paused, queued bool, c client) func(context.Context, string) (*worker, error) {
	return func(ctx context.Context, dir string) (*worker, error) {
		output := filepath.Join(dir, "out.jsonl")
		cfg, err := config.Parse("bench", fmt.Appendf(nil, benchConfig, !queued, output))
		if err != nil {
			return nil, err
		}
		address := make(chan string, 1)
		s, err := embedded.Open(embedded.Options{Config: cfg, DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", Ready: func(a string) { address <- a }})
		if err != nil {
			return nil, err
		}
		if _, err := s.Start(nil); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		if paused {
			return openHandler(s.Handler(), c, s.Close)
		}
		ctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		closing := func() error { cancel(); return errors.Join(<-ended, s.Close()) }
		select {
		case a := <-address:
			return &worker{run: intoFile(c.posts("http://"+a), output), close: closing}, nil
		case err := <-ended:
			cancel()
			return nil, errors.Join(err, s.Close())
		}
	}
}

// intoFile returns a run that ends when all messages of send have their line in a file.
func intoFile(send func(context.Context, time.Duration) (load, error), path string) func(context.Context, time.Duration) (load, error) {
	sent, seen := 0, &lines{path: path}
	return func(ctx context.Context, d time.Duration) (load, error) {
		done, err := send(ctx, d)
		for sent += done.messages; err == nil; {
			var n int
			if n, err = seen.count(); n >= sent {
				break
			}
			time.Sleep(5 * time.Millisecond) // the file is written by another part, and watched from outside
			err = errors.Join(err, ctx.Err())
		}
		return done, err
	}
}

// lines counts the lines of a growing file.
type lines struct {
	path   string
	offset int64
	n      int
}

// count reads what was added to the file.
func (l *lines) count() (int, error) {
	file, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return 0, err
	}
	for r := bufio.NewReaderSize(file, 1<<20); ; {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return l.n, nil // what is left is not a line yet
		}
		if err != nil {
			return 0, err
		}
		l.offset += int64(len(line))
		l.n++
	}
}

// openHandler serves a handler to a client. A message counts when it is answered.
func openHandler(h http.Handler, c client, closing func() error) (*worker, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, errors.Join(err, closing())
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // returns after Close
	return &worker{run: c.posts("http://" + l.Addr().String()), close: func() error { return errors.Join(s.Close(), closing()) }}, nil
}

// openBare returns a function that opens a floor of HTTP: net/http reads a body, stores it if it is
// told to with one synced Pebble put, and answers.
func openBare(stores bool) func(context.Context, string) (*worker, error) {
	return func(_ context.Context, dir string) (*worker, error) {
		put, closing := func(string, []byte) error { return nil }, func() error { return nil }
		if stores {
			db, err := pebbledb.Open(dir, nil)
			if err != nil {
				return nil, err
			}
			put, closing = func(key string, body []byte) error { return db.Set([]byte(key), body, pebble.Sync) }, db.Close
		}
		return openHandler(bare(put), client{Connections: connections}, closing)
	}
}

func bare(put func(key string, body []byte) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "", http.StatusBadRequest)
			return
		}
		if err := put(r.Header.Get("Idempotency-Key"), body); err != nil {
			http.Error(w, "", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"0123456789","stream":"messages","status":"accepted"}`) // the caller may be gone
	})
}
