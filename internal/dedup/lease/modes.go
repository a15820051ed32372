package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

// Lazy loads the token, runs the handler and stores the reply. Concurrent attempts all run the
// handler; the first to store its reply wins, and the others return that reply.
func (g *Guard) Lazy(ctx context.Context, id Identity, f Func) (Result, error) {
	found, err := g.load(ctx, id.Key)
	if err != nil {
		return Result{}, err
	}
	if v := judge(found, id, g.Now()); v.settled {
		return v.result, v.err
	}
	reply, err := f(ctx)
	if err != nil {
		return Result{}, err
	}
	a := &attempt{Guard: g, id: id, owner: g.NewID(), held: found, unclaimed: true}
	return a.complete(ctx, reply)
}

// Eager claims the lease, runs the handler and completes. The handler's context ends a tenth of a
// lease before the lease does.
func (g *Guard) Eager(ctx context.Context, id Identity, f Func) (Result, error) {
	a, v := g.claim(ctx, id)
	if v.settled {
		return v.result, v.err
	}
	return a.run(ctx, f, func(context.Context, context.CancelCauseFunc) {})
}

// Leased is Eager with a heartbeat: the lease is extended while the handler runs, and the handler's
// context ends if the lease is lost.
func (g *Guard) Leased(ctx context.Context, id Identity, f Func) (Result, error) {
	a, v := g.claim(ctx, id)
	if v.settled {
		return v.result, v.err
	}
	return a.run(ctx, f, a.beat)
}

// run runs the handler of a claimed message while keep extends the lease, and then completes or
// releases it. A panic continues after the release.
func (a *attempt) run(ctx context.Context, f Func, keep func(context.Context, context.CancelCauseFunc)) (Result, error) {
	handling, cancel := context.WithCancelCause(ctx)
	a.limit = time.AfterFunc(a.remaining(), func() { cancel(ErrFenced) })
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var kept sync.WaitGroup
	kept.Go(func() { keep(keeping, cancel) })

	succeeded := false
	defer func() {
		stop()
		kept.Wait()
		a.limit.Stop()
		cancel(context.Canceled)
		if !succeeded { // an error, a panic or runtime.Goexit
			a.release(ctx)
		}
	}()
	reply, err := f(handling)
	if err != nil {
		if errors.Is(context.Cause(handling), ErrFenced) {
			err = errors.Join(ErrFenced, err)
		}
		return Result{}, err
	}
	succeeded = true
	stop()
	kept.Wait()
	return a.complete(ctx, reply)
}

// remaining returns how long the handler may run under the current lease. The last tenth of the
// lease is reserved for storing its result.
func (a *attempt) remaining() time.Duration {
	return a.held.Lease.Sub(a.Now()) - a.Lease/10
}

// beat extends the lease until ctx ends. If the result of an extension is unknown, beat repeats the
// same write: so the lease that this attempt assumes never ends later than the stored one.
func (a *attempt) beat(ctx context.Context, lost context.CancelCauseFunc) {
	wait := a.Heartbeat
	var unsure *record.Token
	for backoff.Sleep(ctx, wait) == nil {
		next := a.leased(a.held, a.id, a.owner, a.Now().Add(a.Lease))
		if unsure != nil {
			next = *unsure
		}
		_, err := a.swap(ctx, next)
		switch {
		case err == nil:
			a.held, unsure, wait = next, nil, a.Heartbeat
			a.limit.Reset(a.remaining())
		case isConflict(err):
			lost(ErrFenced)
			return
		default:
			unsure, wait = &next, a.Heartbeat/4
		}
	}
}
