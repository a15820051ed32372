package dedup

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/record"
)

// Forget deletes a one-time request: later calls find it deleted. The delete is a commit of the group, so that an attempt that runs at the same time either
// comes first and is finished and forgotten, or loses at the condition and finds the request deleted. A request that is not known is a [*record.RefusedError].
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

// errUnpublished says that a request was run and its effects can't be sent now. A caller does not wait for a destination that is away.
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
	old := p.tokens[it.Token()]
	switch {
	case old.State == record.Absent:
		return &record.RefusedError{Reason: record.ReasonUnknown, Detail: "no such request"}
	case old.Deleted():
		return nil
	}
	if _, ok := it.Entry(&p.view); ok { // it was run: that is finished first, or its publisher would overwrite the tombstone
		if err := e.publisher.Publish(ctx, []record.GroupKey{p.key})[0]; err != nil {
			return fmt.Errorf("%w: %w", errUnpublished, err)
		}
		return errReload
	}
	return e.bury(ctx, p, it)
}

// finishDelete finishes the delete of a request that somebody calls, and has the group loaded anew then: whoever began it may be dead, and until it is finished nobody is told that the
// request is deleted.
func (e *Engine) finishDelete(ctx context.Context, p *part) error {
	for _, it := range p.items {
		if it.Route == "" { // only requests are deleted
			continue
		}
		token := p.tokens[it.Token()]
		if !token.Deleting() || token.Fingerprint != it.Fingerprint() {
			continue
		}
		if _, pending := it.Entry(&p.view); pending { // it was run before the delete: as if nobody had begun one
			continue
		}
		if err := e.bury(ctx, p, it); err != nil {
			return err
		}
		return errReload
	}
	return nil
}

// bury has nobody begin to run a request, then nobody commit it, and only then writes the tombstone, which everybody believes.
func (e *Engine) bury(ctx context.Context, p *part, it *item) error {
	old, attempt := p.tokens[it.Token()], e.cfg.NewID()
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

// fenceDeleted marks the token, so that nobody begins, and commits the group, so that nobody commits: whoever read the token before has loaded this version of the group or an older one.
func (e *Engine) fenceDeleted(ctx context.Context, p *part, old record.Token, attempt string) (record.Token, error) {
	if !old.Deleting() {
		next := old
		next.Reason, next.Owner = record.ReasonDeleted, attempt
		stored, err := e.cfg.Store.SwapToken(ctx, old, next)
		if err != nil {
			return old, fmt.Errorf("delete request: %w", err)
		}
		old = stored
	}
	return old, e.fence(ctx, p)
}
