package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/follow"
)

// A pool is the stream work with the real sessions behind the real HTTP API, in memory, and the
// transport to them. It works under synctest.
type pool struct {
	t        *testing.T
	store    *memstore.Store
	cfg      session.Config
	backend  *backend
	sessions *session.Sessions
	http     http.Handler // guarded by mu

	mu    sync.Mutex
	calls []string
	// fault decides what happens to a call with a name, such as commit.
	fault func(call string) fault
}

func newPool(t *testing.T, cfg session.Config) *pool {
	t.Helper()
	p := &pool{t: t, store: memstore.New(time.Now), fault: func(string) fault { return none }}
	p.backend = &backend{t: t}
	cfg.Now = time.Now
	if cfg.Queues = p.backend; cfg.Pools == nil {
		cfg.Pools = map[string]session.Pool{"work": {}}
	}
	p.cfg = cfg
	p.restart()
	return p
}

// restart ends the process of the server and starts another one: only the store stays.
func (p *pool) restart() {
	p.t.Helper()
	sessions := session.New(p.store, p.cfg)
	engine, err := dedup.New(dedup.Config{Store: p.store, Queues: p.backend, Streams: []record.Stream{{
		Name: "work", LogRetention: 24 * time.Hour, LogMessages: true, Partitions: 1,
		Handler: func(context.Context, *record.Attempt, record.Message) error { return nil },
	}}})
	if err != nil {
		p.t.Error(err)
		return
	}
	logs := follow.NewLogs(p.store, &follow.Hub{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions = sessions
	p.http = api.New(api.Options{Engine: engine, Queue: p.backend, Logs: logs, Sessions: sessions, Log: slog.New(slog.DiscardHandler)})
}

// letters returns the ids of the dead letters.
func (p *pool) letters() (ids []string) {
	p.backend.mu.Lock()
	defer p.backend.mu.Unlock()
	for _, x := range p.backend.dead {
		ids = append(ids, x.Message.ID)
	}
	return ids
}

// fill appends messages with these ids to the log of the pool. The id "end" ends the log.
func (p *pool) fill(ids ...string) {
	p.t.Helper()
	groups, _, err := p.store.Load(context.Background(), []record.GroupKey{session.Partition("work", 0)}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	now := time.Now()
	next := groups[0]
	next.Version++
	if next.Version == 1 {
		next.Incarnation = uint64(now.UnixMilli())
	}
	next.Expires, next.Log.Until = now.Add(24*time.Hour), now.Add(time.Hour)
	var entries []record.Entry
	for _, id := range ids {
		next.Log.Last++
		next.Log.Time = max(next.Log.Time+1, clock.HybridAt(now))
		x := record.Entry{Number: next.Log.Last, Kind: record.EntryMessage, ID: id, Body: []byte(id), Time: next.Log.Time}
		if id == "end" {
			x.Kind, next.Log.Ended = record.EntryEnd, true
		}
		entries = append(entries, x)
	}
	c := record.Commit{Loaded: groups[0], Next: next, Attempt: fmt.Sprint("fill ", next.Version), Append: log.Chunks(&next, entries)}
	if err := p.store.Commit(context.Background(), c); err != nil {
		p.t.Fatal(err)
	}
}

// set changes what happens from now on.
func (p *pool) set(f func(call string) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// once makes a fault happen to the next call with a name.
func (p *pool) once(call string, f fault) {
	done := false
	p.set(func(c string) fault {
		if c != call || done {
			return none
		}
		done = true
		return f
	})
}

// called returns how often a call arrived or was lost.
func (p *pool) called(call string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c == call {
			n++
		}
	}
	return n
}

// RoundTrip is the transport of clients.
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/streams/work/sessions/"), "/")
	name := "open"
	if len(parts) == 2 {
		name = parts[1]
	}
	p.mu.Lock()
	p.calls = append(p.calls, name)
	f, served := p.fault(name), p.http
	p.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if f == lost {
		return nil, errCut
	}
	w := httptest.NewRecorder()
	again := r.Clone(context.WithoutCancel(r.Context()))
	again.RequestURI, again.Body, again.ContentLength = "", io.NopCloser(bytes.NewReader(body)), int64(len(body))
	served.ServeHTTP(w, again)
	if f == unanswered {
		return nil, errCut
	}
	return w.Result(), nil
}

// client returns a client of the pool.
func (p *pool) client() *client.Client {
	p.t.Helper()
	c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: p}, MinBackoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond})
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}
