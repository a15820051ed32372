package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

func TestALeaseIsExtendedAgainAfterAnExtensionWhoseAnswerWasLost(t *testing.T) {
	for _, f := range []fault{before, after} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := w.guard(func(call int) fault {
					if call == 3 { // the first extension
						return f
					}
					return none
				})
				r, err := leased.call(g, w.t.Context(), w.id, func(ctx context.Context) (*record.Reply, error) {
					defer w.enter()()
					if err := backoff.Sleep(ctx, 10*testLease); err != nil {
						return nil, fmt.Errorf("cancelled: %w", context.Cause(ctx))
					}
					return &record.Reply{Body: []byte("first")}, nil
				})
				if err != nil || r.Duplicate {
					w.t.Errorf("got %+v, %v; want a handler that runs for ten leases", r, err)
				}
				w.wantRuns(1)
			})
		})
	}
}

// The claim is stored, and its answer is lost 20 s later. The second try finds the claim of the
// first.
func TestAClaimWhoseAnswerWasLostEndsWhenTheStoredLeaseEnds(t *testing.T) {
	for _, m := range []mode{eager, leased} {
		t.Run(m.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := w.guard(func(call int) fault {
					if call < 4 { // a load, and two tries of the claim
						return none
					}
					return before
				})
				g.store.(*faulty).Store = &slow{Store: w.store, call: 1, by: 20 * time.Second}
				_, err := m.call(g, w.t.Context(), w.id, func(ctx context.Context) (*record.Reply, error) {
					stored := w.token().Lease
					<-ctx.Done()
					if left := remaining(stored); left != testLease/10 {
						w.t.Errorf("the handler's context ended %v before the stored lease, want %v", left, testLease/10)
					}
					return nil, context.Cause(ctx)
				})
				if !errors.Is(err, ErrFenced) {
					w.t.Errorf("got %v", err)
				}
			})
		})
	}
}

// A slow store applies one call of SwapToken at once, and fails it after a time.
type slow struct {
	Store
	call int // counts down
	by   time.Duration
}

func (s *slow) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	stored, err := s.Store.SwapToken(ctx, old, next)
	if s.call--; s.call == 0 {
		pass(s.by)
		return record.Token{}, errStore
	}
	return stored, err
}

func TestMaxReplyCountsBodyHeaderNamesAndHeaderValues(t *testing.T) {
	reply := record.Reply{Header: map[string][]string{"Etag": {"12", "345"}}, Body: []byte("6789")}
	const size = 2*len("Etag") + len("12") + len("345") + len("6789")
	for limit, want := range map[int]error{size: nil, size - 1: ErrReplyTooLarge} {
		inWorld(t, func(w *world) {
			g := New(w.store, Config{MaxReply: limit})
			_, err := g.Lazy(w.t.Context(), w.id, func(context.Context) (*record.Reply, error) { return &reply, nil })
			if !errors.Is(err, want) {
				w.t.Errorf("a reply of %d bytes with a limit of %d: %v", size, limit, err)
			}
		})
	}
}

func TestAReleasedTokenIsForgottenAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		if _, err := w.attempt(eager, w.fails(errHandler, 0)); !errors.Is(err, errHandler) {
			w.t.Fatal(err)
		}
		if token := w.token(); token.State != record.Absent {
			w.t.Errorf("the token is %v until %v", token.State, token.Expires)
		}
	})
}

// A small store refuses replies of more than a few bytes.
type small struct{ Store }

func (s small) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	if next.Reply.Size() > 10 {
		return record.Token{}, &record.RefusedError{Reason: "too-large"}
	}
	return s.Store.SwapToken(ctx, old, next)
}

func TestAReplyThatTheStoreRefusesIsNotRunAgain(t *testing.T) {
	for _, m := range []mode{lazy, eager, leased} {
		t.Run(m.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				g := New(small{w.store}, Config{})
				for range 2 {
					if _, err := m.call(g, w.t.Context(), w.id, w.answers("more than ten bytes", 0)); !errors.Is(err, ErrReplyTooLarge) {
						w.t.Errorf("got %v, want ErrReplyTooLarge", err)
					}
				}
				w.wantRuns(1)
			})
		})
	}
}
