package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// counting returns the guard of a new process, and the store that counts its calls.
func (w *world) counting(fault func(int) fault) (*Guard, *faulty) {
	g := w.guard(fault)
	return g, g.store.(*faulty)
}

// crashed leaves the expired lease of a crashed attempt.
func (w *world) crashed() {
	w.dying(eager, crashAt(2, after), panics)
	pass(2 * testLease)
}

func TestAnAttemptMakesOnlyTheStoreCallsItNeeds(t *testing.T) {
	for _, c := range []struct {
		mode  mode
		err   error
		calls int
	}{
		{lazy, nil, 2}, {eager, nil, 3}, {leased, nil, 3}, // load, claim, complete
		// load, claim, release
		{lazy, errHandler, 1}, {eager, errHandler, 3}, {leased, errHandler, 3},
	} {
		for call := 1; call <= c.calls; call++ {
			for _, f := range []fault{none, before, after} {
				t.Run(fmt.Sprintf("%s, %v, call %d/%v", c.mode.name, c.err, call, f), func(t *testing.T) {
					inWorld(t, func(w *world) {
						w.crashed()
						g, store := w.counting(func(n int) fault {
							if n == call && n > 1 {
								return f
							}
							return none
						})
						_, err := c.mode.call(g, w.t.Context(), w.id, func(context.Context) (*record.Reply, error) { return nil, c.err })
						if !errors.Is(err, c.err) {
							w.t.Errorf("got %v, want %v", err, c.err)
						}
						want := c.calls
						if call > 1 && f != none {
							want++
						}
						if store.calls != want {
							w.t.Errorf("asked the store %d times, want %d", store.calls, want)
						}
					})
				})
			}
		}
	}
}

func TestAFailureLetsTheNextAttemptStartThoughTheReleaseNeedsARetry(t *testing.T) {
	for _, m := range []mode{eager, leased} {
		for _, f := range []fault{before, after} {
			t.Run(fmt.Sprintf("%s/%v", m.name, f), func(t *testing.T) {
				inWorld(t, func(w *world) {
					g := w.guard(func(call int) fault {
						if call == 3 {
							return f
						}
						return none
					})
					_, err := m.call(g, w.t.Context(), w.id, w.fails(errHandler, 0))
					if !errors.Is(err, errHandler) || errors.Is(err, ErrFenced) {
						w.t.Errorf("got %v, want the handler's error alone", err)
					}
					w.wantRun(m)
				})
			})
		}
	}
}

func TestAFailureLetsTheNextAttemptStartThoughAnExtensionIsInDoubt(t *testing.T) {
	inWorld(t, func(w *world) {
		g := w.guard(func(call int) fault {
			if call == 3 { // the first extension
				return after
			}
			return none
		})
		if _, err := leased.call(g, w.t.Context(), w.id, w.fails(errHandler, testLease/3+time.Second)); !errors.Is(err, errHandler) {
			w.t.Errorf("got %v", err)
		}
		w.wantRun(leased)
	})
}

func TestAReleasedIdentityMayBeReusedThoughTheStoresClockIsBehind(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store = memstore.New(func() time.Time { return time.Now().Add(-time.Second) })
		_, _ = w.attempt(eager, w.fails(errHandler, 0))
		w.id.Fingerprint[0]++
		w.wantRun(eager)
	})
}

func TestAReleaseDoesNotUndoADoneToken(t *testing.T) {
	inWorld(t, func(w *world) {
		a, v := w.guard(nil).claim(w.t.Context(), w.id)
		if v.settled {
			w.t.Fatal(v.err)
		}
		if _, err := a.complete(w.t.Context(), &record.Reply{Body: []byte("first")}); err != nil {
			w.t.Fatal(err)
		}
		a.release(w.t.Context())
		w.wantDone(eager, "first")
	})
}

func TestAnAttemptThatLosesTheRaceForALeaseIsToldWhenToRetry(t *testing.T) {
	for _, m := range []mode{eager, leased} {
		t.Run(m.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := w.guard(func(call int) fault {
					if call == 2 {
						other, v := w.guard(nil).claim(w.t.Context(), w.id)
						if v.settled || other.held.Owner == "" {
							w.t.Errorf("the other attempt got %v", v.err)
						}
					}
					return none
				})
				_, err := m.call(g, w.t.Context(), w.id, panics)
				var busy *LeasedError
				if !errors.As(err, &busy) || busy.RetryAfter <= testLease-maxPause || busy.RetryAfter > testLease {
					w.t.Errorf("got %v, want a lease of the other one", err)
				}
			})
		})
	}
}

func TestALateReplyIsKeptIfTheLeaseTakenMeanwhileHasExpired(t *testing.T) {
	inWorld(t, func(w *world) {
		late := w.start(lazy, w.answers("late", 3*testLease))
		w.crashed()
		if r := <-late; r.err != nil || r.Duplicate || string(r.Reply.Body) != "late" {
			w.t.Errorf("got %+v, want its own reply", r)
		}
		w.wantDone(lazy, "late")
	})
}

func TestAClaimEndsWhenItsCallerCancels(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.t.Context())
		g, store := w.counting(func(call int) fault {
			if call == 1 {
				return none
			}
			cancel()
			return before
		})
		if _, err := eager.call(g, ctx, w.id, panics); !errors.Is(err, errStore) {
			w.t.Errorf("got %v, want the store's error", err)
		}
		if store.calls != 2 {
			w.t.Errorf("asked the store %d times, want a load and one claim", store.calls)
		}
	})
}

func TestAReleaseStopsAtItsDeadline(t *testing.T) {
	inWorld(t, func(w *world) {
		g, store := w.counting(func(call int) fault {
			if call < 3 {
				return none
			}
			pass(settleLimit + time.Second)
			return before
		})
		if _, err := eager.call(g, w.t.Context(), w.id, w.fails(errHandler, 0)); !errors.Is(err, errHandler) {
			w.t.Errorf("got %v", err)
		}
		if store.calls != 3 {
			w.t.Errorf("asked the store %d times, want a load, a claim and one release", store.calls)
		}
	})
}
