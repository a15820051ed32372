package client_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
)

func TestAOneTimeRequestIsPutRunAndDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receipt := `{"id":"pay/1","stream":"payments","group":"pay/1","status":"accepted"}`
		c, s := newClient(t, client.Options{}, plain(201, receipt), plain(200, receipt), cut, plain(409, "no money", "Once-Reply", "true", "Idempotent-Replayed", "false"), cut, plain(204, ""))
		for _, fresh := range []bool{true, false} {
			got, err := c.Put(t.Context(), client.Request{Stream: "payments", ID: "pay/1", Body: []byte("5")})
			if err != nil || got != fresh {
				t.Errorf("put: %v, %v", got, err)
			}
		}
		reply, err := c.Run(t.Context(), "payments", "pay/1")
		if err != nil || reply.Status != http.StatusConflict || string(reply.Body) != "no money" {
			t.Errorf("run: %+v, %v", reply, err)
		}
		if err := c.Delete(t.Context(), "payments", "pay/1"); err != nil {
			t.Errorf("delete: %v", err)
		}
		at := "/v1/streams/payments/requests/pay%2F1"
		want := []try{
			{"PUT", at, "", "", "5"},
			{"PUT", at, "", "", "5"},
			{"POST", at, "", "", ""},
			{"POST", at, "", "", ""},
			{"DELETE", at, "", "", ""},
			{"DELETE", at, "", "", ""},
		}
		if d := cmp.Diff(want, s.tries); d != "" {
			t.Error(d)
		}
	})
}

func TestRunDistinguishesAHandlersReplyFromAProxysAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{408, 409, 425, 429, 500, 503} {
			for mark, want := range map[string]bool{"true": true, "false": false} {
				c, s := newClient(t, client.Options{MaxElapsed: time.Minute}, plain(status, "of a proxy"), plain(status, "of the handler", "Once-Reply", "true", "Idempotent-Replayed", mark))
				reply, err := c.Run(t.Context(), "payments", "p")
				if err != nil || reply.Status != status || string(reply.Body) != "of the handler" || reply.Replayed != want || len(s.tries) != 2 {
					t.Errorf("%d: %+v, %v", status, reply, err)
				}
			}
		}
		// A handler may pass on the answer of another once server.
		c, _ := newClient(t, client.Options{MaxElapsed: time.Minute}, problem(409, "leased", "Once-Reply", "true", "Idempotent-Replayed", "false"))
		if reply, err := c.Run(t.Context(), "payments", "p"); err != nil || reply.Status != http.StatusConflict {
			t.Errorf("a problem as a reply: %+v, %v", reply, err)
		}
		nothing := `{"id":"p","stream":"payments","group":"p","status":"done"}`
		c, _ = newClient(t, client.Options{}, plain(200, nothing, "Idempotent-Replayed", "false"))
		if reply, err := c.Run(t.Context(), "payments", "p"); err != nil || reply.Status != http.StatusOK || string(reply.Body) != nothing {
			t.Errorf("a handler that replied nothing: %+v, %v", reply, err)
		}
		c, _ = newClient(t, client.Options{}, plain(202, `{"id":"p","stream":"payments","group":"p","status":"accepted"}`, "Idempotent-Replayed", "true"))
		if reply, err := c.Run(t.Context(), "payments", "p"); err == nil {
			t.Errorf("a request that is not done: %+v", reply)
		}
		for _, p := range []client.ProblemType{client.UnknownMessage, client.Deleted} {
			c, _ = newClient(t, client.Options{}, problem(404, string(p)))
			if _, err := c.Run(t.Context(), "payments", "p"); !errors.Is(err, p) {
				t.Errorf("%s: %v", p, err)
			}
		}
		c, _ = newClient(t, client.Options{}, problem(422, "key-reuse"))
		if _, err := c.Put(t.Context(), client.Request{Stream: "payments", ID: "p"}); !errors.Is(err, client.KeyReuse) {
			t.Errorf("put: %v", err)
		}
		if _, err := c.Put(t.Context(), client.Request{Stream: "payments"}); err == nil {
			t.Error("put without an id")
		}
	})
}
