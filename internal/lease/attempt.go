package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/effectively-once/once/internal/record"
)

const (
	// maxTries bounds the repetitions of a claim or a release.
	maxTries = 6
	// firstPause bounds the pause before the second try; the bound doubles up to maxPause.
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
	// settleLimit bounds what an attempt does once its handler has returned, its caller there or gone.
	settleLimit = 5 * time.Second
)

// An attempt is one run of a handler. Its fields are used by one goroutine at a time: by the heartbeat while the handler runs, by the caller before and after.
type attempt struct {
	*Guard
	id    Identity
	owner string
	// held is the token as this attempt knows it: its lease, or what it found where it claimed nothing.
	held      record.Token
	unclaimed bool
	limit     *time.Timer
}

func isConflict(err error) bool { return errors.Is(err, record.ErrConflict) }

func (g *Guard) load(ctx context.Context, key record.TokenKey) (record.Token, error) {
	_, tokens, err := g.store.Load(ctx, nil, []record.TokenKey{key})
	if err != nil {
		return record.Token{}, fmt.Errorf("load token: %w", err)
	}
	return tokens[0], nil
}

// claim takes the lease. The end of the lease is the same in every try, so that one that lands late changes nothing.
func (g *Guard) claim(ctx context.Context, id Identity) (*attempt, verdict) {
	a := &attempt{Guard: g, id: id, owner: g.NewID()}
	var err error
	if a.held, err = g.load(ctx, id.Key); err != nil {
		return nil, verdict{settled: true, err: err}
	}
	until := g.Now().Add(g.Lease)
	for n := 1; ; n++ {
		if v := judge(a.held, id, g.Now()); v.settled {
			return nil, v
		}
		next := g.leased(a.held, id, a.owner, until)
		stored, err := a.swap(ctx, next)
		switch {
		case err == nil: // now, or in a try whose answer was lost
			a.held = next
			return a, verdict{}
		case isConflict(err):
			a.held = stored
		}
		if n == maxTries || a.Pause(ctx, backoff(n)) != nil {
			return nil, verdict{settled: true, err: fmt.Errorf("claim token: %w", err)}
		}
	}
}

// swap writes next over the token that the attempt holds.
func (a *attempt) swap(ctx context.Context, next record.Token) (record.Token, error) {
	return a.store.SwapToken(ctx, a.held, next)
}

// holds reports whether a stored token is this attempt's lease. Its epoch may be ahead of what the attempt knows: an extension whose answer was lost.
func (a *attempt) holds(stored record.Token) bool {
	return stored.State == record.Leased && stored.Owner == a.owner
}

// complete stores the handler's reply, or gives that of the attempt that was faster. It goes on for a short while when the caller has gone.
func (a *attempt) complete(ctx context.Context, reply *record.Reply) (Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	next := a.done(a.held, a.id, a.owner, reply)
	for n := 1; ; n++ {
		stored, err := a.swap(ctx, next)
		switch {
		case err == nil: // now, or in a try whose answer was lost
			return a.completed(next)
		case isConflict(err) && !a.mayComplete(stored):
			return a.discarded(stored)
		case isConflict(err):
			a.held = stored
		}
		if a.Pause(ctx, backoff(n)) != nil {
			return Result{}, fmt.Errorf("complete token: %w", err)
		}
	}
}

// completed is the result of an attempt that won.
func (a *attempt) completed(t record.Token) (Result, error) {
	if t.Reason == tooLarge {
		return Result{}, ErrReplyTooLarge
	}
	return Result{Reply: t.Reply}, nil
}

// mayComplete reports whether the attempt can still win over the stored token: its own lease, or, where it claimed nothing, one that nobody holds.
func (a *attempt) mayComplete(stored record.Token) bool {
	if a.unclaimed {
		return !judge(stored, a.id, a.Now()).settled
	}
	return a.holds(stored)
}

// discarded is the result of an attempt that lost to the stored token.
func (a *attempt) discarded(stored record.Token) (Result, error) {
	a.Log.Warn("result of a late attempt discarded", "token", a.id.Key.String(), "stored", stored.State.String())
	if v := judge(stored, a.id, a.Now()); stored.State == record.Done {
		return v.result, v.err
	}
	return Result{}, ErrFenced
}

// release gives the message back, so that the next attempt can run at once. Where it can't, the lease runs out.
func (a *attempt) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	for n := 1; ; n++ {
		next := record.Token{Key: a.id.Key, State: record.Leased, Owner: released, Epoch: a.held.Epoch + 1, Expires: a.Now()}
		stored, err := a.swap(ctx, next)
		switch {
		case err == nil:
			return
		case isConflict(err) && !a.holds(stored):
			return // released after all, or another's by now
		case isConflict(err):
			a.held = stored
		}
		if n == maxTries || a.Pause(ctx, backoff(n)) != nil {
			a.Log.Warn("lease not released", "token", a.id.Key.String(), "error", err.Error())
			return
		}
	}
}

// backoff is the pause before try n+1: random up to a bound that doubles.
func backoff(n int) time.Duration {
	return rand.N(min(firstPause<<min(n-1, 6), maxPause)) //nolint:gosec // jitter, not a secret
}

// pause waits, or gives the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
