package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
)

// losing is a server that acknowledges the first request, accepts the second one and ends the
// connection without an answer, and refuses all later ones.
func losing(t *testing.T) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		switch requests.Add(1) {
		case 1:
			accept(w, r)
		case 2:
			panic(http.ErrAbortHandler)
		default:
			problem(403, "forbidden")(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// The transport of net/http retries a request by itself if the request has an Idempotency-Key and a
// reused connection ends before the answer.
func TestARefusalAfterARetryByTheTransportIsAmbiguous(t *testing.T) {
	for _, body := range []string{"", "two"} {
		url, requests := losing(t)
		c, err := client.New(url, client.Options{MinBackoff: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "1"}); err != nil {
			t.Fatal(err)
		}
		_, err = c.Send(t.Context(), client.Message{Stream: "orders", Key: "2", Body: []byte(body)})
		var p *client.Problem
		if !errors.As(err, &p) || !p.Ambiguous || requests.Load() != 3 {
			t.Errorf("%q: got %v after %d requests", body, err, requests.Load())
		}
	}
}

func TestASequenceKeepsTheNumberThatARetryByTheTransportMayHaveUsed(t *testing.T) {
	url, _ := losing(t)
	c, err := client.New(url, client.Options{MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.Sequence(client.SequenceOptions{Stream: "orders", Source: "till"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Send(t.Context(), client.Message{Key: "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Send(t.Context(), client.Message{Key: "2"}); !errors.Is(err, client.Forbidden) {
		t.Fatalf("refused: %v", err)
	}
	if _, err := q.Send(t.Context(), client.Message{Key: "3"}); !errors.Is(err, client.ErrPending) {
		t.Errorf("the number is given away again: %v", err)
	}
	if _, ok, err := q.Resume(t.Context()); !ok || !errors.Is(err, client.Forbidden) {
		t.Errorf("resume: %v, %v", ok, err)
	}
}

func TestAPendingMessageIsNotChangedByItsCaller(t *testing.T) {
	c, s := newClient(t, client.Options{MaxElapsed: 1}, cut, accept) // one try
	q, err := c.Sequence(client.SequenceOptions{Stream: "orders", Source: "till"})
	if err != nil {
		t.Fatal(err)
	}
	m := client.Message{DependsOn: map[string]uint64{"other": 5}, Headers: map[string]string{"X-Event": "push"}, Body: []byte("one")}
	if _, err := q.Send(t.Context(), m); err == nil {
		t.Fatal("acknowledged")
	}
	sent := s.last.Header
	m.DependsOn["other"], m.Headers["X-Event"] = 6, "pull"
	copy(m.Body, "two")
	if _, _, err := q.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sent, s.last.Header); d != "" || s.tries[1].Body != "one" {
		t.Errorf("resumed as %q, with %s", s.tries[1].Body, d)
	}
}
