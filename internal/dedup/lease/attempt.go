package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

const (
	// maxTries limits the tries of a claim or a release.
	maxTries = 6
	// firstPause limits the pause before the second try; the limit doubles up to maxPause.
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
	// settleLimit is the deadline for the writes after the handler has returned, even if the caller
	// has gone.
	settleLimit = 5 * time.Second
)

// An attempt is one run of a handler. Its fields are used by one goroutine at a time: by the
// heartbeat while the handler runs, by the caller before and after.
type attempt struct {
	*Guard
	id    Identity
	owner string
	// held is the last token this attempt read or wrote: its own lease, or for Lazy the token it
	// loaded.
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

// claim takes the lease. Every try writes the same end of the lease, so a try that is applied late
// changes nothing.
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
		case err == nil: // by this try, or by an earlier one whose result was lost
			a.held = next
			return a, verdict{}
		case isConflict(err):
			a.held = stored
		}
		if n == maxTries || a.Pause(ctx, backoff.Full(n, firstPause, maxPause)) != nil {
			return nil, verdict{settled: true, err: fmt.Errorf("claim token: %w", err)}
		}
	}
}

// swap writes next if the stored token is still a.held.
func (a *attempt) swap(ctx context.Context, next record.Token) (record.Token, error) {
	return a.store.SwapToken(ctx, a.held, next)
}

// holds reports whether a stored token is this attempt's lease. Its epoch may be higher than
// a.held.Epoch: after an extension whose result was lost.
func (a *attempt) holds(stored record.Token) bool {
	return stored.State == record.Leased && stored.Owner == a.owner
}

// complete stores the handler's reply. If another attempt was faster, it returns that attempt's
// reply. It has a short deadline of its own, in case the caller has gone.
func (a *attempt) complete(ctx context.Context, reply *record.Reply) (Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	next := a.done(a.held, a.id, a.owner, reply)
	for n := 1; ; n++ {
		stored, err := a.swap(ctx, next)
		switch {
		case err == nil: // by this try, or by an earlier one whose result was lost
			return a.completed(next)
		case isConflict(err) && !a.mayComplete(stored):
			return a.discarded(stored)
		case isConflict(err):
			a.held = stored
		case refuses(err) && next.Reply != nil:
			next = withoutReply(next)
			continue
		}
		if a.Pause(ctx, backoff.Full(n, firstPause, maxPause)) != nil {
			return Result{}, fmt.Errorf("complete token: %w", err)
		}
	}
}

// refuses reports whether a store can never take a record: it is larger than its records may be.
// Then nothing was applied.
func refuses(err error) bool {
	_, refused := errors.AsType[*record.RefusedError](err)
	return refused
}

// completed returns the result of an attempt that won.
func (a *attempt) completed(t record.Token) (Result, error) {
	if t.Reason == tooLarge {
		return Result{}, ErrReplyTooLarge
	}
	return Result{Reply: t.Reply}, nil
}

// mayComplete reports whether the attempt can still replace the stored token: its own lease, or for
// Lazy a token without a lease that is still running.
func (a *attempt) mayComplete(stored record.Token) bool {
	if a.unclaimed {
		return !judge(stored, a.id, a.Now()).settled
	}
	return a.holds(stored)
}

// discarded returns the result of an attempt that lost to the stored token.
func (a *attempt) discarded(stored record.Token) (Result, error) {
	a.Log.Warn("result of a late attempt discarded", "hash", a.id.Key.Short(), "stored", stored.State.String())
	if v := judge(stored, a.id, a.Now()); stored.State == record.Done {
		return v.result, v.err
	}
	return Result{}, ErrFenced
}

// release ends the lease early, so that the next attempt can run without waiting. If that fails,
// the lease expires.
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
			return // released by an earlier try, or taken over
		case isConflict(err):
			a.held = stored
		}
		if n == maxTries || a.Pause(ctx, backoff.Full(n, firstPause, maxPause)) != nil {
			a.Log.Warn("lease not released", "hash", a.id.Key.Short(), "error", err)
			return
		}
	}
}
