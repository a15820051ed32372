package client_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

// strangers are answers of other servers, such as proxies, in place of a once server's.
var strangers = map[string]http.HandlerFunc{
	"a login page":           plain(200, "<html>please log in"),
	"JSON":                   plain(200, `{"ok":true}`),
	"a status":               plain(200, `{"status":"ok"}`),
	"a status of once":       plain(202, `{"status":"accepted"}`),
	"no content":             plain(204, "", "Idempotent-Replayed", "true"),
	"a redirect":             plain(302, "", "Location", "https://elsewhere.test/"),
	"a foreign problem":      plain(400, `{"type":"about:blank"}`, "Content-Type", "application/problem+json"),
	"a problem of no name":   plain(400, `{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md"}`, "Content-Type", "application/problem+json"),
	"a problem of success":   problem(200, "too-large"),
	"a gateway's 401":        plain(401, `{"message":"Unauthorized"}`),
	"a gateway's 403":        plain(403, `{"message":"Forbidden"}`),
	"a gateway's 404":        plain(404, `{"message":"Not Found"}`),
	"a reply nobody awaited": plain(201, `{"receipt":1}`, "Preference-Applied", "wait=3"),
}

// almost returns answers that each differ from a once server's in one detail, and the answers of
// all strangers.
func almost(status int, id, word string) map[string]http.HandlerFunc {
	body := func(id, stream, word string) string {
		return fmt.Sprintf(`{"id":%q,"stream":%q,"group":"g","status":%q}`, id, stream, word)
	}
	all := map[string]http.HandlerFunc{
		"another message":        plain(status, body("other", "orders", word)),
		"a message of no id":     plain(status, strings.Replace(body("", "orders", word), `"id":"",`, "", 1)),
		"another stream":         plain(status, body(id, "other", word)),
		"a message of no stream": plain(status, strings.Replace(body(id, "", word), `"stream":"",`, "", 1)),
		"a status of its own":    plain(status, body(id, "orders", "queued")),
		"no status":              plain(status, body(id, "orders", "")),
		"another code":           plain(206, body(id, "orders", word)),
		"a code of no success":   plain(400, body(id, "orders", word)),
		"the rest of one":        plain(status, body(id, "orders", word)[:30]),
	}
	maps.Copy(all, strangers)
	return all
}

// byItsName has a message for each way to name one, by its identity in a receipt.
var byItsName = map[string]client.Message{"k": {Stream: "orders", Key: "k"}, "till/0/1": {Stream: "orders", Source: "till", Sequence: 1}}

func TestTheServersOwnAnswerIsAReceiptAndALookUp(t *testing.T) {
	for id, m := range byItsName {
		c, _ := newClient(t, client.Options{}, plain(202, `{"id":"`+id+`","stream":"orders","group":"g","status":"accepted"}`))
		if _, err := c.Send(t.Context(), m); err != nil {
			t.Errorf("%s: send: %v", id, err)
		}
		for _, word := range []string{"accepted", "held", "committed", "done", "rejected"} {
			c, _ := newClient(t, client.Options{}, plain(200, `{"id":"`+id+`","stream":"orders","group":"g","status":"`+word+`"}`))
			if got, err := c.Status(t.Context(), "orders", id); err != nil || got.Status != word {
				t.Errorf("%s: look-up: %+v, %v", id, got, err)
			}
		}
	}
}

func TestAnAnswerFromAnotherServerIsNoReceipt(t *testing.T) {
	for id, m := range byItsName {
		for name, step := range almost(202, id, "accepted") {
			for _, m.Wait = range []time.Duration{0, time.Second} {
				c, s := newClient(t, client.Options{}, step)
				receipt, err := c.Send(t.Context(), m)
				var p *client.Problem
				if !errors.As(err, &p) || p.Type != "" || !p.Ambiguous || len(s.tries) != 1 {
					t.Errorf("%s, %s: got %+v, %v after %d tries", id, name, receipt, err, len(s.tries))
				}
			}
		}
	}
}

func TestAnAnswerFromAnotherServerDoesNotMeanThatARequestIsStored(t *testing.T) {
	for name, step := range almost(201, "k", "accepted") {
		c, s := newClient(t, client.Options{}, step)
		_, err := c.Put(t.Context(), client.Request{Stream: "orders", ID: "k"})
		var p *client.Problem
		if !errors.As(err, &p) || p.Type != "" || len(s.tries) != 1 {
			t.Errorf("%s: got %v after %d tries", name, err, len(s.tries))
		}
	}
}

func TestAnAnswerFromAnotherServerIsNoHandlersReply(t *testing.T) {
	for name, step := range almost(200, "k", "done") {
		c, s := newClient(t, client.Options{}, step)
		reply, err := c.Run(t.Context(), "orders", "k")
		var p *client.Problem
		if !errors.As(err, &p) || p.Type != "" || len(s.tries) != 1 {
			t.Errorf("%s: got %+v, %v after %d tries", name, reply, err, len(s.tries))
		}
		if p != nil && p.Status != http.StatusFound && !strings.Contains(err.Error(), "not that of a once server") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnAnswerFromAnotherServerIsNoLookUp(t *testing.T) {
	for id := range byItsName {
		answers := almost(200, id, "done")
		answers["accepted, but by the code of another answer"] = plain(202, `{"id":"`+id+`","stream":"orders","group":"g","status":"accepted"}`)
		for name, step := range answers {
			c, _ := newClient(t, client.Options{}, step)
			status, err := c.Status(t.Context(), "orders", id)
			if p, ok := errors.AsType[*client.Problem](err); !ok || p.Type != "" {
				t.Errorf("%s, %s: got %+v, %v", id, name, status, err)
			}
		}
	}
}
