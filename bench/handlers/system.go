package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
)

// Streams of the system: remote has the handler over HTTP, local the one in Go. The default of the
// concurrency is 64.
const (
	remote        = "remote"
	local         = "local"
	configuration = `
streams: {remote: {}, local: {}}
handlers: {remote: {url: %q}}
`
)

// A subject is the embedded system on a folder of its own, with a server of its handler.
type subject struct {
	dir    string
	server *server
	system *embedded.System
	engine system.Engine
	sent   int // messages, so that each has another name
}

func open() (s *subject, err error) {
	s = &subject{}
	if s.dir, err = os.MkdirTemp("", "once-handlers-"); err != nil {
		return nil, err
	}
	if s.server, err = newServer(); err != nil {
		return nil, err
	}
	cfg, err := config.Parse("bench", fmt.Appendf(nil, configuration, s.server.url))
	if err != nil {
		return nil, err
	}
	if s.system, err = embedded.Open(embedded.Options{Config: cfg, DataDir: s.dir}); err != nil {
		return nil, err
	}
	s.engine, err = s.system.Start([]system.Stream{{Stream: record.Stream{Name: local, Handler: s.server.inGo}}})
	return s, err
}

func (s *subject) close() error {
	return errors.Join(s.system.Close(), s.server.http.Close(), os.RemoveAll(s.dir))
}

// A shape is how messages come: so many callers, each with so many messages of one group at a time.
// The first batch of a caller is that of a new group if fresh is set, and so is each later one.
type shape struct {
	name    string
	callers int
	size    int
	fresh   bool
}

// batch returns the i-th batch of a caller. No two batches of all runs have the same name.
func (x shape) batch(stream, name string, caller, i int) []record.Message {
	group := name + "-" + strconv.Itoa(caller)
	if x.fresh {
		group += "-" + strconv.Itoa(i)
	}
	body := []byte(`{"text":"` + strings.Repeat("x", 89) + `"}`)
	out := make([]record.Message, x.size)
	for n := range out {
		id := name + "-" + strconv.Itoa(caller) + "-" + strconv.Itoa(i) + "-" + strconv.Itoa(n)
		out[n] = record.Message{Stream: stream, ID: id, Group: group, ContentType: "application/json", Body: body, Accepted: time.Now()}
	}
	return out
}

// process lets the engine process batches until do has run for d. A message counts when its
// commit is on disk.
func (s *subject) process(ctx context.Context, x shape, stream string, d time.Duration) (int, error) {
	s.sent++
	name := strconv.Itoa(s.sent)
	return hammer(ctx, x.callers, d, func(ctx context.Context, caller, i int) (int, error) {
		for _, o := range s.engine.Process(ctx, x.batch(stream, name, caller, i)) {
			if o.Kind != record.Processed {
				return 0, fmt.Errorf("outcome %s: %s %w", o.Kind, o.Detail, o.Err)
			}
		}
		return x.size, nil
	})
}

// A bare client posts a request document that it has made before, and reads the answer.
func (s *subject) bare(ctx context.Context, x shape, d time.Duration) (int, error) {
	document, err := x.document()
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: x.callers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	return hammer(ctx, x.callers, d, func(ctx context.Context, _, _ int) (int, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.url, bytes.NewReader(document))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Content-Type", "application/json")
		response, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		_, err = io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return x.size, err
	})
}

// document returns a request as the system makes it.
func (x shape) document() ([]byte, error) {
	r := handler.Request{Stream: remote, Group: "0-0", Version: 1, Attempt: "0123456789abcdef01234567", State: []byte(`{"handled":100}`)}
	for _, m := range x.batch(remote, "0", 0, 0) {
		message, err := handler.NewMessage(&m)
		if err != nil {
			return nil, err
		}
		r.Messages = append(r.Messages, message)
	}
	text, _, err := r.Encode()
	return text, err
}

// fill puts n messages on the queue, through the HTTP API. The system does not run yet.
func (s *subject) fill(ctx context.Context, x shape, stream string, n int) error {
	for i := range n / x.size {
		if err := s.enqueue(ctx, x.batch(stream, "q", i%x.callers, i/x.callers)); err != nil {
			return err
		}
	}
	return nil
}

// drain runs the system until the n messages on the queue are committed and the queue is empty.
func (s *subject) drain(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.system.Run(ctx) }()
	err := s.empty(ctx, n)
	cancel()
	return errors.Join(err, <-ended)
}

func (s *subject) enqueue(ctx context.Context, messages []record.Message) error {
	var lines bytes.Buffer
	for i := range messages {
		fmt.Fprintf(&lines, "{\"key\":%q,\"group\":%q,\"body\":%s}\n", messages[i].ID, messages[i].Group, messages[i].Body)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/streams/"+messages[0].Stream+"/batch", &lines)
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	s.system.Handler().ServeHTTP(w, r)
	if got := bytes.Count(w.Body.Bytes(), []byte(`"status":202`)); got != len(messages) {
		return fmt.Errorf("%d of %d messages accepted: %.300s", got, len(messages), w.Body)
	}
	return nil
}

// empty returns when n messages were handled, and none is on a queue any more.
func (s *subject) empty(ctx context.Context, n int) error {
	for ctx.Err() == nil {
		time.Sleep(time.Millisecond) // watched from outside
		if s.server.handled.Load() < int64(n) {
			continue
		}
		stats, err := s.system.Stats(ctx)
		if err != nil {
			return err
		}
		left := 0
		for _, q := range stats.Queues {
			if q.DeadLetter && q.Depth() > 0 {
				return fmt.Errorf("%d messages in %s", q.Depth(), q.Queue)
			}
			left += q.Visible + q.InFlight
		}
		if left == 0 {
			return nil
		}
	}
	return ctx.Err()
}
