package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A counter is the state of a group: how many of its messages were handled.
type counter struct {
	Handled int `json:"handled"`
}

func increased(state []byte, by int) ([]byte, error) {
	var c counter
	if len(state) > 0 {
		if err := json.Unmarshal(state, &c); err != nil {
			return nil, err
		}
	}
	c.Handled += by
	return json.Marshal(c)
}

// A server is the same handler behind HTTP. It answers immediately.
type server struct {
	http    *http.Server
	url     string
	calls   atomic.Int64
	handled atomic.Int64 // messages in the answers
}

func newServer() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + l.Addr().String() + "/"}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }() // returns after Close
	return s, nil
}

// inGo is the same handler in Go.
func (s *server) inGo(_ context.Context, a *record.Attempt, _ record.Message) error {
	next, err := increased(a.State, 1)
	a.State = next
	s.handled.Add(1)
	return err
}

type request struct {
	State    json.RawMessage  `json:"state"`
	Messages []requestMessage `json:"messages"`
}

type requestMessage struct {
	ID   string          `json:"id"`
	Body json.RawMessage `json:"body"`
}

type answer struct {
	State    json.RawMessage `json:"state"`
	Messages []result        `json:"messages"`
}

type result struct {
	ID string `json:"id"`
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := answered(r.Body, &s.handled)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.calls.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // the caller may be gone
}

// answered returns the answer to a request, and adds its messages to a number.
func answered(body io.Reader, handled *atomic.Int64) ([]byte, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var r request
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	a := answer{Messages: make([]result, len(r.Messages))}
	for i := range r.Messages {
		a.Messages[i].ID = r.Messages[i].ID
	}
	if a.State, err = increased(r.State, len(r.Messages)); err != nil {
		return nil, err
	}
	handled.Add(int64(len(r.Messages)))
	return json.Marshal(a)
}
