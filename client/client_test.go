package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/clock"
)

func TestEveryTryCarriesTheSameKeyAndBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, client.Options{}, cut, plain(http.StatusBadGateway, "<html>"), problem(http.StatusServiceUnavailable, "unavailable"),
			problem(http.StatusConflict, "leased"), plain(http.StatusRequestTimeout, ""), plain(http.StatusTooEarly, ""), accept)
		receipt, err := c.Send(t.Context(), client.Message{Stream: "orders", Body: []byte("hello")})
		if err != nil {
			t.Fatal(err)
		}
		want := client.Receipt{ID: "key-1", Stream: "orders", Group: "g", Status: "accepted", Location: "http://once.test/v1/streams/orders/messages/key-1"}
		if d := cmp.Diff(want, receipt); d != "" {
			t.Error(d)
		}
		if len(s.tries) != 7 {
			t.Errorf("%d tries", len(s.tries))
		}
		for i, x := range s.tries {
			if d := cmp.Diff(try{"POST", "/v1/streams/orders/messages", `"key-1"`, "", "hello"}, x); d != "" {
				t.Errorf("try %d: %s", i, d)
			}
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		date := start.Add(time.Minute).UTC().Format(http.TimeFormat)
		c, _ := newClient(t, client.Options{}, problem(429, "rate-limited", "Retry-After", "30"), problem(503, "unavailable", "Retry-After", date, "Date", start.UTC().Format(http.TimeFormat)), accept)
		if _, err := c.Send(t.Context(), client.Message{Stream: "orders"}); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited < 90*time.Second || waited > 100*time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestARefusalIsNotRetriedAndHasItsType(t *testing.T) {
	for status, name := range map[int]client.ProblemType{
		400: client.InvalidMessage, 401: client.Unauthorized, 403: client.Forbidden, 404: client.UnknownStream, 405: client.MethodNotAllowed, 410: client.Deleted,
		413: client.TooLarge, 415: client.UnsupportedMediaType, 422: client.KeyReuse,
	} {
		t.Run(string(name), func(t *testing.T) {
			c, s := newClient(t, client.Options{}, problem(status, string(name)))
			_, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k"})
			var p *client.Problem
			if !errors.As(err, &p) || !errors.Is(err, name) || errors.Is(err, client.Rejected) {
				t.Fatalf("got %v", err)
			}
			want := &client.Problem{Type: name, Title: "Title of " + string(name), Status: status, Detail: "Because.", Instance: "urn:x", Key: "k"}
			if d := cmp.Diff(want, p); d != "" {
				t.Error(d)
			}
			if len(s.tries) != 1 {
				t.Errorf("%d tries", len(s.tries))
			}
		})
	}
}

func TestARefusalAfterALostAnswerIsAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, client.Options{}, cut, problem(403, "forbidden"))
		_, err := c.Send(t.Context(), client.Message{Stream: "orders"})
		var p *client.Problem
		if !errors.As(err, &p) || !p.Ambiguous {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheErrorOfACallWithoutAnAnswerHasTheKey(t *testing.T) {
	for name, c := range map[string]struct {
		options client.Options
		limit   time.Duration
		step    http.HandlerFunc
		also    error
		last    client.ProblemType
	}{
		"by its context":       {client.Options{}, time.Minute, cut, context.DeadlineExceeded, ""},
		"by MaxElapsed":        {client.Options{MaxElapsed: 5 * time.Second}, time.Hour, cut, errCut, ""},
		"by a long RetryAfter": {client.Options{MaxElapsed: 5 * time.Second}, time.Hour, problem(503, "unavailable", "Retry-After", "60"), nil, client.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				start := time.Now()
				once, _ := newClient(t, c.options, c.step)
				_, err := once.Send(ctx, client.Message{Stream: "orders"})
				var open *client.UnacknowledgedError
				if !errors.As(err, &open) || open.Key != "key-1" || !errors.Is(err, c.also) && c.also != nil {
					t.Errorf("got %v", err)
				}
				var refusal *client.Problem
				if errors.As(err, &refusal) || c.last != "" && !errors.Is(open.Last, c.last) {
					t.Errorf("refused %v, last answer %v", refusal, open.Last)
				}
				if time.Since(start) > time.Minute {
					t.Errorf("ended after %v", time.Since(start))
				}
			})
		})
	}
}

func TestATryWithoutAnAnswerIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); panic(r.Context().Err()) }
		var told []time.Duration
		o := client.Options{TryTimeout: 3 * time.Second, OnRetry: func(_ error, wait time.Duration) { told = append(told, wait) }}
		c, s := newClient(t, o, hang, accept)
		start := time.Now()
		if _, err := c.Send(t.Context(), client.Message{Stream: "orders"}); err != nil {
			t.Fatal(err)
		}
		if len(s.tries) != 2 || len(told) != 1 || time.Since(start) != 3*time.Second+told[0] {
			t.Errorf("%d tries, waits %v, after %v", len(s.tries), told, time.Since(start))
		}
	})
}

func TestADuplicateIsAReceiptWithAFlag(t *testing.T) {
	c, _ := newClient(t, client.Options{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Idempotent-Replayed", "true")
		accept(w, r)
	})
	receipt, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k"})
	if err != nil || !receipt.Replayed {
		t.Errorf("%+v, %v", receipt, err)
	}
}

func TestWaitReturnsTheHandlersReplyWithAnyStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{200, 201, 204, 409, 503} {
			c, s := newClient(t, client.Options{}, cut, plain(status, "", "Once-Reply", "true", "Location", "/handlers/own", "Idempotent-Replayed", "true"))
			receipt, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k", Wait: 2100 * time.Millisecond})
			if err != nil || receipt.Status != "done" || receipt.Reply == nil || receipt.Reply.Status != status || !receipt.Reply.Replayed || receipt.Location != "" {
				t.Errorf("%d: %+v, %v", status, receipt, err)
			}
			if got := s.last.Header.Get("Prefer"); got != "wait=3" {
				t.Errorf("Prefer: %q", got)
			}
		}
		c, _ := newClient(t, client.Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Preference-Applied", "wait=3")
			accept(w, r)
		})
		receipt, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k", Wait: time.Second})
		if err != nil || receipt.Status != "accepted" || receipt.Reply != nil {
			t.Errorf("not in time: %+v, %v", receipt, err)
		}
		c, _ = newClient(t, client.Options{}, problem(400, "rejected", "Preference-Applied", "wait=3"))
		if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k", Wait: time.Second}); !errors.Is(err, client.Rejected) {
			t.Errorf("rejected: %v", err)
		}
	})
}

// A handler may pass on the answer of another once server.
func TestAHandlersReplyMayLookLikeAProblemOrAReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mark := []string{"Once-Reply", "true", "Preference-Applied", "wait=3"}
		for name, step := range map[string]http.HandlerFunc{
			"a problem to repeat":   problem(409, "leased", mark...),
			"a refusal":             problem(422, "key-reuse", mark...),
			"a receipt":             plain(202, `{"id":"k","stream":"orders","group":"g","status":"accepted"}`, mark...),
			"a status of its own":   plain(200, `{"status":"declined"}`, mark...),
			"a receipt by a number": plain(202, `{"id":"till/0/1","stream":"orders","group":"g","status":"accepted"}`, mark...),
		} {
			for _, m := range []client.Message{{Stream: "orders", Key: "k", Wait: time.Second}, {Stream: "orders", Source: "till", Sequence: 1, Wait: time.Second}} {
				c, s := newClient(t, client.Options{MaxElapsed: time.Minute}, step)
				receipt, err := c.Send(t.Context(), m)
				if err != nil || receipt.Status != "done" || receipt.Reply == nil || len(receipt.Reply.Body) == 0 || len(s.tries) != 1 {
					t.Errorf("%s: %+v, %v", name, receipt, err)
				}
			}
		}
	})
}

// The server says how long it waited, also if the message is not done. It says whether it had the
// message before, also if the body of the answer is incomplete.
func TestATruncatedReceiptIsNoReply(t *testing.T) {
	for status, body := range map[int]string{202: `{"id":"k","stream":"orders","group":"g","status":"acc`, 200: `{"id":"k","stream":"orders","group":"g","status":"do`} {
		c, _ := newClient(t, client.Options{}, plain(status, body, "Preference-Applied", "wait=3", "Idempotent-Replayed", "true"))
		receipt, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k", Wait: time.Second})
		if p, ok := errors.AsType[*client.Problem](err); !ok || !p.Ambiguous {
			t.Errorf("%d: %+v, %v", status, receipt, err)
		}
		if reply, err := c.Run(t.Context(), "orders", "k"); err == nil {
			t.Errorf("%d: run: %+v", status, reply)
		}
	}
}

func TestAReplyWithoutAWaitIsAnError(t *testing.T) {
	c, _ := newClient(t, client.Options{}, plain(201, "ok", "Once-Reply", "true", "Idempotent-Replayed", "false"))
	if receipt, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k"}); err == nil {
		t.Errorf("got %+v", receipt)
	}
}

func TestARetryAfterFromAnotherServerIsBounded(t *testing.T) {
	for after, longest := range map[string]time.Duration{"5": 6 * time.Second, "86400": 66 * time.Second, "99999999999": 66 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			c, _ := newClient(t, client.Options{}, plain(503, "<html>", "Retry-After", after), accept)
			if _, err := c.Send(t.Context(), client.Message{Stream: "orders"}); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(start); waited < min(longest-6*time.Second, 5*time.Second) || waited > longest {
				t.Errorf("Retry-After %s: waited %v", after, waited)
			}
			start = time.Now()
			c, _ = newClient(t, client.Options{}, problem(503, "unavailable", "Retry-After", after), accept)
			if _, err := c.Send(t.Context(), client.Message{Stream: "orders"}); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(start); after != "5" && waited < 24*time.Hour {
				t.Errorf("Retry-After %s of the server: waited %v", after, waited)
			}
		})
	}
}

func TestHeadersDescribeTheMessage(t *testing.T) {
	c, s := newClient(t, client.Options{Header: http.Header{"Authorization": {"Bearer x"}}}, accept)
	_, err := c.Send(t.Context(), client.Message{
		Stream: "orders", Key: `a "b" \c`, Group: "größe/1", Source: "till 3", Epoch: 2, Sequence: 7, DependsOn: map[string]uint64{"Other eu/lobby-7": 5},
		Parents: []uint64{17, 23}, Seen: clock.HybridAt(time.Unix(0, 0).Add(time.Second)),
		ContentType: "application/json", Headers: map[string]string{"x-event": "push", "traceparent": "00-1"}, Body: []byte("{}"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Authorization": {"Bearer x"}, "Idempotency-Key": {`"a \"b\" \\c"`}, "Once-Group": {"größe/1"}, "Once-Source": {"till 3"}, "Once-Epoch": {"2"},
		"Once-Sequence": {"7"}, "Once-Depends-On": {"*4fther*20eu*2flobby-7=5"}, "Once-Parents": {"17, 23"}, "Once-Time": {"1970-01-01T00:00:01.000Z-0000"},
		"Content-Type": {"application/json"}, "Once-Header-X-Event": {"push"}, "Once-Header-Traceparent": {"00-1"},
	}
	if d := cmp.Diff(want, s.last.Header); d != "" {
		t.Error(d)
	}
	if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Key: "k", Parents: []uint64{1}}); err != nil || s.last.Header.Get("Once-Parents") != "1" {
		t.Errorf("parents without a number: %v, %v", s.last.Header, err)
	}
}

func TestMistakesAreFoundBeforeAnythingIsSent(t *testing.T) {
	for name, m := range map[string]client.Message{
		"no stream":               {Key: "k"},
		"a key that is not ASCII": {Stream: "orders", Key: "größe"},
		"a key that is too long":  {Stream: "orders", Key: strings.Repeat("k", 257)},
		"a group in spaces":       {Stream: "orders", Group: " g"},
		"a group of two lines":    {Stream: "orders", Group: "g\nx"},
		"a number without source": {Stream: "orders", Key: "k", Sequence: 1},
		"a source without number": {Stream: "orders", Source: "s"},
		"dependency too large":    {Stream: "orders", Source: "s", Sequence: 1, DependsOn: map[string]uint64{"name": 1e15}},
		"a header with a space":   {Stream: "orders", Headers: map[string]string{"a b": "x"}},
		"a header of once":        {Stream: "orders", Headers: map[string]string{"once-group": "x"}},
		"a header of two lines":   {Stream: "orders", Headers: map[string]string{"X-A": "x\r\ny"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := newClient(t, client.Options{}, accept)
			if _, err := c.Send(t.Context(), m); err == nil || len(s.tries) > 0 {
				t.Errorf("got %v, %d tries", err, len(s.tries))
			}
		})
	}
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://x", "http://x/?a=b", "http://%"} {
		if _, err := client.New(base, client.Options{}); err == nil {
			t.Errorf("New takes %q", base)
		}
	}
}

func TestStatusLooksAMessageUp(t *testing.T) {
	found := func(id string) http.HandlerFunc {
		return plain(200, `{"id":"`+id+`","stream":"orders","group":"g","status":"done","reply":{"status":201,"body":"hi"}}`)
	}
	c, s := newClient(t, client.Options{}, found("a/b .."), found(".."), found("s/0/1"))
	status, err := c.Status(t.Context(), "orders", "a/b ..")
	want := client.Status{ID: "a/b ..", Stream: "orders", Group: "g", Status: "done", Reply: &client.StoredReply{Status: 201, Body: "hi"}}
	if d := cmp.Diff(want, status); d != "" || err != nil {
		t.Error(d, err)
	}
	if _, err := c.Status(t.Context(), "orders", ".."); err != nil {
		t.Error(err)
	}
	if _, err := c.StatusAt(t.Context(), "http://once.test/v1/streams/orders/messages/s%2F0%2F1?group=g"); err != nil {
		t.Error(err)
	}
	paths := []string{s.tries[0].Path, s.tries[1].Path, s.tries[2].Path}
	want3 := []string{"/v1/streams/orders/messages/a%2Fb%20..", "/v1/streams/orders/messages/%2E.", "/v1/streams/orders/messages/s%2F0%2F1"}
	if d := cmp.Diff(want3, paths); d != "" {
		t.Error(d)
	}
	for _, at := range []string{
		"http://elsewhere.test/v1/streams/orders/messages/k", "https://once.test/v1/streams/orders/messages/k", "http://once.test/v1/streams/orders", "http://once.test/", "http://%",
	} {
		if _, err := c.StatusAt(t.Context(), at); err == nil || len(s.tries) > 3 {
			t.Errorf("asked at %s: %v", at, err)
		}
	}
	c, _ = newClient(t, client.Options{}, problem(404, "unknown-message"))
	if _, err := c.Status(t.Context(), "orders", "x"); !errors.Is(err, client.UnknownMessage) {
		t.Errorf("unknown: %v", err)
	}
}

func TestConnectionsAreReusedAndCutOnesRetried(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path == "/behind/healthz" {
			return
		}
		accept(w, r)
	}))
	defer server.Close()
	c, err := client.New(server.URL+"/behind/", client.Options{MinBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := c.Send(t.Context(), client.Message{Stream: "orders"})
	if err != nil || n.Load() != 2 {
		t.Fatalf("%v after %d requests", err, n.Load())
	}
	if receipt.ID == "" || receipt.Location != server.URL+"/behind/v1/streams/orders/messages/"+receipt.ID {
		t.Errorf("%+v", receipt)
	}
	if err := c.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
}
