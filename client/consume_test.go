package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

// hanging returns a client of the pool that gets no answer to a call: its connection is closed.
func hanging(t *testing.T, p *pool, call string, o client.Options) *client.Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == call {
			panic(http.ErrAbortHandler)
		}
		p.http.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	o.MinBackoff, o.MaxBackoff = time.Millisecond, 20*time.Millisecond
	c, err := client.New(s.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAClosedConnectionIsNotTheEndOfASession(t *testing.T) {
	t.Run("after the longest time of a call", func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "end")
		c := hanging(t, p, "entries", client.Options{MaxElapsed: 50 * time.Millisecond})
		err := c.Consume(t.Context(), client.SessionOptions{Stream: "work", Name: "a"}, nil)
		if _, ok := errors.AsType[*client.UnacknowledgedError](err); !ok {
			t.Errorf("got %v", err)
		}
	})
	t.Run("when the consumer is stopped", func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "end")
		ctx, stop := context.WithCancel(t.Context())
		c := hanging(t, p, "entries", client.Options{OnRetry: func(error, time.Duration) { stop() }})
		if err := c.Consume(ctx, client.SessionOptions{Stream: "work", Name: "a"}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// The handler sends to another system, which is a once server too.
func TestTheErrorsOfAHandlerAreFailedTriesWhateverTheyAre(t *testing.T) {
	for _, kind := range []client.ProblemType{client.Ended, client.Held, client.Moved, client.Fenced, client.Retired} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, session.Config{Pools: map[string]session.Pool{"work": {Attempts: 2}}})
				p.fill("m1", "end")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := p.client().Consume(ctx, client.SessionOptions{Stream: "work", Name: "a"}, func(context.Context, *client.Batch) error {
					return fmt.Errorf("call the shop: %w", &client.Problem{Type: kind, Status: http.StatusConflict})
				})
				if stopped, ok := errors.AsType[*client.StoppedError](err); !ok || stopped.Tries != 2 || !errors.Is(err, kind) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestAnOpenWhoseAnswerIsLostDoesNotWaitForItsOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "end")
		p.once("open", unanswered)
		began := time.Now()
		done, err := consume(t, p, "")
		if waited := time.Since(began); err != nil || !slices.Equal(done, []string{"m1"}) || waited > time.Second {
			t.Errorf("done %v after %s, error %v", done, waited, err)
		}
	})
}

func TestAConsumerThatIsStoppedCommitsTheWorkThatItHasDone(t *testing.T) {
	for name, f := range map[string]fault{"the request of the commit is lost": lost, "the answer of the commit is lost": unanswered} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, session.Config{})
				p.fill("m1", "m2")
				ctx, stop := context.WithCancel(t.Context())
				first := true
				p.set(func(call string) fault {
					if call != "commit" || !first {
						return none
					}
					first = false
					stop()
					return f
				})
				var done []string
				err := p.client().Consume(ctx, client.SessionOptions{Stream: "work", Name: "a", Max: 1}, func(_ context.Context, b *client.Batch) error {
					done = append(done, ids(b))
					return nil
				})
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				s, err := p.client().OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: "a"})
				if err != nil {
					t.Fatalf("the session is not released: %v", err)
				}
				defer s.Close()
				if got := s.Opened().Cursor; got != 1 || !slices.Equal(done, []string{"m1"}) {
					t.Errorf("the cursor is %d after %v", got, done)
				}
			})
		})
	}
}

func TestAStateThatAHandlerChangesInPlaceIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "m2", "m3", "m4", "end")
		var states []string
		err := p.client().Consume(t.Context(), client.SessionOptions{Stream: "work", Name: "a", Max: 1}, func(_ context.Context, b *client.Batch) error {
			if len(b.Entries) == 0 {
				return nil
			}
			d, err := p.sessions.Describe(t.Context(), session.ID{Stream: "work", Name: "a"})
			if err != nil || string(d.State) != string(b.State) {
				t.Errorf("the server has the state %s, the handler %s; %v", d.State, b.State, err)
			}
			states = append(states, string(b.State))
			switch b.Entries[0].ID {
			case "m1":
				b.State = json.RawMessage(`[1]`)
			case "m2":
				b.State[1] = '2'
			case "m3":
				b.State = nil
			}
			return nil
		})
		if want := []string{"", "[1]", "[2]", ""}; err != nil || !slices.Equal(states, want) {
			t.Errorf("got %q, %v; want %q", states, err, want)
		}
	})
}
