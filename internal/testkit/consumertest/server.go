package consumertest

import (
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

// A Server serves a stream that has a pool with one partition. The stream has the messages m01, m02
// and so on, up to [Messages], in this order.
type Server struct {
	URL string
	// Stream defaults to work.
	Stream    string
	Transport http.RoundTripper
	// Restart kills the server and starts it again.
	Restart func()
	// Letters returns the dead letters of the stream, as text.
	Letters func() []string
}

// Messages is how many messages a server has.
const Messages = 10

// errCut is the error of a lost connection.
var errCut = errors.New("connection cut")

// A link is the connection of one consumer. It may be told to fail.
type link struct {
	next http.RoundTripper

	mu    sync.Mutex
	calls []string
	hook  hook
}

// A hook decides what happens to a call: open, entries, commit, fail, release, renew or retire.
// send sends it to the server.
type hook func(call string, r *http.Request, send func() (*http.Response, error)) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (l *link) RoundTrip(r *http.Request) (*http.Response, error) {
	call := path.Base(r.URL.Path)
	if strings.HasSuffix(path.Dir(r.URL.Path), "/sessions") {
		call = "open"
	}
	l.mu.Lock()
	l.calls = append(l.calls, call)
	h := l.hook
	l.mu.Unlock()
	send := func() (*http.Response, error) { return l.next.RoundTrip(r) }
	if h == nil {
		return send()
	}
	return h(call, r, send)
}

// called returns how often a call was made.
func (l *link) called(call string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.calls {
		if c == call {
			n++
		}
	}
	return n
}

// client returns a client that uses the link.
func (l *link) client(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := l.newClient(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (l *link) newClient(url string) (*client.Client, error) {
	return client.New(url, client.Options{HTTP: &http.Client{Transport: l}, MinBackoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond})
}

// next returns a hook that is used for the n-th call of a kind, from 1 on.
func nth(call string, n int, h hook) hook {
	var mu sync.Mutex
	seen := 0
	return func(c string, r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		mu.Lock()
		if c == call {
			seen++
		}
		mine := c == call && seen == n
		mu.Unlock()
		if mine {
			return h(c, r, send)
		}
		return send()
	}
}

// discard sends a request and drops the answer.
func discard(send func() (*http.Response, error)) {
	if resp, err := send(); err == nil {
		_ = resp.Body.Close()
	}
}
