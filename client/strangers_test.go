package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/effectively-once/once/client"
)

// strangers answer in the place of a once server.
var strangers = map[string]http.HandlerFunc{
	"a login page":           plain(200, "<html>please log in"),
	"JSON":                   plain(200, `{"ok":true}`),
	"a status":               plain(200, `{"status":"ok"}`),
	"a status of once":       plain(202, `{"status":"accepted"}`),
	"a message of no stream": plain(202, `{"id":"k","group":"g","status":"accepted"}`),
	"a message of no id":     plain(202, `{"stream":"orders","group":"g","status":"accepted"}`),
	"a status of its own":    plain(202, `{"id":"k","stream":"orders","group":"g","status":"queued"}`),
	"another message":        plain(202, `{"id":"other","stream":"orders","group":"g","status":"accepted"}`),
	"another stream":         plain(202, `{"id":"k","stream":"other","group":"g","status":"accepted"}`),
	"a redirect":             plain(302, "", "Location", "https://elsewhere.test/"),
	"a foreign problem":      plain(400, `{"type":"about:blank"}`, "Content-Type", "application/problem+json"),
	"a gateway's 401":        plain(401, `{"message":"Unauthorized"}`),
	"a gateway's 403":        plain(403, `{"message":"Forbidden"}`),
	"a gateway's 404":        plain(404, `{"message":"Not Found"}`),
	"a reply nobody awaited": plain(201, `{"receipt":1}`, "Preference-Applied", "wait=3"),
}

func TestAnAnswerOfSomebodyElseIsNoReceipt(t *testing.T) {
	for name, step := range strangers {
		t.Run(name, func(t *testing.T) {
			for about, m := range map[string]client.Message{
				"by its key":    {Stream: "orders", Key: "k"},
				"by its number": {Stream: "orders", Source: "till", Sequence: 1},
			} {
				c, s := newClient(t, client.Options{}, step)
				receipt, err := c.Send(t.Context(), m)
				var p *client.Problem
				if !errors.As(err, &p) || p.Type != "" || len(s.tries) != 1 {
					t.Errorf("%s: got %+v, %v after %d tries", about, receipt, err, len(s.tries))
				}
			}
		})
	}
}

func TestAnAnswerOfSomebodyElseIsNotThatARequestIsStored(t *testing.T) {
	for name, step := range strangers {
		c, s := newClient(t, client.Options{}, step)
		_, err := c.Put(t.Context(), client.Request{Stream: "orders", ID: "k"})
		var p *client.Problem
		if !errors.As(err, &p) || p.Type != "" || len(s.tries) != 1 {
			t.Errorf("%s: got %v after %d tries", name, err, len(s.tries))
		}
	}
}

func TestAnAnswerOfSomebodyElseIsNoHandlersReply(t *testing.T) {
	for name, step := range strangers {
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

func TestAnAnswerOfSomebodyElseIsNoLookUp(t *testing.T) {
	for name, step := range strangers {
		c, _ := newClient(t, client.Options{}, step)
		status, err := c.Status(t.Context(), "orders", "k")
		if p, ok := errors.AsType[*client.Problem](err); !ok || p.Type != "" {
			t.Errorf("%s: got %+v, %v", name, status, err)
		}
	}
}
