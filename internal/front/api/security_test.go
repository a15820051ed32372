package api_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/problem"
)

func TestAOneTimeRequestIsItsPrincipalsAlone(t *testing.T) {
	w := newWorld(t)
	const acme, evil, at = "Test-Principal: acme", "Test-Principal: evil", request + "a"
	w.send("PUT", at, "reply", acme)
	for _, method := range []string{"GET", "POST"} {
		wantProblem(t, w.send(method, at, "", evil), problem.UnknownMessage)
		wantProblem(t, w.send(method, at, ""), problem.UnknownMessage)
	}
	w.send("DELETE", at, "", evil)
	w.send("DELETE", at, "")
	if w.runs.Load() != 0 {
		t.Error("somebody else ran the request")
	}
	want(t, w.send("POST", at, "", acme), 409, "not enough money\x00", "Idempotent-Replayed: false")
	for _, method := range []string{"GET", "POST", "DELETE"} {
		if got := w.send(method, at, "", evil); strings.Contains(got.body, "money") || got.header.Get("X-Why") != "" {
			t.Errorf("%s gave somebody else %d %s", method, got.status, got.body)
		}
	}
	want(t, w.send("POST", at, "", acme), 409, "not enough money\x00", "Idempotent-Replayed: true")
	if w.runs.Load() != 1 {
		t.Errorf("ran %d times", w.runs.Load())
	}
}

func TestTwoPrincipalsMayUseOneIDForRequestsOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ principal, body string }{{"acme", "reply"}, {"evil", "binary"}, {"", "x"}} {
		if got := w.send("PUT", request+"a", c.body, "Test-Principal: "+c.principal); got.status != http.StatusCreated {
			t.Errorf("%q: %d %s", c.principal, got.status, got.body)
		}
	}
	want(t, w.send("POST", request+"a", "", "Test-Principal: evil"), 201, "\xff\x00", "Idempotent-Replayed: false")
	want(t, w.send("POST", request+"a", "", "Test-Principal: acme"), 409, "not enough money\x00", "Idempotent-Replayed: false")
	want(t, w.send("DELETE", request+"a", "", "Test-Principal: evil"), 204, "")
	want(t, w.send("POST", request+"a", "", "Test-Principal: acme"), 409, "not enough money\x00", "Idempotent-Replayed: true")
}

func TestANumberIsItsPrincipalsAlone(t *testing.T) {
	w := newWorld(t)
	numbered := func(n int) []string {
		return []string{"Once-Source: till", fmt.Sprintf("Once-Sequence: %d", n), "Once-Group: g", "Prefer: wait=10"}
	}
	want(t, w.send("POST", chat, "reply", append(numbered(1), "Test-Principal: acme")...), 409, "not enough money\x00")
	for _, principal := range []string{"evil", ""} {
		who := "Test-Principal: " + principal
		wantProblem(t, w.send("GET", chat+"/till%2F0%2F1?group=g", "", who), problem.UnknownMessage)
		if got := w.send("POST", chat, "reply", append(numbered(1), who)...); got.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%q: somebody else's number was replayed: %d %s", principal, got.status, got.body)
		}
	}
	if w.runs.Load() != 3 {
		t.Errorf("ran %d times", w.runs.Load())
	}
}

func TestNoHeaderSetsThePrincipal(t *testing.T) {
	w := newWorld(t, func(_ *world, o *api.Options) { o.Principal = nil })
	const name = "Idempotency-Key: a"
	for _, forged := range []string{
		"X-Forwarded-User: acme", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: inside", "Forwarded: for=127.0.0.1;by=acme", "X-Real-Ip: 127.0.0.1", "X-Principal: acme",
		"Authorization: Bearer acme", "X-Amzn-Principal: acme", "Test-Principal: acme", "X-Http-Method-Override: DELETE", "X-Original-Url: /v1/streams/chat/messages",
	} {
		if got := w.send("POST", orders, "x", name, forged); got.status != http.StatusAccepted {
			t.Errorf("%s: %d %s", forged, got.status, got.body)
		}
		m := w.queue.message()
		if m.Principal != "" || m.Stream != "orders" || m.ID != "a" || m.Group != "" {
			t.Errorf("%s made it %q of %q in %s", forged, m.ID, m.Principal, m.Stream)
		}
		w.settled() // concurrent copies may both run
	}
	for _, forged := range []string{"once-principal: acme", "ONCE-PRINCIPAL: acme", "Once-Accepted: 1999-01-01", "Once-Retention: 1ns", "Once-Route: POST /", "Once-Meta: {}", "Once-Stream: chat"} {
		wantProblem(t, w.send("POST", orders, "x", name, forged), problem.MalformedRequest)
	}
	if w.runs.Load() != 1 {
		t.Errorf("copies of one message ran %d times", w.runs.Load())
	}
}

func TestAnIDInAPathNamesThatMessageOrNone(t *testing.T) {
	w := newWorld(t)
	ids := []string{"a/b", "a%2Fb", "..", "../orders/messages/a", "a/../b", "a?b", "a#b", `a\b`, "a;b", "a b", "%", "%00", "a//b", "/a", "a/"}
	for _, id := range ids {
		key := `Idempotency-Key: "` + strings.ReplaceAll(id, `\`, `\\`) + `"`
		got := w.send("POST", orders, "x", key, "Prefer: wait=10")
		if got.status != http.StatusOK {
			t.Errorf("%q: %d %s", id, got.status, got.body)
		}
	}
	for _, id := range ids {
		escaped := strings.NewReplacer("%", "%25", "/", "%2F", ".", "%2E", "?", "%3F", "#", "%23", `\`, "%5C", ";", "%3B", " ", "%20").Replace(id)
		got := w.send("GET", orders+"/"+escaped, "")
		var found struct{ ID string }
		if err := json.Unmarshal([]byte(got.body), &found); err != nil || found.ID != id {
			t.Errorf("%q found %q, %v", id, found.ID, err)
		}
		if got.status != http.StatusOK || w.send("GET", orders+"/x"+escaped, "").status != http.StatusNotFound {
			t.Errorf("%q: %d %s", id, got.status, got.body)
		}
	}
	for _, tricked := range []string{
		orders + "/x/../a%2Fb", orders + "/./a%2Fb", orders + "//a%2Fb", "/v1/streams/chat/../orders/messages/a%2Fb", "/v1/streams/orders%2Fmessages/a%2Fb", "//v1/streams/orders/messages/a%2Fb",
		"/v1/streams/orders%00/messages/a%2Fb", "/v1/streams/ORDERS/messages/a%2Fb", "/v1//streams/orders/messages/a%2Fb", orders + "/a%252Fb%00",
	} {
		if got := w.send("GET", tricked, ""); got.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", tricked, got.status, got.body)
		}
	}
}

func TestTheLogHasNoContentOfACaller(t *testing.T) {
	const said = "c0nf1d3nt1al"
	w := newWorld(t)
	all := func() {
		t.Helper()
		for _, r := range []struct{ method, path, body string }{
			{"POST", orders + "?token=" + said, said},
			{"POST", payments, said},
			{"GET", orders + "/" + said, ""},
			{"POST", orders, "fail"},
			{"POST", orders, "refuse"},
			{"PUT", request + said, said},
			{"POST", request + said, ""},
			{"GET", request + said, ""},
			{"DELETE", request + said, ""},
			{"POST", "/" + said, said},
		} {
			w.send(r.method, r.path, r.body, "Idempotency-Key: "+said, "Once-Group: "+said, "X-Own: "+said, "Authorization: Bearer "+said, "Cookie: s="+said, "Once-Header-Own: "+said)
		}
		w.send("POST", chat, said, "Once-Source: "+said, "Once-Sequence: 1", "Once-Depends-On: other=1")
	}
	all()
	w.store.away.Store(true)
	all()
	w.store.away.Store(false)
	w.settled()
	log := w.log.String()
	for _, hidden := range []string{said, base64.StdEncoding.EncodeToString([]byte(said)), fmt.Sprintf("%x", said)} {
		if strings.Contains(log, hidden) {
			t.Errorf("the log has %s:\n%s", hidden, log)
		}
	}
	if !strings.Contains(log, "request failed") {
		t.Errorf("no fault was logged:\n%s", log)
	}
}

func TestHeadersAreLimited(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewUnstartedServer(nil)
	server.Config = api.Server("", w.server.Config.Handler)
	server.Start()
	t.Cleanup(server.Close)
	post := "POST " + orders + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\nIdempotency-Key: a\r\n"
	many := strings.Repeat("X-A: "+strings.Repeat("a", 100)+"\r\n", 1000)
	for name, c := range map[string]struct{ text, answer string }{
		"one large header":             {post + "X-Large: " + strings.Repeat("a", api.MaxHeaderBytes+8<<10) + "\r\n\r\n", "HTTP/1.1 431 "},
		"many headers":                 {post + many + "\r\n", "HTTP/1.1 431 "},
		"a path without an end":        {"GET /" + strings.Repeat("a", api.MaxHeaderBytes+8<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 431 "},
		"headers that travel, too big": {post + "X-Own: " + strings.Repeat("a", 20<<10) + "\r\n\r\n", "HTTP/1.1 400 "},
		"a large id":                   {"GET " + orders + "/" + strings.Repeat("a", 1000) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 404 "},
	} {
		t.Run(name, func(t *testing.T) {
			conn := raw(t, to(server), c.text)
			got := make([]byte, len(c.answer))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.answer {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if n := w.queue.taken.Load(); n != 0 {
		t.Errorf("%d enqueued", n)
	}
}
