package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/dedup/session"
)

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stopping returns a client whose first call gets no answer: the call stops its consumer.
func stopping(t *testing.T, p *pool, f fault, stop func()) *client.Client {
	t.Helper()
	first := true
	c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if !first {
			return p.RoundTrip(r)
		}
		first = false
		defer stop()
		if f == unanswered {
			if resp, err := p.RoundTrip(r); err == nil {
				_ = resp.Body.Close()
			}
		}
		return nil, errCut
	})}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAConsumerThatIsStoppedDuringItsOpenLeavesTheSessionFree(t *testing.T) {
	for name, f := range map[string]fault{"the request is lost": lost, "the answer is lost": unanswered} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, session.Config{})
				ctx, stop := context.WithCancel(t.Context())
				err := stopping(t, p, f, stop).Consume(ctx, client.SessionOptions{Stream: "work", Name: "a"}, nil)
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				s, err := p.client().OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: "a"})
				if err != nil {
					t.Fatal(err)
				}
				s.Close()
			})
		})
	}
}

func TestAConsumerThatIsStoppedDuringItsOpenLeavesTheSessionOfAnotherAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		other, err := p.client().OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		ctx, stop := context.WithCancel(t.Context())
		if err := stopping(t, p, unanswered, stop).Consume(ctx, client.SessionOptions{Stream: "work", Name: "a"}, nil); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := other.Renew(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
