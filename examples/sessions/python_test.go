package main

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/client"
)

// pythonServer starts a server with three messages, and returns its URL and a function that runs the
// consumer in Python to its end.
func pythonServer(t *testing.T) (c *client.Client, address string, consume func(url, session, database string) string) {
	t.Helper()
	python := os.Getenv("SESSIONS_PYTHON")
	if python == "" {
		t.Skip("SESSIONS_PYTHON is not set: eval \"$(examples/sessions/python.sh)\" installs what the consumer needs")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{self: self, dir: filepath.Join(t.TempDir(), "data")}
	if err := s.start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.process.kill)
	if c, err = newClient(s.url(), nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"m1", "m2", "m3"} {
		if _, err := c.Send(t.Context(), client.Message{Stream: stream, Key: id}); err != nil {
			t.Fatal(err)
		}
	}
	return c, s.url(), func(url, session, database string) string {
		t.Helper()
		out, _ := exec.CommandContext(t.Context(), python, "consumer.py", url, stream, session, "host", "free", database).CombinedOutput()
		return string(out)
	}
}

func rowsOf(t *testing.T, database string) (rows string) {
	t.Helper()
	db, err := sql.Open("sqlite", database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(), "SELECT group_concat(id, ' ' ORDER BY number) FROM rows").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestAConsumerInPythonStopsAtTheEndAndAfterIt(t *testing.T) {
	c, url, consume := pythonServer(t)
	if err := c.End(t.Context(), stream, "end"); err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(t.TempDir(), "rows.db")
	for _, session := range []string{"a", "a"} { // the second time its end is committed
		if out := consume(url, session, database); out != "open\nend\n" {
			t.Errorf("printed %q", out)
		}
	}
	if out := consume(url, "new", database); out != "end\n" {
		t.Errorf("a new session of an ended stream: %q", out)
	}
	if out := consume(url, "a", filepath.Join(t.TempDir(), "lost.db")); !strings.Contains(out, "a person has to decide: the database has no number") {
		t.Errorf("a lost database: %q", out)
	}
	if rows := rowsOf(t, database); rows != "m1 m2 m3" {
		t.Errorf("rows %s", rows)
	}
}

// A proxy marks the second entry as a dead letter, answers a commit with moved although it was
// applied, and loses the answer of the first open.
func TestAConsumerInPythonPassesDeadLettersAndOpensAgain(t *testing.T) {
	c, address, consume := pythonServer(t)
	if err := c.End(t.Context(), stream, "end"); err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	calls := map[string]int{}
	proxy.ModifyResponse = func(r *http.Response) error {
		call := path.Base(r.Request.URL.Path)
		calls[call]++
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		switch {
		case call == "a" && calls[call] == 1:
			panic(http.ErrAbortHandler)
		case call == "commit" && calls[call] == 2:
			r.StatusCode = http.StatusConflict
			r.Header.Set("Content-Type", "application/problem+json")
			body = []byte(`{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#moved","status":409}`)
		}
		body = bytes.Replace(body, []byte(`"id":"m2",`), []byte(`"id":"m2","dead":true,`), 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Del("Content-Length")
		return nil
	}
	server := httptest.NewServer(proxy)
	defer server.Close()
	database := filepath.Join(t.TempDir(), "rows.db")
	if out := consume(server.URL, "a", database); out != "open\nopen\nend\n" {
		t.Errorf("printed %q", out)
	}
	if rows := rowsOf(t, database); rows != "m1 m3" {
		t.Errorf("rows %s", rows)
	}
}
