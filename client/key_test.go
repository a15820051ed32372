package client_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/effectively-once/once/client"
)

// A caller that does not know whether its message was accepted sends it again. It needs the same
// key, because with a new key it would send a second message.
func TestAProblemHasTheKeyOfTheMessage(t *testing.T) {
	for name, steps := range map[string][]http.HandlerFunc{
		"somebody else's answer":           {plain(403, "<html>")},
		"a login page":                     {plain(200, "<html>")},
		"a refusal":                        {problem(422, "key-reuse")},
		"a refusal after a lost answer":    {cut, problem(403, "forbidden")},
		"a refusal after one to try again": {problem(503, "unavailable"), problem(403, "forbidden")},
	} {
		for _, m := range []client.Message{{Stream: "orders"}, {Stream: "orders", Key: "own"}, {Stream: "orders", Source: "till", Sequence: 1}} {
			synctest.Test(t, func(t *testing.T) {
				c, s := newClient(t, client.Options{}, append(steps, accept)...)
				_, err := c.Send(t.Context(), m)
				want := m.Key
				if m.Key == "" && m.Source == "" {
					want = "key-1"
				}
				var p *client.Problem
				if !errors.As(err, &p) || p.Key != want || m.Source == "" && s.last.Header.Get("Idempotency-Key") != `"`+want+`"` {
					t.Fatalf("%s, key %q: got %+v, sent under %q", name, m.Key, p, s.last.Header.Get("Idempotency-Key"))
				}
				m := m
				m.Key = p.Key
				if _, err := c.Send(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				if first, again := s.tries[0].Key, s.tries[len(s.tries)-1].Key; first != again {
					t.Errorf("%s: sent again under %s in place of %s", name, again, first)
				}
			})
		}
	}
}

func TestAProblemOfAOneTimeRequestHasItsIDAsKeyAndOneOfALookUpHasNone(t *testing.T) {
	c, _ := newClient(t, client.Options{}, plain(403, "<html>"))
	_, put := c.Put(t.Context(), client.Request{Stream: "orders", ID: "r"})
	_, run := c.Run(t.Context(), "orders", "r")
	_, looked := c.Status(t.Context(), "orders", "r")
	for name, x := range map[string]struct {
		err  error
		want string
	}{"put": {put, "r"}, "run": {run, "r"}, "delete": {c.Delete(t.Context(), "orders", "r"), "r"}, "look-up": {looked, ""}} {
		if p, ok := errors.AsType[*client.Problem](x.err); !ok || p.Key != x.want {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
