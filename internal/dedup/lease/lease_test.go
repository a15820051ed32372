package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

func panics(context.Context) (*record.Reply, error) { panic("boom") }

func (w *world) token() record.Token {
	_, tokens, err := w.store.Load(w.t.Context(), nil, []record.TokenKey{w.id.Key})
	if err != nil {
		w.t.Fatal(err)
	}
	return tokens[0]
}

func TestASingleFaultAtTheStoreIsAbsorbed(t *testing.T) {
	for _, m := range []mode{lazy, eager, leased} {
		for call := 1; call <= 8; call++ {
			for _, f := range []fault{before, after} {
				t.Run(fmt.Sprintf("%s/call %d/%v", m.name, call, f), func(t *testing.T) {
					inWorld(t, func(w *world) {
						t := w.t
						g := w.guard(func(n int) fault {
							if n == call {
								return f
							}
							return none
						})
						r, err := m.call(g, t.Context(), w.id, w.answers("first", 3*testLease/2))
						if call == 1 { // the load: nothing has begun
							w.wantRuns(0)
							r, err = w.attempt(m, w.answers("first", 3*testLease/2))
						}
						if err != nil || r.Duplicate || string(r.Reply.Body) != "first" {
							t.Errorf("got %+v, %v", r, err)
						}
						w.wantRuns(1)
						w.wantDone(m, "first")
					})
				})
			}
		}
	}
}

func TestACrashAtAnyStoreCallLosesNothing(t *testing.T) {
	for _, m := range []mode{lazy, eager, leased} {
		for call := 1; call <= 8; call++ {
			for _, f := range []fault{before, after} {
				t.Run(fmt.Sprintf("%s/call %d/%v", m.name, call, f), func(t *testing.T) {
					inWorld(t, func(w *world) {
						t := w.t
						w.dying(m, crashAt(call, f), w.answers("first", 50*time.Second))
						pass(2 * testLease)
						r, err := w.attempt(m, w.answers("second", 0))
						if err != nil || r.Reply == nil {
							t.Fatalf("got %+v, %v", r, err)
						}
						if w.runs > 2 || w.overlap > 0 {
							t.Errorf("handler ran %d times, %d at once", w.runs, w.overlap)
						}
						w.wantDone(m, string(r.Reply.Body))
					})
				})
			}
		}
	}
}

func TestALeaseIsExtendedAsLongAsItsHandlerRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		first := w.start(leased, func(ctx context.Context) (*record.Reply, error) {
			defer w.enter()()
			if err := backoff.Sleep(ctx, 10*testLease); err != nil {
				return nil, err
			}
			return &record.Reply{Body: []byte("first")}, nil
		})
		for range 19 {
			pass(testLease / 2)
			if _, err := w.attempt(leased, panics); !errors.As(err, new(*LeasedError)) {
				t.Fatalf("got %v, want a live lease", err)
			}
		}
		if r := <-first; r.err != nil || r.Duplicate {
			t.Errorf("got %+v", r)
		}
		w.wantRuns(1)
		w.wantDone(leased, "first")
	})
}

func TestAHandlersContextEndsBeforeItsLeaseDoes(t *testing.T) {
	for _, m := range []mode{eager, leased} {
		t.Run(m.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				start := time.Now()
				done := w.startCutOff(m, func(ctx context.Context) (*record.Reply, error) {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				})
				if r := <-done; !errors.Is(r.err, ErrFenced) {
					t.Errorf("got %v, want ErrFenced as the cause", r.err)
				}
				if lived := w.token().Lease.Sub(start); lived != testLease {
					t.Errorf("the lease was for %v", lived)
				}
			})
		})
	}
}

func TestAnExtensionWithALostReplyCountsAsStored(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		g := w.guard(func(call int) fault {
			switch {
			case call == 3: // the first extension
				return after
			case call > 4: // its second try
				return before
			}
			return none
		})
		done := w.startOn(g, leased, func(ctx context.Context) (*record.Reply, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		<-done
		// Six failing tries of the release are over in less than two seconds.
		if left := remaining(w.token().Lease); left < testLease/10-2*time.Second || left > testLease/10 {
			t.Errorf("the handler's context ended %v before the stored lease, want %v", left, testLease/10)
		}
	})
}

func TestAHandlerThatEndsWhileAnExtensionIsInDoubtCompletes(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		g := w.guard(func(call int) fault {
			if call == 3 { // the first extension
				return after
			}
			return none
		})
		r, err := leased.call(g, t.Context(), w.id, w.answers("first", testLease/3+time.Second))
		if err != nil || r.Duplicate {
			t.Errorf("got %+v, %v", r, err)
		}
		w.wantDone(leased, "first")
	})
}

func TestAHeartbeatThatFindsAnotherOwnerCancelsTheHandler(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		done := w.start(leased, func(ctx context.Context) (*record.Reply, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		held := w.token()
		if _, err := w.store.SwapToken(t.Context(), held, w.guard(nil).leased(held, w.id, "other", time.Now().Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if r := <-done; !errors.Is(r.err, ErrFenced) || remaining(start) < -testLease/3 {
			t.Errorf("got %v after %v, want ErrFenced within a heartbeat", r.err, -remaining(start))
		}
		if got := w.token().Owner; got != "other" {
			t.Errorf("the lease is now of %q", got)
		}
	})
}

func TestAnExtendedLeaseIsNotTakenOverByAStaleRead(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		first := w.start(leased, w.answers("first", testLease))
		old := w.token()
		pass(testLease / 2)
		_, err := w.store.SwapToken(t.Context(), old, w.guard(nil).leased(old, w.id, "other", time.Now().Add(time.Hour)))
		if !errors.Is(err, record.ErrConflict) {
			t.Errorf("got %v, want a conflict", err)
		}
		<-first
		w.wantDone(leased, "first")
	})
}

func TestCancellingTheCallerStillSettles(t *testing.T) {
	for _, m := range []mode{lazy, eager, leased} {
		t.Run(m.name+"/the reply is kept", func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				ctx, cancel := context.WithCancel(t.Context())
				_, err := m.call(w.guard(nil), ctx, w.id, func(context.Context) (*record.Reply, error) {
					cancel()
					return &record.Reply{Body: []byte("first")}, nil
				})
				if err != nil {
					t.Error(err)
				}
				w.wantDone(m, "first")
			})
		})
		t.Run(m.name+"/the lease is released", func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				ctx, cancel := context.WithCancel(t.Context())
				_, err := m.call(w.guard(nil), ctx, w.id, func(ctx context.Context) (*record.Reply, error) {
					cancel()
					return nil, ctx.Err()
				})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				w.wantRun(m)
			})
		})
	}
}

func TestAnotherContentUnderTheSameIdentityIsKeyReuse(t *testing.T) {
	for _, m := range []mode{lazy, eager, leased} {
		t.Run(m.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				if _, err := w.attempt(m, w.answers("first", 0)); err != nil {
					t.Fatal(err)
				}
				w.id.Fingerprint[0]++
				if _, err := w.attempt(m, panics); !errors.Is(err, ErrKeyReuse) {
					t.Errorf("got %v, want ErrKeyReuse", err)
				}
			})
		})
	}
}

func TestAReleasedIdentityMayBeReusedForOtherContent(t *testing.T) {
	inWorld(t, func(w *world) {
		_, _ = w.attempt(eager, w.fails(errHandler, 0))
		w.id.Fingerprint[0]++
		w.wantRun(eager)
	})
}

func TestACrashedAttemptStillGuardsItsContent(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		w.dying(eager, crashAt(3, before), w.answers("lost", 0))
		pass(2 * testLease)
		w.id.Fingerprint[0]++
		if _, err := w.attempt(eager, panics); !errors.Is(err, ErrKeyReuse) {
			t.Errorf("got %v, want ErrKeyReuse", err)
		}
	})
}

func TestADoneTokenIsKeptForTheRetention(t *testing.T) {
	for _, m := range []mode{lazy, eager, leased} {
		t.Run(m.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				if _, err := w.attempt(m, w.answers("first", 0)); err != nil {
					t.Fatal(err)
				}
				pass(testRetention - time.Nanosecond)
				w.wantDone(m, "first")
				pass(time.Nanosecond)
				w.wantRun(m)
			})
		})
	}
}

func TestAReplyThatIsTooLargeIsNotRunAgain(t *testing.T) {
	for _, m := range []mode{lazy, eager, leased} {
		t.Run(m.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				g := New(w.store, Config{MaxReply: 4})
				for range 2 {
					if _, err := m.call(g, t.Context(), w.id, w.answers("large", 0)); !errors.Is(err, ErrReplyTooLarge) {
						t.Errorf("got %v, want ErrReplyTooLarge", err)
					}
				}
				w.wantRuns(1)
			})
		})
	}
}

func TestConcurrentAttemptsRunOneAtATime(t *testing.T) {
	for _, m := range []mode{eager, leased} {
		t.Run(m.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				var running []<-chan ending
				for range 20 {
					g := w.guard(nil)
					done := make(chan ending, 1)
					go func() {
						r, err := m.call(g, t.Context(), w.id, w.answers("one", time.Second))
						done <- ending{r, err}
					}()
					running = append(running, done)
				}
				synctest.Wait()
				won := 0
				for _, done := range running {
					if r := <-done; r.err == nil && !r.Duplicate {
						won++
					}
				}
				if won != 1 || w.overlap != 0 || w.runs != 1 {
					t.Errorf("%d won, %d ran, %d at once", won, w.runs, w.overlap)
				}
			})
		})
	}
}
