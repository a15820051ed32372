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
	if old.State == record.Absent {
		return &record.RefusedError{Reason: record.ReasonUnknown, Detail: "no such request"}
	}
	if _, ok := it.Entry(&p.view); ok { // it was run: that is finished first, or its publisher would overwrite the tombstone
		if err := e.publisher.Publish(ctx, []record.GroupKey{p.key})[0]; err != nil {
			return fmt.Errorf("%w: %w", errUnpublished, err)
		}
		return errReload
	}
	pl := &plan{Engine: e, part: p, loaded: p.view, attempt: e.cfg.NewID(), now: e.cfg.Now(), next: p.view.Clone()}
	if old.Reason != record.ReasonDeleted {
		tombstone := record.Token{
			Key: it.Token(), State: record.Done, Fingerprint: it.Fingerprint(), Stream: it.Stream, Group: it.GroupName(), Owner: pl.attempt,
			Reason: record.ReasonDeleted, Expires: pl.now.Add(s.RetentionOf(&it.Message)),
		}
		if _, err := e.cfg.Store.SwapToken(ctx, old, tombstone); err != nil {
			return fmt.Errorf("delete request: %w", err)
		}
	}
	// Whoever read the token before has loaded this version or an older one, and can't commit any more. A tombstone that is there already does not tell that its worker
	// got this far.
	return e.commit(ctx, p, pl)
}
