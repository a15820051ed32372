package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/bench/child"
)

// readBack reads a log with one session, page by page, without decoding it. The floor is the same
// number of bytes in as many requests, from the memory of a server that does nothing else.
func (s *stopwatch) readBack(ctx context.Context, url string) error {
	size := 0
	for _, commits := range []bool{true, false} {
		n, took := 0, time.Duration(0)
		for i := range 2 {
			r := pages{url: fmt.Sprintf("%s/v1/streams/%s/groups/%d/sessions/all-%v", url, fast, i, commits), commits: commits}
			began := time.Now()
			if err := r.read(ctx); err != nil {
				return err
			}
			n, took, size = n+r.n, took+time.Since(began), r.bytes/max(r.n, 1)
		}
		what := "one session, pages of 1,000, each committed"
		if !commits {
			what = "one session, pages of 1,000, not committed"
		}
		s.rate(what+", "+strconv.Itoa(n)+" entries", n, time.Now().Add(-took))
	}
	floor, err := child.Start(ctx, s.self, "floor", strconv.Itoa(size*page), strconv.Itoa(s.entries))
	if err != nil {
		return err
	}
	defer floor.Kill()
	r := pages{url: "http://" + floor.Line}
	began := time.Now()
	if err := r.read(ctx); err != nil {
		return err
	}
	s.rate("floor: the same bytes from memory, by net/http", r.n, began)
	return s.syncs()
}

// syncs measures how often the disk writes a few bytes durably, one after the other: the floor of a
// session that has each page of 1,000 committed before the next.
func (s *stopwatch) syncs() error {
	f, err := os.Create(filepath.Join(s.dir, "syncs"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	began, n := time.Now(), 1000
	for range n {
		if _, err := f.Write(make([]byte, entrySize)); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	s.rate("floor: a write and a sync for each 1,000 entries", n*page, began)
	return nil
}

// floor answers with pages of a size until a number of entries is read, as a session would.
func floor(ctx context.Context, args []string) error {
	size, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	entries, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	body := make([]byte, size)
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // killed in the end
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		w.Header().Set("Once-Next", strconv.Itoa(min(after+page, entries)))
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(body)
	}))
}

// pages reads a session to the last entry of its log. It commits a page while it reads the next.
type pages struct {
	url      string
	commits  bool
	n, bytes int    // that were read
	body     []byte // of the last answer; the memory is used again
}

func (p *pages) read(ctx context.Context) error {
	if err := p.call(ctx, http.MethodPost, "", `{"holder":"bench","take":"now","lease":"60s"}`); err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(p.body), `"fence":`)
	fence, _, _ := strings.Cut(rest, ",")
	p.n, p.bytes = 0, 0
	commit := make(chan error, 1)
	commit <- nil
	for {
		from := p.n
		if err := errors.Join(p.call(ctx, http.MethodGet, fmt.Sprintf("/entries?fence=%s&after=%d&max=%d", fence, from, page), ""), <-commit); err != nil || p.n == from {
			return err
		}
		p.bytes += len(p.body)
		c := pages{url: p.url}
		body := fmt.Sprintf(`{"fence":%s,"from":%d,"to":%d}`, fence, from, p.n)
		go func() {
			var err error
			if p.commits {
				err = c.call(ctx, http.MethodPost, "/commit", body)
			}
			commit <- err
		}()
	}
}

func (p *pages) call(ctx context.Context, method, path, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if method == http.MethodGet {
		r.Header.Set("Accept", "application/cbor-seq")
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	p.body = slices.Grow(p.body[:0], int(max(0, got.ContentLength)))[:max(0, got.ContentLength)]
	if _, err = io.ReadFull(got.Body, p.body); err == nil && got.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, p.url+path, got.Status, p.body)
	}
	if next, err := strconv.Atoi(got.Header.Get("Once-Next")); err == nil {
		p.n = next
	}
	return err
}
