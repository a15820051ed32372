package api_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// wantProblem checks that an answer is a complete problem of a type, without internal text.
func wantProblem(t *testing.T, got response, want problem.Type) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Instance string
		Status                        int
	}
	if err := json.Unmarshal([]byte(got.body), &p); err != nil {
		t.Fatalf("not a problem: %d %q", got.status, got.body)
	}
	if p.Type != want.URI() || got.status != want.Status() || p.Status != want.Status() || p.Title != want.Title() {
		t.Errorf("got %d %s, want %d %s", got.status, got.body, want.Status(), want)
	}
	if !strings.HasPrefix(p.Instance, "urn:") || got.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("instance %q, header %v", p.Instance, got.header)
	}
	if again := want == problem.Leased || want == problem.RateLimited || want == problem.Unavailable; again != (got.header.Get("Retry-After") != "") {
		t.Errorf("Retry-After %q with %s", got.header.Get("Retry-After"), want)
	}
	if strings.Contains(got.body, "internal text") {
		t.Errorf("an internal error is told: %s", got.body)
	}
}

const (
	orders   = "/v1/streams/orders/messages"
	payments = "/v1/streams/payments/messages"
	chat     = "/v1/streams/chat/messages"
)

func TestAnUnknownStreamIsNamedInFullUnlessItsNameIsTooLong(t *testing.T) {
	w := newWorld(t)
	longest := strings.Repeat("s", record.MaxStreamName)
	for name, want := range map[string]string{longest: `"` + longest + `"`, longest + "s": `"` + longest + `…"`} {
		var p struct{ Detail string }
		if err := json.Unmarshal([]byte(w.send("POST", "/v1/streams/"+name+"/messages", "", "Idempotency-Key: a").body), &p); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(p.Detail, want) {
			t.Errorf("a name of %d bytes: %s", len(name), p.Detail)
		}
	}
}

func TestAWrongRequestIsAnsweredWithItsProblem(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("k", record.MaxName+1)
	numbered := []string{"Once-Source: alice", "Once-Sequence: 1"}
	for _, c := range []struct {
		name, method, path string
		headers            []string
		want               problem.Type
	}{
		{"no key", "POST", orders, nil, problem.MissingKey},
		{"no key for a token", "POST", payments, nil, problem.MissingKey},
		{"a header without a name", "POST", orders, []string{"Idempotency-Key: a", "Once-Header-: x"}, problem.MalformedRequest},
		{"a header of the contract as one of the message's own", "POST", orders, []string{"Idempotency-Key: a", "Once-Header-Once-Group: x"}, problem.MalformedRequest},
		{"an empty key", "POST", orders, []string{"Idempotency-Key: "}, problem.MalformedKey},
		{"an empty string as key", "POST", orders, []string{`Idempotency-Key: ""`}, problem.MalformedKey},
		{"two keys", "POST", orders, []string{"Idempotency-Key: a", "Idempotency-Key: b"}, problem.MalformedKey},
		{"the same key twice", "POST", orders, []string{"Idempotency-Key: a", "Idempotency-Key: a"}, problem.MalformedKey},
		{"two keys folded by a proxy", "POST", orders, []string{"Idempotency-Key: a, b"}, problem.MalformedKey},
		{"a key too long", "POST", orders, []string{"Idempotency-Key: " + long}, problem.MalformedKey},
		{"a string too long", "POST", orders, []string{`Idempotency-Key: "` + long + `"`}, problem.MalformedKey},
		{"an open string", "POST", orders, []string{`Idempotency-Key: "a`}, problem.MalformedKey},
		{"text after a string", "POST", orders, []string{`Idempotency-Key: "a"b`}, problem.MalformedKey},
		{"two strings", "POST", orders, []string{`Idempotency-Key: "a", "b"`}, problem.MalformedKey},
		{"a key beyond ASCII", "POST", orders, []string{"Idempotency-Key: ü"}, problem.MalformedKey},
		{"a string beyond ASCII", "POST", orders, []string{`Idempotency-Key: "ü"`}, problem.MalformedKey},
		{"a key with a space", "POST", orders, []string{"Idempotency-Key: a b"}, problem.MalformedKey},
		{"a tab in a string", "POST", orders, []string{"Idempotency-Key: \"a\tb\""}, problem.MalformedKey},
		{"a malformed key on a numbered stream", "POST", chat, append(numbered, `Idempotency-Key: "`), problem.MalformedKey},
		{"an unknown header of ours", "POST", orders, []string{"Idempotency-Key: a", "Once-Gruop: g"}, problem.MalformedRequest},
		{"a header of ours with an underscore", "POST", orders, []string{"Idempotency-Key: a", "Once_Group: g"}, problem.MalformedRequest},
		{"a principal from outside", "POST", orders, []string{"Idempotency-Key: a", "Once-Principal: root"}, problem.MalformedRequest},
		{"two groups", "POST", orders, []string{"Idempotency-Key: a", "Once-Group: g", "Once-Group: h"}, problem.MalformedRequest},
		{"an empty group", "POST", orders, []string{"Idempotency-Key: a", "Once-Group: "}, problem.MalformedRequest},
		{"a sequence that is no number", "POST", chat, []string{"Once-Source: alice", "Once-Sequence: one"}, problem.MalformedRequest},
		{"a sequence of zero", "POST", chat, []string{"Once-Source: alice", "Once-Sequence: 0"}, problem.MalformedRequest},
		{"a signed sequence", "POST", chat, []string{"Once-Source: alice", "Once-Sequence: +1"}, problem.MalformedRequest},
		{"a sequence with leading zeros", "POST", chat, []string{"Once-Source: alice", "Once-Sequence: 01"}, problem.MalformedRequest},
		{"a sequence beyond 64 bits", "POST", chat, []string{"Once-Source: alice", "Once-Sequence: 18446744073709551616"}, problem.MalformedRequest},
		{"a negative epoch", "POST", chat, append(numbered, "Once-Epoch: -1"), problem.MalformedRequest},
		{"dependencies that are no dictionary", "POST", chat, append(numbered, "Once-Depends-On: bob:1"), problem.MalformedRequest},
		{"a dependency on nothing", "POST", chat, append(numbered, "Once-Depends-On: bob"), problem.MalformedRequest},
		{"a dependency on zero", "POST", chat, append(numbered, "Once-Depends-On: bob=0"), problem.MalformedRequest},
		{"a dependency on a list", "POST", chat, append(numbered, "Once-Depends-On: bob=(1 2)"), problem.MalformedRequest},
		{"empty dependencies", "POST", chat, append(numbered, "Once-Depends-On: "), problem.MalformedRequest},
		{"a number that is missing", "POST", chat, []string{"Idempotency-Key: a"}, problem.InvalidMessage},
		{"a sequence without source", "POST", chat, []string{"Once-Sequence: 1"}, problem.InvalidMessage},
		{"a source without sequence", "POST", chat, []string{"Once-Source: alice"}, problem.InvalidMessage},
		{"an epoch without source", "POST", orders, []string{"Idempotency-Key: a", "Once-Epoch: 1"}, problem.InvalidMessage},
		{"dependencies without number", "POST", orders, []string{"Idempotency-Key: a", "Once-Depends-On: bob=1"}, problem.InvalidMessage},
		{"a group too long", "POST", orders, []string{"Idempotency-Key: a", "Once-Group: " + long}, problem.InvalidMessage},
		{"a group that is not UTF-8", "POST", orders, []string{"Idempotency-Key: a", "Once-Group: \xff"}, problem.InvalidMessage},
		{"too many headers", "POST", orders, []string{"Idempotency-Key: a", "X-Large: " + strings.Repeat("x", record.MaxHeaders)}, problem.InvalidMessage},
		{"an encoded body", "POST", orders, []string{"Idempotency-Key: a", "Content-Encoding: gzip"}, problem.UnsupportedMediaType},
		{"a content type that is none", "POST", orders, []string{"Idempotency-Key: a", "Content-Type: ;"}, problem.UnsupportedMediaType},
		{"two content types", "POST", orders, []string{"Idempotency-Key: a", "Content-Type: a/b", "Content-Type: c/d"}, problem.UnsupportedMediaType},
		{"a stream that is not there", "POST", "/v1/streams/nothing/messages", []string{"Idempotency-Key: a"}, problem.UnknownStream},
		{"a stream that can't be", "POST", "/v1/streams/%2e%2e/messages", []string{"Idempotency-Key: a"}, problem.UnknownStream},
		{"somebody who may not", "POST", orders, []string{"Idempotency-Key: a", "Test-Principal: intruder"}, problem.Forbidden},
		{"a message that is not there", "GET", orders + "/none", nil, problem.UnknownMessage},
		{"an id that can't be", "GET", orders + "/" + long, nil, problem.UnknownMessage},
		{"a number that can't be", "GET", chat + "/alice/0/x", nil, problem.UnknownMessage},
		{"a look at a stream that is not there", "GET", "/v1/streams/nothing/messages/a", nil, problem.UnknownStream},
		{"a look without an id", "GET", orders + "/", nil, problem.UnknownRoute},
		{"a request without an id", "PUT", "/v1/streams/orders/requests/", nil, problem.UnknownRoute},
		{"a request without an id or a slash", "PUT", "/v1/streams/orders/requests", nil, problem.UnknownRoute},
		{"another route", "GET", "/v1/streams", nil, problem.UnknownRoute},
		{"the root", "GET", "/", nil, problem.UnknownRoute},
		{"a path with an empty segment", "POST", "/v1//streams/orders/messages", []string{"Idempotency-Key: a"}, problem.UnknownRoute},
		{"a path that climbs", "GET", orders + "/../x", nil, problem.UnknownRoute},
		{"another method", "PUT", orders, nil, problem.MethodNotAllowed},
		{"a method that nobody knows", "BREW", orders + "/a", nil, problem.MethodNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantProblem(t, w.send(c.method, c.path, "{}", c.headers...), c.want)
		})
	}
	if n := w.queue.taken.Load(); n != 0 {
		t.Errorf("%d wrong messages were enqueued", n)
	}
}

func TestAnUnsupportedMethodIsAnsweredWithTheAllowedMethods(t *testing.T) {
	w := newWorld(t)
	for path, want := range map[string]string{
		orders:                       "POST",
		orders + "/a":                "GET, HEAD",
		"/v1/streams/o/requests/a/b": "DELETE, GET, HEAD, POST, PUT",
		"/healthz":                   "GET, HEAD",
		"/openapi.json":              "GET, HEAD",
	} {
		got := w.send("PATCH", path, "")
		wantProblem(t, got, problem.MethodNotAllowed)
		if allow := got.header.Get("Allow"); allow != want {
			t.Errorf("%s: got %q, want %q", path, allow, want)
		}
	}
}

func TestABodyHasALimit(t *testing.T) {
	w := newWorld(t)
	large, small := strings.Repeat("x", record.MaxBody), strings.Repeat("x", record.SmallBody)
	for i, c := range []struct {
		name, path, body string
		chunked          bool
		want             int
	}{
		{"the largest", orders, large, false, 202},
		{"the largest, of a length not known before", orders, large, true, 202},
		{"one byte more", orders, large + "x", false, 413},
		{"one byte more, of a length not known before", orders, large + "x", true, 413},
		{"the largest of a numbered stream", "/v1/streams/chat/messages", small, true, 202},
		{"one byte more in a numbered stream", "/v1/streams/chat/messages", small + "x", false, 413},
		{"one byte more in a numbered stream, of a length not known before", "/v1/streams/chat/messages", small + "x", true, 413},
		{"the largest of a stream with a log", toRoom, small, false, 202},
		{"one byte more in a stream with a log", toRoom, small + "x", false, 413},
		{"one byte more in a one-time request", "", small + "x", true, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			method, path := http.MethodPost, c.path
			if path == "" {
				method, path = http.MethodPut, "/v1/streams/orders/requests/large"
			}
			var body io.Reader = strings.NewReader(c.body)
			if c.chunked {
				body = struct{ io.Reader }{body}
			}
			r, err := http.NewRequestWithContext(t.Context(), method, w.server.URL+path, body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", strconv.Itoa(i))
			if strings.Contains(path, "chat") {
				r.Header.Set("Once-Source", "s")
				r.Header.Set("Once-Sequence", "1")
			}
			got := w.do(r)
			if got.status != c.want {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if c.want == 413 {
				wantProblem(t, got, problem.TooLarge)
			}
		})
	}
	w.settled()
	if n := w.queue.taken.Load(); n != 4 {
		t.Errorf("%d messages were enqueued, want 4", n)
	}
}

func TestAKeyWithAnotherContentIsReuse(t *testing.T) {
	w := newWorld(t)
	w.send("POST", orders, "one", "Idempotency-Key: a")
	wantProblem(t, w.send("POST", orders, "two", "Idempotency-Key: a"), problem.KeyReuse)
	wantProblem(t, w.send("POST", orders, "one", "Idempotency-Key: a", "Once-Group: other"), problem.KeyReuse)
	w.settled()
	wantProblem(t, w.send("POST", orders, "two", "Idempotency-Key: a"), problem.KeyReuse)
	wantProblem(t, w.send("PUT", "/v1/streams/orders/requests/a", "one"), problem.KeyReuse)
	if n := w.queue.taken.Load(); n != 1 {
		t.Errorf("%d messages were enqueued, want 1", n)
	}
}

func TestNoMessageIsAcceptedWhileTheStoreFails(t *testing.T) {
	w := newWorld(t)
	w.send("PUT", "/v1/streams/orders/requests/r", "")
	w.store.away.Store(true)
	for _, c := range [][2]string{
		{"POST", orders},
		{"GET", orders + "/a"},
		{"PUT", "/v1/streams/orders/requests/r"},
		{"GET", "/v1/streams/orders/requests/r"},
		{"POST", "/v1/streams/orders/requests/r"},
		{"DELETE", "/v1/streams/orders/requests/r"},
	} {
		before := strings.Count(w.log.String(), "\n")
		wantProblem(t, w.send(c[0], c[1], "", "Idempotency-Key: secretkey"), problem.Unavailable)
		if lines := strings.Count(w.log.String(), "\n") - before; lines != 1 {
			t.Errorf("%s %s: logged %d times, want once", c[0], c[1], lines)
		}
	}
	if log := w.log.String(); strings.Contains(log, "secretkey") || !strings.Contains(log, "instance=urn:uuid:") {
		t.Errorf("log: %s", log)
	}
	if n := w.queue.taken.Load(); n != 0 {
		t.Errorf("%d messages were enqueued without a token", n)
	}
}

func TestAQueueThatFailsIsUnavailableAndARepetitionIsEnqueued(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.err = errAway })
	wantProblem(t, w.send("POST", orders, "reply", "Idempotency-Key: a"), problem.Unavailable)
	wantProblem(t, w.send("POST", chat, "x", "Once-Source: alice", "Once-Sequence: 1"), problem.Unavailable)

	w.queue.set(func(q *ingress) { q.lost = true })
	wantProblem(t, w.send("POST", orders, "reply", "Idempotency-Key: a"), problem.Unavailable)

	w.settled() // concurrent copies may both run
	w.queue.set(func(q *ingress) { q.err = nil })
	got := w.send("POST", orders, "reply", "Idempotency-Key: a", "Prefer: wait=10")
	if got.status != 409 || w.runs.Load() != 1 {
		t.Errorf("got %d %q after %d runs", got.status, got.body, w.runs.Load())
	}
}

// A late queue accepts a message only after the request's time is over, and returns an error.
type late struct{ *ingress }

func (late) EnqueueAll(ctx context.Context, messages []record.Message) []error {
	<-ctx.Done()
	return record.ErrorsOf(ctx.Err(), len(messages))
}

func TestAMessageIsNotAcceptedIfTheRequestsTimeEndsBeforeItIsOnTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, inMemory, func(w *world, o *api.Options) { o.Queue = late{w.queue} })
		for _, c := range [][]string{
			{"POST", orders, "Idempotency-Key", "a"},
			{"POST", orders, "Idempotency-Key", "b", "Prefer", "wait=1"},
			{"POST", chat, "Once-Source", "alice", "Once-Sequence", "1"},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, c[0], c[1], http.NoBody)
			for i := 2; i < len(c); i += 2 {
				r.Header.Set(c[i], c[i+1])
			}
			answer := httptest.NewRecorder()
			w.server.Config.Handler.ServeHTTP(answer, r)
			if answer.Code != http.StatusServiceUnavailable {
				t.Errorf("%v: %d %s, want 503: the message is not on the queue", c, answer.Code, answer.Body)
			}
		}
	})
}

func TestALeasedMessageIsAConflictWithATime(t *testing.T) {
	w := newWorld(t)
	m := record.Message{Stream: "orders", ID: "a"}
	key := record.NewTokenKey("", "orders", "a")
	lease := func(request *record.Message) {
		token := record.Token{
			Key: key, State: record.Leased, Fingerprint: m.Fingerprint(), Stream: "orders", Group: "a", Owner: "other",
			Lease: time.Now().Add(90 * time.Second), Expires: time.Now().Add(time.Hour), Request: request,
		}
		if _, err := w.store.SwapToken(t.Context(), record.Token{Key: key}, token); err != nil {
			t.Fatal(err)
		}
	}
	lease(&m)
	got := w.send("POST", orders, "", "Idempotency-Key: a")
	wantProblem(t, got, problem.Leased)
	if after, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || after < 30 || after > 90 {
		t.Errorf("Retry-After %d, %v", after, err)
	}
	for _, method := range []string{"POST", "DELETE"} {
		wantProblem(t, w.send(method, "/v1/streams/orders/requests/a", ""), problem.Leased)
	}
}

func TestAPanicIsAnInternalErrorWithoutItsText(t *testing.T) {
	w := newWorld(t, func(_ *world, o *api.Options) {
		o.Ready = nil
		o.Principal = func(*http.Request) (string, error) { panic("internal text: index out of range") }
	})
	wantProblem(t, w.send("POST", orders, "", "Idempotency-Key: a"), problem.Internal)
	if log := w.log.String(); !strings.Contains(log, "request panicked") || strings.Contains(log, "internal text: index") {
		t.Errorf("log: %.300s", log)
	}
}

func TestHealthReportsWhetherRequestsAreServed(t *testing.T) {
	var notReady error
	w := newWorld(t, func(_ *world, o *api.Options) {
		o.Ready = func(context.Context) error { return notReady }
	})
	if got := w.send("GET", "/healthz", ""); got.status != 200 || got.body != `{"status":"ok"}`+"\n" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := w.send("HEAD", "/healthz", ""); got.status != 200 || got.body != "" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	notReady = errAway
	wantProblem(t, w.send("GET", "/healthz", ""), problem.Unavailable)
}
