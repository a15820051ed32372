package once_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// A gate is a store that can be unavailable.
type gate struct {
	*memstore.Store
	away atomic.Bool
}

var errAway = errors.New("the disk is on fire")

func (g *gate) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	if g.away.Load() {
		return nil, nil, errAway
	}
	return g.Store.Load(ctx, groups, tokens)
}

func (g *gate) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	if g.away.Load() {
		return record.Token{}, errAway
	}
	return g.Store.SwapToken(ctx, old, next)
}

func TestNoHandlerRunsWhileTheStoreIsUnavailable(t *testing.T) {
	runs := 0
	store := &gate{Store: memstore.New(time.Now)}
	store.away.Store(true)
	h := once.Middleware(once.NewTokens(store), once.MiddlewareConfig{})(counting(&runs))
	answer := serve(h, post("k", ""))
	if answer.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	wantProblem(t, answer, http.StatusServiceUnavailable, "unavailable")
	store.away.Store(false)
	if again := serve(h, post("k", "")); again.Code != http.StatusCreated || runs != 1 {
		t.Errorf("got %d; %d ran", again.Code, runs)
	}
}

func TestAStoreThatFailsDuringTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		away   time.Duration
		status int
		runs   int
	}{
		"and recovers a second later": {time.Second, http.StatusCreated, 1},
		"and stays unavailable":       {time.Hour, http.StatusServiceUnavailable, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				store := &gate{Store: memstore.New(time.Now)}
				h := once.Middleware(once.NewTokens(store), once.MiddlewareConfig{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if runs++; runs == 1 {
						store.away.Store(true)
						time.AfterFunc(c.away, func() { store.away.Store(false) })
					}
					w.WriteHeader(http.StatusCreated)
				}))
				if answer := serve(h, post("k", "")); answer.Code != c.status {
					t.Errorf("got %d, want %d", answer.Code, c.status)
				}
				time.Sleep(2 * time.Hour)
				if answer := serve(h, post("k", "")); answer.Code != http.StatusCreated || runs != c.runs {
					t.Errorf("got %d; %d ran, want %d", answer.Code, runs, c.runs)
				}
			})
		})
	}
}
