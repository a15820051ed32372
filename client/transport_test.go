package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

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
