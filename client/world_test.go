package client_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/effectively-once/once/client"
)

var errCut = errors.New("connection cut")

// try is one request as the server saw it.
type try struct {
	Method, Path, Key, Number, Body string
}

// script answers one request after the other. It is the transport of a client, because a real
// connection can't be used under synctest.
type script struct {
	mu    sync.Mutex
	steps []http.HandlerFunc
	tries []try
	// last is the last request with its body.
	last *http.Request
}

func (s *script) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	n := len(s.tries)
	s.tries = append(s.tries, try{r.Method, r.URL.EscapedPath(), r.Header.Get("Idempotency-Key"), r.Header.Get("Once-Sequence"), string(body)})
	s.last = r
	step := s.steps[min(n, len(s.steps)-1)]
	s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, p.(error)
		}
	}()
	w := httptest.NewRecorder()
	r.Body = io.NopCloser(bytes.NewReader(body))
	step(w, r)
	return w.Result(), nil
}

func newClient(t *testing.T, o client.Options, steps ...http.HandlerFunc) (*client.Client, *script) {
	t.Helper()
	s := &script{steps: steps}
	o.HTTP = &http.Client{Transport: s}
	n := 0
	o.NewKey = func() (string, error) { n++; return "key-" + strconv.Itoa(n), nil }
	c, err := client.New("http://once.test", o)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func cut(http.ResponseWriter, *http.Request) { panic(errCut) }

func accept(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		key = strconv.Quote(r.Header.Get("Once-Source") + "/" + cmp.Or(r.Header.Get("Once-Epoch"), "0") + "/" + r.Header.Get("Once-Sequence"))
	}
	id, _ := strconv.Unquote(key)
	w.Header().Set("Location", "/v1/streams/orders/messages/"+id)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(map[string]string{"id": id, "stream": "orders", "group": "g", "status": "accepted"})
}

func problem(status int, name string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"type":  "https://github.com/effectively-once/once/blob/main/docs/http.md#" + name,
			"title": "Title of " + name, "status": status, "detail": "Because.", "instance": "urn:x",
		})
	}
}

func plain(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}
