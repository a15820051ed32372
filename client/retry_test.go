package client_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/effectively-once/once/client"
)

func TestARefusalAfterA503IsAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, client.Options{}, problem(503, "unavailable"), problem(413, "too-large"), accept)
		_, err := c.Send(t.Context(), client.Message{Stream: "orders", Source: "till", Sequence: 1, Body: []byte("one")})
		var p *client.Problem
		if !errors.As(err, &p) || p.Type != client.TooLarge || !p.Ambiguous {
			t.Fatalf("got %v, want an ambiguous refusal", err)
		}
		for i, x := range s.tries {
			if x.Number != "1" || x.Body != "one" {
				t.Errorf("try %d sent %q under number %s", i, x.Body, x.Number)
			}
		}
	})
}

func TestAMessageIsSentUnderItsEpochAndAcknowledged(t *testing.T) {
	for epoch, want := range []string{"", "1", "2"} {
		c, s := newClient(t, client.Options{MaxElapsed: 1}, accept) // one try
		if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Source: "till", Epoch: uint64(epoch), Sequence: 1}); err != nil {
			t.Errorf("epoch %d: %v", epoch, err)
		}
		if got := s.last.Header.Get("Once-Epoch"); got != want {
			t.Errorf("epoch %d was sent as %q", epoch, got)
		}
	}
}

func TestAMessagesOwnHeadersTakePrecedenceOverThoseOfTheClient(t *testing.T) {
	of := http.Header{"Idempotency-Key": {`"of the client"`}, "Content-Type": {"text/plain"}, "Authorization": {"Bearer x"}}
	c, s := newClient(t, client.Options{Header: of, MaxElapsed: 1}, accept)
	if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "own", ContentType: "application/json"}); err != nil {
		t.Fatal(err)
	}
	want := http.Header{"Idempotency-Key": {`"own"`}, "Content-Type": {"application/json"}, "Authorization": {"Bearer x"}}
	if d := cmp.Diff(want, s.last.Header); d != "" {
		t.Error(d)
	}
}

func TestATryLastsTheTryTimeoutPlusTheTimeThatTheServerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(12 * time.Second):
				accept(w, r)
			case <-r.Context().Done():
				panic(r.Context().Err())
			}
		}
		c, s := newClient(t, client.Options{TryTimeout: 3 * time.Second}, slow, slow, accept)
		if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Wait: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		if len(s.tries) != 1 {
			t.Errorf("%d tries, want one: the answer came 12 s after the request, within 3 s + 10 s", len(s.tries))
		}
	})
}

// closing counts the response bodies that were opened and closed.
type closing struct {
	script       *script
	open, closed int
}

func (c *closing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.script.RoundTrip(r)
	if err == nil {
		c.open++
		resp.Body = &body{resp.Body, c}
	}
	return resp, err
}

type body struct {
	io.ReadCloser
	of *closing
}

func (b *body) Close() error {
	b.of.closed++
	return b.ReadCloser.Close()
}

func TestEveryResponseBodyIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := &closing{script: &script{steps: []http.HandlerFunc{problem(503, "unavailable"), plain(502, "<html>"), accept}}}
		c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: bodies}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k"}); err != nil {
			t.Fatal(err)
		}
		if bodies.open != 3 || bodies.closed != bodies.open {
			t.Errorf("%d bodies, %d of them closed", bodies.open, bodies.closed)
		}
	})
}

func TestPausesDoubleFrom100MillisecondsTo10SecondsWithAJitterOfHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tries = 12
		var steps []http.HandlerFunc
		for range tries {
			steps = append(steps, plain(503, ""))
		}
		var pauses []time.Duration
		o := client.Options{OnRetry: func(_ error, wait time.Duration) { pauses = append(pauses, wait) }}
		c, _ := newClient(t, o, append(steps, accept)...)
		if _, err := c.Send(t.Context(), client.Message{Stream: "orders"}); err != nil {
			t.Fatal(err)
		}
		if len(pauses) != tries {
			t.Fatalf("%d pauses", len(pauses))
		}
		middle := 100 * time.Millisecond
		for i, pause := range pauses {
			if pause < middle/2 || pause > middle*3/2 {
				t.Errorf("pause %d is %v, want %v give or take half", i+1, pause, middle)
			}
			middle = min(2*middle, 10*time.Second)
		}
	})
}

func TestAMessageWithoutAKeyGetsAUUIDThatSortsByTime(t *testing.T) {
	s := &script{steps: []http.HandlerFunc{accept}}
	c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for range 3 {
		receipt, err := c.Send(t.Context(), client.Message{Stream: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		id, err := uuid.Parse(receipt.ID)
		if err != nil || id.Version() != 7 || receipt.ID <= last {
			t.Errorf("key %q after %q: %v", receipt.ID, last, err)
		}
		last = receipt.ID
	}
}

func TestALookUpAsksTheClientsOwnServerOnly(t *testing.T) {
	c, s := newClient(t, client.Options{MaxElapsed: 1}, accept)
	for _, location := range []string{
		"https://once.test/v1/streams/orders/messages/1", "http://other.test/v1/streams/orders/messages/1",
		"http://once.test:8080/v1/streams/orders/messages/1", "/v1/streams/orders/messages/1", "http://once.test/", "%",
	} {
		if _, err := c.StatusAt(t.Context(), location); err == nil || len(s.tries) > 0 {
			t.Errorf("%s: %v after %d requests", location, err, len(s.tries))
		}
	}
}

func TestAProblemsTextHasStatusTitleTypeAndDetail(t *testing.T) {
	for want, p := range map[string]client.Problem{
		"403 Not allowed (forbidden): Ask for a token.": {Status: 403, Title: "Not allowed", Type: client.Forbidden, Detail: "Ask for a token."},
		"403 Not allowed (forbidden)":                   {Status: 403, Title: "Not allowed", Type: client.Forbidden},
		"502 Bad Gateway: no once server answered":      {Status: 502, Title: "Bad Gateway", Detail: "no once server answered"},
	} {
		if got := p.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestACallWhoseFirstCopyWasSentBeforeTheServerWasGoneMayBeAccepted(t *testing.T) {
	var calls atomic.Int32
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"id":"k","stream":"orders","group":"k","status":"accepted"}`)
			return
		}
		_ = server.Listener.Close() // the transport repeats the request, and nothing listens any more
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{NeedServer: true, MaxElapsed: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	_, err = c.Send(t.Context(), client.Message{Stream: "orders", Key: "k"})
	var open *client.UnacknowledgedError
	if !errors.As(err, &open) || open.Unsent {
		t.Errorf("the server had the request, and the call ended with %#v", err)
	}
	if n := calls.Load(); n != 2 {
		t.Errorf("the server got %d requests, want 2", n)
	}
}

func TestACallToAServerWithAnUnknownCertificateSendsNothing(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the server got a request")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{NeedServer: true, OnRetry: func(err error, _ time.Duration) {
		t.Errorf("it was tried again after %v", err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	_, err = c.Send(ctx, client.Message{Stream: "orders", Key: "k"})
	var open *client.UnacknowledgedError
	if !errors.As(err, &open) || !open.Unsent {
		t.Errorf("got %v, want an error that says that nothing was sent", err)
	}
}
