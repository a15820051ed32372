package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// to returns what connects to a server.
func to(server *httptest.Server) dialer {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
}

// raw opens a connection to a server, and writes text.
func raw(t *testing.T, dial dialer, text string) net.Conn {
	t.Helper()
	conn, err := dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// patience is how long a server waits for a small body.
const patience = 30 * time.Second

// limited serves a world with the limits of the program, in memory and in virtual time.
func limited(t *testing.T, w *world) dialer {
	t.Helper()
	server, listener := api.Server("", w.server.Config.Handler), new(memnet.Network).Listen()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Dial
}

func TestTheServerHasALimitForEverythingACallerCanDelay(t *testing.T) {
	s := api.Server("127.0.0.1:0", http.NotFoundHandler())
	if s.ReadHeaderTimeout != 10*time.Second || s.ReadTimeout != patience || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("got %+v", s)
	}
	if s.WriteTimeout < s.ReadTimeout+api.MaxWait {
		t.Errorf("a caller that waits %v is cut off after %v", api.MaxWait, s.WriteTimeout)
	}
}

func TestASlowCallerIsCutOff(t *testing.T) {
	post := "POST " + orders + " HTTP/1.1\r\nHost: x\r\nIdempotency-Key: slow\r\n"
	batch := "POST " + ordersBatch + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
	for _, c := range []struct {
		name, text, answer string
		after              time.Duration
	}{
		{"nothing", "", "", 10 * time.Second},
		{"half a header", post, "", 10 * time.Second},
		{"half a body", post + "Content-Length: 10\r\n\r\nhalf", "HTTP/1.1 408 ", patience},
		{"half a chunk", post + "Transfer-Encoding: chunked\r\n\r\n5\r\nha", "HTTP/1.1 408 ", patience},
		{"half a batch", batch + "Content-Length: 40\r\n\r\n{\"key\":\"slow\"}\n", "HTTP/1.1 408 ", patience},
		{"half a batch in chunks", batch + "Transfer-Encoding: chunked\r\n\r\nf\r\n{\"key\":\"slow\"}\n\r\n", "HTTP/1.1 408 ", patience},
		{"an idle connection", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 ", 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, inMemory)
				start := time.Now()
				got, err := io.ReadAll(raw(t, limited(t, w), c.text))
				if took := time.Since(start); err != nil || took < c.after || took > c.after+time.Second {
					t.Errorf("open for %v, want %v: %v", took, c.after, err)
				}
				if !strings.HasPrefix(string(got), c.answer) || c.answer == "" && len(got) > 0 && !strings.HasPrefix(string(got), "HTTP/1.1 4") {
					t.Errorf("got %q", got)
				}
				if n := w.queue.taken.Load(); n != 0 {
					t.Errorf("%d messages that never came whole were enqueued", n)
				}
			})
		})
	}
}

func TestALargeBodyMayTakeLongerAsLongAsItKeepsComing(t *testing.T) {
	const size = 400 << 10
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nIdempotency-Key: a\r\n\r\n", orders, size)
	for name, c := range map[string]struct {
		parts  []int // bytes, 9 seconds apart
		answer string
		after  time.Duration // at which it comes
	}{
		"comes":              {[]int{size - 10, 0, 0, 10}, "HTTP/1.1 202 ", 27 * time.Second},
		"comes slowly":       {[]int{1, 1, 1, 200 << 10, size - 200<<10 - 3}, "HTTP/1.1 202 ", 36 * time.Second},
		"stops early":        {[]int{40 << 10}, "HTTP/1.1 408 ", patience},
		"stops late":         {[]int{size - 10}, "HTTP/1.1 408 ", patience},
		"stops very late":    {[]int{1, 1, 1, 200 << 10}, "HTTP/1.1 408 ", 37 * time.Second},
		"comes byte by byte": {[]int{1, 1, 1}, "HTTP/1.1 408 ", patience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, start := newWorld(t, inMemory), time.Now()
				conn := raw(t, limited(t, w), head)
				for i, n := range c.parts {
					if i > 0 {
						time.Sleep(9 * time.Second)
					}
					if _, err := io.WriteString(conn, strings.Repeat("x", n)); err != nil {
						t.Fatal(err)
					}
				}
				got, err := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(got), c.answer) {
					t.Errorf("got %.200q, %v, want %s", got, err, c.answer)
				}
				if took := time.Since(start); took < c.after || took > c.after+time.Second {
					t.Errorf("answered after %v, want %v", took, c.after)
				}
			})
		})
	}
}

func TestABodyThatEndsEarlyIsNotEnqueued(t *testing.T) {
	w := newWorld(t)
	conn := raw(t, to(w.server), "POST "+orders+" HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\r\nContent-Length: 10\r\n\r\nhalf")
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
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, inMemory)
		w.queue.set(func(q *ingress) { q.paused = true })
		conn := raw(t, limited(t, w), "POST "+orders+" HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\r\nPrefer: wait=60\r\nContent-Length: 0\r\n\r\n")
		start := time.Now()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if took := time.Since(start); answer.StatusCode != http.StatusAccepted || took != time.Minute {
			t.Errorf("got %d after %v", answer.StatusCode, took)
		}
	})
}

func TestSmuggledRequestsAreRefused(t *testing.T) {
	w := newWorld(t)
	addr := to(w.server)
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
	reader := bufio.NewReader(raw(t, to(w.server), text.String()))
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
