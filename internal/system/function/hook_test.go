package function

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"
)

// A hook is a receiver of webhooks. It counts each delivery, and sends the first of each identity
// to a channel.
type hook struct {
	url    string
	firsts chan received

	mu    sync.Mutex
	times map[string]int
}

type received struct{ destination, id, body string }

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{firsts: make(chan received, 1000), times: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		id := r.Header.Get("webhook-id")
		if err != nil || id == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.times[r.URL.Path+id]++; h.times[r.URL.Path+id] == 1 {
			h.firsts <- received{path.Base(r.URL.Path), id, string(body)}
		}
	}))
	h.url = server.URL
	t.Cleanup(server.Close)
	return h
}

// wait collects the bodies of n first deliveries, by destination, in their order.
func (h *hook) wait(t *testing.T, n int) map[string][]string {
	t.Helper()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	out := map[string][]string{}
	for i := range n {
		select {
		case r := <-h.firsts:
			out[r.destination] = append(out[r.destination], r.body)
		case <-limit.C:
			t.Fatalf("%d of %d deliveries came: %v", i, n, out)
		}
	}
	return out
}
