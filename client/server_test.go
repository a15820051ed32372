package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/follow"
)

// A backend is the real engine behind the real HTTP API, in memory, and the transport to it. Its
// stream room is numbered and keeps a log. It works under synctest.
type backend struct {
	t      *testing.T
	engine *dedup.Engine
	store  *memstore.Store
	http   http.Handler

	mu   sync.Mutex
	dead []record.Refused
	// fault decides what happens to request n, from 0.
	fault    func(n int) fault
	requests []string // their bodies
	late     [][]byte // batches that arrive again later
}

// A fault is what happens to a request.
type fault int

const (
	none         fault = iota
	lost               // before it arrives
	unanswered         // after it was processed
	overtaken          // it fails, and arrives after the next one
	torn               // a half of its body arrives
	forbidden          // each line is answered 403
	unauthorized       // each line is answered 401
)

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{t: t, store: memstore.New(time.Now), fault: func(int) fault { return none }}
	var err error
	b.engine, err = dedup.New(dedup.Config{Store: b.store, Queues: b, Streams: []record.Stream{{
		Name: "room", Admission: record.BySequence, LogRetention: 24 * time.Hour, LogMessages: true,
		Handler: func(context.Context, *record.Attempt, record.Message) error { return nil },
	}, {Name: "keys", Handler: func(context.Context, *record.Attempt, record.Message) error { return nil }}}})
	if err != nil {
		t.Fatal(err)
	}
	b.http = api.New(api.Options{Engine: b.engine, Queue: b, Logs: follow.NewLogs(b.store, &follow.Hub{}), Log: slog.New(slog.DiscardHandler)})
	return b
}

// EnqueueAll processes messages immediately.
func (b *backend) EnqueueAll(ctx context.Context, messages []record.Message) []error {
	errs := make([]error, len(messages))
	for i, o := range b.engine.Process(ctx, messages) {
		errs[i] = o.Err
		if o.Kind == record.Rejected {
			_ = b.DeadLetter(ctx, []record.Refused{{Message: messages[i], Reason: o.Reason}})
		}
	}
	return errs
}

func (b *backend) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }
func (b *backend) Return(context.Context, []record.Message) error                  { return nil }
func (b *backend) DeadLetter(_ context.Context, refused []record.Refused) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = append(b.dead, refused...)
	return nil
}

func (*backend) Delay(context.Context, []record.Delayed) error { return nil }

// RoundTrip is the transport of clients.
func (b *backend) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	f := b.fault(len(b.requests))
	b.requests = append(b.requests, string(body))
	late := b.late
	b.late = nil
	if f == overtaken {
		b.late = append(b.late, body)
	}
	b.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if f == lost || f == overtaken {
		return nil, errCut
	}
	if f == forbidden || f == unauthorized {
		line := map[fault]string{forbidden: `{"status":403,"problem":{"type":"x#forbidden","status":403}}`, unauthorized: `{"status":401,"problem":{"type":"x#unauthorized","status":401}}`}[f]
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, strings.Repeat(line+"\n", bytes.Count(body, []byte("\n"))))
		return w.Result(), nil
	}
	if f == torn {
		r.ContentLength, body = int64(len(body)), body[:len(body)/2]
	}
	w := b.serve(r, body)
	for _, again := range late {
		b.serve(r, again)
	}
	if f == unanswered {
		return nil, errCut
	}
	return w.Result(), nil
}

func (b *backend) serve(r *http.Request, body []byte) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	served := r.Clone(context.WithoutCancel(r.Context()))
	served.RequestURI, served.Body = "", io.NopCloser(bytes.NewReader(body))
	served.ContentLength = max(r.ContentLength, int64(len(body)))
	b.http.ServeHTTP(w, served)
	return w
}

// set changes what happens from now on.
func (b *backend) set(f func(n int) fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
}

func (b *backend) sent() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.requests)
}

// client returns a client of the server.
func (b *backend) client() *client.Client {
	b.t.Helper()
	c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: b}})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// bodies returns the bodies of the entries of the group lobby.
func (b *backend) bodies() []string {
	b.t.Helper()
	var bodies []string
	tail := b.client().Tail("room", "lobby", client.TailOptions{NoFollow: true})
	for {
		e, err := tail.Next(b.t.Context())
		if errors.Is(err, client.ErrEnd) {
			return bodies
		}
		if err != nil {
			b.t.Fatal(err)
		}
		bodies = append(bodies, string(e.Body))
	}
}
