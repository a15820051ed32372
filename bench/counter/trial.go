package main

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/bench/child"
)

const (
	variable = "POSTGRES_URL"
	clients  = 5
	counter  = "/visits"
	calm     = 3 * time.Second // after which an unchanged counter counts as final
)

// A trial is one system with its processes.
type trial struct {
	place
	self, dir, address string // this program, the folder, and the address of the web server
	db                 *stdsql.DB
	processes          map[string]*child.Process
	answered           atomic.Int64
}

// try counts requests while processes are killed.
func try(ctx context.Context, name string, requests, kills int) (r result, err error) {
	t := &trial{processes: map[string]*child.Process{}}
	defer t.close()
	if err := t.open(ctx, name); err != nil {
		return r, err
	}
	begun := time.Now()
	r = result{System: name, Requests: requests, Killed: map[string]int{}}
	sent := make(chan error, 1)
	go func() { sent <- t.ask(ctx, requests) }()
	for i := range kills {
		// the kills are spread over the requests
		for t.answered.Load() < int64(requests*(i+1)/(kills+1)) {
			if err := sleep(ctx, time.Millisecond); err != nil {
				return r, err
			}
		}
		victim := t.kinds()[i%len(t.kinds())]
		if err := t.kill(ctx, victim); err != nil {
			return r, err
		}
		r.Killed[victim]++
	}
	if err := <-sent; err != nil {
		return r, err
	}
	r.Counted, r.Took, err = t.final(ctx, begun, requests)
	return r, err
}

func (t *trial) open(ctx context.Context, name string) (err error) {
	server := os.Getenv(variable)
	if server == "" {
		return fmt.Errorf("%s is not set: localstack/postgres.sh run", variable)
	}
	if t.self, err = os.Executable(); err != nil {
		return err
	}
	if t.dir, err = os.MkdirTemp("", "counter-"); err != nil {
		return err
	}
	if t.database, err = createDatabase(ctx, server, filepath.Base(t.dir)); err != nil {
		return err
	}
	if t.db, err = stdsql.Open("pgx", t.database); err != nil {
		return err
	}
	if name == nameOnce {
		if err := t.start(ctx, "once server", "serve", filepath.Join(t.dir, "data"), "127.0.0.1:0"); err != nil {
			return err
		}
		t.server = "http://" + t.processes["once server"].Line
	}
	if err := prepare(ctx, t.db, t.place); err != nil {
		return err
	}
	t.address = "127.0.0.1:0"
	if err := errors.Join(t.begin(ctx, "web server"), t.begin(ctx, "worker")); err != nil {
		return err
	}
	t.address = t.processes["web server"].Line
	return nil
}

// createDatabase creates an empty database and returns its URL.
func createDatabase(ctx context.Context, server, name string) (string, error) {
	admin, err := stdsql.Open("pgx", server)
	if err != nil {
		return "", err
	}
	defer func() { _ = admin.Close() }()
	if _, err := admin.ExecContext(ctx, fmt.Sprintf("CREATE DATABASE %q", name)); err != nil {
		return "", err
	}
	at, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	at.Path = "/" + name
	return at.String(), nil
}

// kinds returns the kinds of processes.
func (t *trial) kinds() []string {
	if t.server == "" {
		return []string{"web server", "worker", "PostgreSQL"}
	}
	return []string{"web server", "worker", "PostgreSQL", "once server"}
}

// begin starts a process.
func (t *trial) begin(ctx context.Context, kind string) error {
	switch kind {
	case "web server":
		return t.start(ctx, kind, "web", t.address, t.database, t.server)
	case "worker":
		return t.start(ctx, kind, "work", t.database, t.server)
	default:
		return t.start(ctx, kind, "serve", filepath.Join(t.dir, "data"), t.server[len("http://"):])
	}
}

func (t *trial) start(ctx context.Context, kind string, args ...string) (err error) {
	t.processes[kind], err = child.Start(ctx, append([]string{t.self}, args...)...)
	return err
}

// kill kills a process and starts it again.
func (t *trial) kill(ctx context.Context, kind string) error {
	if kind == "PostgreSQL" {
		text, err := exec.CommandContext(ctx, "sh", "-c", os.Getenv("POSTGRES_KILL")).CombinedOutput() //nolint:gosec // the command of localstack/postgres.sh
		if err != nil {
			return fmt.Errorf("kill PostgreSQL: %w: %s", err, text)
		}
		return nil
	}
	t.processes[kind].Kill()
	return t.begin(ctx, kind)
}

// ask sends the requests, each until it is answered.
func (t *trial) ask(ctx context.Context, requests int) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	keys := make(chan string)
	var asking sync.WaitGroup
	for range clients {
		asking.Go(func() {
			for key := range keys {
				if err := t.request(ctx, key); err != nil {
					fail(err)
				}
				t.answered.Add(1)
			}
		})
	}
	for i := range requests {
		keys <- "request-" + strconv.Itoa(i)
	}
	close(keys)
	asking.Wait()
	return context.Cause(ctx)
}

// patience is how long a request is repeated.
const patience = time.Minute

// request repeats a request until it is answered with 204.
func (t *trial) request(ctx context.Context, key string) error {
	for begun := time.Now(); ; {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+t.address+counter, nil)
		if err != nil {
			return err
		}
		r.Header.Set("Idempotency-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			text, _ := io.ReadAll(answer.Body) // for people only
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusNoContent {
				return nil
			}
			err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
		}
		if time.Since(begun) > patience {
			return fmt.Errorf("no answer for %v: %w", patience, err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// final returns the counter when it has not changed for a while, and how long the requests took
// until the last of them was counted.
func (t *trial) final(ctx context.Context, begun time.Time, requests int) (counted int, took time.Duration, err error) {
	last, since := -1, time.Now()
	for time.Since(since) < calm || last < requests && time.Since(since) < 10*calm {
		if err := t.db.QueryRowContext(ctx, "SELECT value FROM counter WHERE id = $1", counter).Scan(&counted); err != nil && !errors.Is(err, stdsql.ErrNoRows) {
			return 0, 0, err
		}
		if counted != last {
			last, since = counted, time.Now()
		}
		if err := sleep(ctx, pause); err != nil {
			return 0, 0, err
		}
	}
	return counted, since.Sub(begun), nil
}

func (t *trial) close() {
	for _, p := range t.processes {
		if p != nil {
			p.Kill()
		}
	}
	if t.db != nil {
		_ = t.db.Close()
	}
	_ = os.RemoveAll(t.dir)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
