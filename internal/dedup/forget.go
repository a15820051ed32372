package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// Forget deletes a one-time request: later calls are told that it is deleted. The delete commits
// the group. So a concurrent attempt either commits first, and then the request is finished before
// it is deleted, or it loses its condition, loads again and sees that the request is deleted. If
// the request is unknown, Forget returns a [*record.RefusedError].
func (e *Engine) Forget(ctx context.Context, m record.Message) error {
	it := &item{Arrival: admission.Arrival{Message: m}}
	s, err := it.Check(e.streams)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		err := e.forget(ctx, s, it)
		var refused *record.RefusedError
		if err == nil || errors.As(err, &refused) || errors.Is(err, errUnpublished) || n == maxRounds {
			return err
		}
		if err := e.cfg.Pause(ctx, n); err != nil {
			return err
		}
	}
}

// errUnpublished says that a request has run but its effects can't be sent now. Forget returns it
// without retrying, so that its caller does not wait for a destination that is down.
var errUnpublished = errors.New("the request's effects are not published yet")

func (e *Engine) forget(ctx context.Context, s record.Stream, it *item) error {
	p := newPart(it.GroupKey(), s)
	p.items = []*item{it}
	if err := e.load(ctx, []*part{p}); err != nil {
		return err
	}
	if !it.open() {
		return it.fate.Err
	}
	if entry, ok := it.Entry(&p.view, e.cfg.Now()); ok && entry.Kept() { // has the same id
		if err := e.publisher.Release(ctx, p.key); err != nil {
			return err
		}
		return errReload
	}
	old := p.tokens.get(it.Token())
	switch {
	case old.State == record.Absent:
		return &record.RefusedError{Reason: record.ReasonUnknown, Detail: "no such request"}
	case old.Deleted():
		return nil
	}
	// The request has run: finish it first, or its publisher would overwrite the tombstone.
	if _, ok := it.Entry(&p.view, e.cfg.Now()); ok {
		if err := e.publisher.Publish(ctx, []record.GroupKey{p.key})[0]; err != nil {
			return fmt.Errorf("%w: %w", errUnpublished, err)
		}
		return errReload
	}
	return e.writeTombstone(ctx, p, it)
}

// finishDelete completes deletes of the batch's requests that a caller has begun, and makes the
// engine load the group again. The worker that began the delete may be dead, and until it is
// complete no caller is told that the request is deleted.
func (e *Engine) finishDelete(ctx context.Context, p *part) error {
	for _, it := range p.items {
		if it.Route == "" { // only requests are deleted
			// The request was committed before the delete began, so it counts as run.
			continue
		}
		token := p.tokens.get(it.Token())
		if !token.Deleting() || token.Fingerprint != it.Fingerprint() {
			continue
		}
		// The request ran before the delete began: treat it as if there were no delete.
		if _, pending := it.Entry(&p.view, e.cfg.Now()); pending {
			continue
		}
		if err := e.writeTombstone(ctx, p, it); err != nil {
			return err
		}
		return errReload
	}
	return nil
}

// writeTombstone deletes a request in three steps: mark the token so that no attempt begins, commit
// the group so that no attempt commits, and only then write the tombstone, which callers rely on.
func (e *Engine) writeTombstone(ctx context.Context, p *part, it *item) error {
	old, attempt := p.tokens.get(it.Token()), e.cfg.NewID()
	if old.State != record.Done {
		var err error
		if old, err = e.fenceDeleted(ctx, p, old, attempt); err != nil {
			return err
		}
	}
	_, err := e.cfg.Store.SwapToken(ctx, old, record.Token{
		Key: old.Key, State: record.Done, Fingerprint: old.Fingerprint, Stream: old.Stream, Group: old.Group, Owner: attempt,
		Reason: record.ReasonDeleted, Expires: e.cfg.Now().Add(p.stream.RetentionOf(&it.Message)),
	})
	if err != nil {
		return fmt.Errorf("delete request: %w", err)
	}
	return nil
}

// fenceDeleted marks the token, so that no attempt begins, and commits the group, so that no
// earlier attempt commits: an attempt that read the token before the mark has loaded this version
// of the group or an older one, and loses its condition.
func (e *Engine) fenceDeleted(ctx context.Context, p *part, old record.Token, attempt string) (record.Token, error) {
	if !old.Deleting() {
		next := old
		next.Reason, next.Detail, next.Owner = record.ReasonDeleted, "", attempt
		stored, err := e.cfg.Store.SwapToken(ctx, old, next)
		if err != nil {
			return old, fmt.Errorf("delete request: %w", err)
		}
		old = stored
	}
	return old, e.fence(ctx, p)
}
