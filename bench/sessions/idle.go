package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/bench/child"
	"github.com/effectively-once/once/bench/table"
	"github.com/effectively-once/once/client"
)

const (
	idleLease = 30 * time.Second // the default
	idleFor   = time.Minute
)

// idle measures what open sessions cost a server while there is nothing to read: its memory, and
// what it writes. First their leases are renewed as the Go client does it; then each also waits for
// an entry on a connection of its own.
func idle(ctx context.Context, args []string) error {
	sessions, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sessions-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server, err := child.Start(ctx, self, "serve", filepath.Join(dir, "once"), "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Kill()
	m := &idlers{url: "http://" + server.Line, pid: server.Pid(), fences: make([]uint64, sessions)}
	m.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: sessions}}
	m.note("a server without sessions", "")
	if err := m.open(ctx); err != nil {
		return err
	}
	m.note(fmt.Sprintf("%d open sessions", sessions), "")
	for _, waiting := range []bool{false, true} {
		if err := m.stay(ctx, waiting); err != nil {
			return err
		}
	}
	t := table.Table{Head: []string{"the server has", "resident memory", "written to disk"}, Rows: m.lines}
	return t.Write(os.Stdout)
}

// idlers are the consumers of idle sessions.
type idlers struct {
	url    string
	http   *http.Client
	pid    int
	fences []uint64
	lines  [][]string
}

func (m *idlers) session(i int) string {
	return fmt.Sprintf("%s/v1/streams/work/sessions/s%d", m.url, i)
}

// note adds a line with the memory of the server.
func (m *idlers) note(what, written string) {
	m.lines = append(m.lines, []string{what, fmt.Sprintf("%d MB", field(m.pid, "status", "VmRSS:")>>10), written})
}

// open opens the sessions.
func (m *idlers) open(ctx context.Context) error {
	c, err := newClient(m.url)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(32)
	for i := range m.fences {
		all.Go(func() error {
			s, err := c.OpenSession(ctx, client.SessionOptions{Stream: "work", Name: "s" + strconv.Itoa(i), Holder: "idle", Lease: idleLease})
			if err != nil {
				return err
			}
			m.fences[i] = s.Opened().Fence
			s.Close()
			return nil
		})
	}
	return all.Wait()
}

// stay keeps all sessions open for a minute.
func (m *idlers) stay(ctx context.Context, waiting bool) error {
	ctx, cancel := context.WithTimeout(ctx, idleFor)
	defer cancel()
	written := field(m.pid, "io", "write_bytes:")
	var all sync.WaitGroup
	var renewals, waits, failed atomic.Int64
	for i := range m.fences {
		all.Go(func() {
			pause := idleLease / 3 * time.Duration(i) / time.Duration(len(m.fences)) // not all at once
			for sleep(ctx, pause) {
				if err := m.call(ctx, http.MethodPost, m.session(i)+"/renew", fmt.Sprintf(`{"fence":%d}`, m.fences[i]), http.StatusOK); err != nil {
					failed.Add(1)
				}
				renewals.Add(1)
				pause = idleLease / 3
			}
		})
		if waiting {
			all.Go(func() { waits.Add(m.wait(ctx, i)) })
		}
	}
	sleep(ctx, idleFor-5*time.Second)
	what := fmt.Sprintf("%d sessions whose leases are renewed each %s", len(m.fences), idleLease/3)
	if waiting {
		what += ", and that wait for an entry"
	}
	m.note(what, fmt.Sprintf("%d KB in a minute", (field(m.pid, "io", "write_bytes:")-written)>>10))
	all.Wait()
	fmt.Fprintf(os.Stderr, "%d renewals, %d waits\n", renewals.Load(), waits.Load())
	if n := failed.Load(); n > 0 {
		return fmt.Errorf("%d renewals have failed", n)
	}
	return nil
}

// wait waits for entries of a session again and again, and returns how often. A server refuses more
// than 10,000 readers: then it waits a second.
func (m *idlers) wait(ctx context.Context, i int) (waits int64) {
	for ctx.Err() == nil {
		if err := m.call(ctx, http.MethodGet, fmt.Sprintf("%s/entries?fence=%d&wait=20", m.session(i), m.fences[i]), "", http.StatusNoContent); err != nil {
			sleep(ctx, time.Second)
			continue
		}
		waits++
	}
	return waits
}

// call makes a call that must have a status, unless the context ends.
func (m *idlers) call(ctx context.Context, method, url, body string, status int) error {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	answer, err := m.http.Do(r)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil || answer.StatusCode != status {
		return fmt.Errorf("%s answers %d, %w", url, answer.StatusCode, err)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// field returns a number from a file of /proc about a process; 0 if it is not there.
func field(pid int, file, name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			n, _ := strconv.ParseInt(fields[1], 10, 64) // digits only
			return n
		}
	}
	return 0
}
