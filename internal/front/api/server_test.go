package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/front/api"
)

// raw opens a connection to a server with short limits, and writes text.
func raw(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// impatience is the limit for a request's header. The body has twice as long.
const impatience = 800 * time.Millisecond

// impatient serves a world with short limits.
func impatient(t *testing.T, w *world) string {
	t.Helper()
	server := api.Server("", w.server.Config.Handler)
	server.ReadHeaderTimeout, server.ReadTimeout, server.IdleTimeout = impatience, 2*impatience, impatience
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

func TestTheServerHasALimitForEverythingACallerCanDelay(t *testing.T) {
	s := api.Server("127.0.0.1:0", http.NotFoundHandler())
	if s.ReadHeaderTimeout != 10*time.Second || s.ReadTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("got %+v", s)
	}
	if s.WriteTimeout < s.ReadTimeout+api.MaxWait {
		t.Errorf("a caller that waits %v is cut off after %v", api.MaxWait, s.WriteTimeout)
	}
}

func TestASlowCallerIsCutOff(t *testing.T) {
	w := newWorld(t)
	addr := impatient(t, w)
	post := "POST " + orders + " HTTP/1.1\r\nHost: x\r\nIdempotency-Key: slow\r\n"
	batch := "POST " + ordersBatch + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
	for _, c := range []struct{ name, text, answer string }{
		{"nothing", "", ""},
		{"half a header", post, ""},
		{"half a body", post + "Content-Length: 10\r\n\r\nhalf", "HTTP/1.1 408 "},
		{"half a chunk", post + "Transfer-Encoding: chunked\r\n\r\n5\r\nha", "HTTP/1.1 408 "},
		{"half a batch", batch + "Content-Length: 40\r\n\r\n{\"key\":\"slow\"}\n", "HTTP/1.1 408 "},
		{"half a batch in chunks", batch + "Transfer-Encoding: chunked\r\n\r\nf\r\n{\"key\":\"slow\"}\n\r\n", "HTTP/1.1 408 "},
		{"an idle connection", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			got, err := io.ReadAll(raw(t, addr, c.text))
			if err != nil {
				t.Fatalf("still open after %v: %v", time.Since(start), err)
			}
			if !strings.HasPrefix(string(got), c.answer) || c.answer == "" && len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 4") {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Cleanup(func() {
		if n := w.queue.taken.Load(); n != 0 {
			t.Errorf("%d messages that never came whole were enqueued", n)
		}
	})
}

func TestALargeBodyMayTakeLongerAsLongAsItKeepsComing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addr := impatient(t, w)
	const size = 200 << 10
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nIdempotency-Key: ", orders, size)
	for name, c := range map[string]struct {
		first  int  // bytes, before a pause
		rest   bool // whether the rest comes after it
		answer string
	}{
		"comes":       {size - 10, true, "HTTP/1.1 202 "},
		"stops early": {40 << 10, false, "HTTP/1.1 408 "},
		"stops late":  {size - 10, false, "HTTP/1.1 408 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := raw(t, addr, head+strings.ReplaceAll(name, " ", "-")+"\r\n\r\n"+strings.Repeat("x", c.first))
			if c.rest {
				time.Sleep(3 * impatience) // the limit of a small body is twice impatience
				if _, err := io.WriteString(conn, strings.Repeat("x", size-c.first)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(got), c.answer) {
				t.Errorf("got %.200q, %v, want %s", got, err, c.answer)
			}
		})
	}
}

func TestABodyThatEndsEarlyIsNotEnqueued(t *testing.T) {
	w := newWorld(t)
	conn := raw(t, w.server.Listener.Addr().String(), "POST "+orders+" HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\r\nContent-Length: 10\r\n\r\nhalf")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 408 ") || w.queue.taken.Load() != 0 {
		t.Errorf("got %q, %v; %d enqueued", got, err, w.queue.taken.Load())
	}
	if !strings.Contains(string(got), "\r\nConnection: close\r\n") {
		t.Errorf("the connection stays open, and the rest of the body could pass for a request: %q", got)
	}
}

func TestAWaitingCallerOutlivesTheReadTimeout(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	conn := raw(t, impatient(t, w), "POST "+orders+" HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\r\nPrefer: wait=2\r\nContent-Length: 0\r\n\r\n")
	start := time.Now()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted || time.Since(start) < 2*impatience {
		t.Errorf("got %d after %v", answer.StatusCode, time.Since(start))
	}
}

func TestSmuggledRequestsAreRefused(t *testing.T) {
	w := newWorld(t)
	addr := w.server.Listener.Addr().String()
	post := "POST " + orders + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	next := post + "Idempotency-Key: next\r\nContent-Length: 0\r\n\r\n"
	for _, c := range []struct {
		name, text string
		answers    []int
		enqueued   int64
	}{
		{"two keys", post + "Idempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 0\r\n\r\n", []int{400}, 0},
		{"a key folded over lines", post + "Idempotency-Key: a\r\n b\r\nContent-Length: 0\r\n\r\n", []int{400}, 0},
		{"a control character in a key", post + "Idempotency-Key: a\x01b\r\nContent-Length: 0\r\n\r\n", []int{400}, 0},
		{"two lengths", post + "Idempotency-Key: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello", []int{400}, 0},
		{"a length that is no number", post + "Idempotency-Key: a\r\nContent-Length: +5\r\n\r\nhello", []int{400}, 0},
		{"an unknown transfer encoding", post + "Idempotency-Key: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", []int{501}, 0},
		{"a space before a colon", post + "Idempotency-Key : a\r\nContent-Length: 0\r\n\r\n", []int{400}, 0},
		{"no host", "POST " + orders + " HTTP/1.1\r\nIdempotency-Key: a\r\n\r\n", []int{400}, 0},
		// The encoding overrides the length, as RFC 9112 says: the rest is a request of its own,
		// not part of a body.
		{"a length and an encoding", strings.Replace(post, "Connection: close\r\n", "", 1) + "Idempotency-Key: both\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next, []int{202, 202}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := w.queue.taken.Load()
			reader := bufio.NewReader(raw(t, addr, c.text))
			var got []int
			for {
				answer, err := http.ReadResponse(reader, nil)
				if err != nil {
					break
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				got = append(got, answer.StatusCode)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.answers) || w.queue.taken.Load()-before != c.enqueued {
				t.Errorf("got %v and %d enqueued, want %v and %d", got, w.queue.taken.Load()-before, c.answers, c.enqueued)
			}
		})
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	w := newWorld(t)
	var text strings.Builder
	for i := range 10 {
		fmt.Fprintf(&text, "POST %s HTTP/1.1\r\nHost: x\r\nIdempotency-Key: p%d\r\nContent-Length: 5\r\n\r\nhello", orders, i)
	}
	reader := bufio.NewReader(raw(t, w.server.Listener.Addr().String(), text.String()))
	for i := range 10 {
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusAccepted || !strings.Contains(string(body), fmt.Sprintf(`"p%d"`, i)) {
			t.Errorf("answer %d: %d %s", i, answer.StatusCode, body)
		}
	}
}
