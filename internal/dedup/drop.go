package dedup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

// DropGroup forgets a group as its retention would: its state, its sources and its log. The next
// message of the group begins another incarnation. It publishes pending effects first, and fails if
// that fails or if messages are held. A group without a record is dropped already.
//
// One call drops at most one incarnation: the one that it finds first. A message that is processed
// meanwhile is in that incarnation, and dropped with it, or in the next one, which stays. After an
// error the group may be dropped all the same: a caller that repeats the call drops the next
// incarnation too, if there is one.
func (e *Engine) DropGroup(ctx context.Context, key record.GroupKey) error {
	var incarnation uint64
	if err := e.untilFirst(ctx, func() error { return e.drop(ctx, key, &incarnation) }); err != nil {
		return fmt.Errorf("drop group: %w", err)
	}
	return nil
}

// untilFirst repeats a call while another worker is faster.
func (e *Engine) untilFirst(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if !errors.Is(err, record.ErrConflict) || n == maxRounds {
			return err
		}
		if err := e.cfg.Pause(ctx, n); err != nil {
			return err
		}
	}
}

// drop drops an incarnation of a group, and the present one if that is 0.
func (e *Engine) drop(ctx context.Context, key record.GroupKey, incarnation *uint64) error {
	groups, _, err := e.cfg.Store.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return err
	}
	g := groups[0]
	if *incarnation == 0 {
		*incarnation = g.Incarnation
	}
	switch {
	case g.Version == 0 || g.Incarnation != *incarnation:
		return nil
	case g.HasHeld():
		return errHeld
	case len(g.Leftovers()) > 0 || g.HasEffects():
		if err := e.publisher.Publish(ctx, []record.GroupKey{key})[0]; err != nil {
			return err
		}
		return cmp.Or(e.publisher.ClearLeftovers(ctx, key), record.ErrConflict)
	}
	// the next incarnation has a later millisecond
	for uint64(e.cfg.Now().UnixMilli()) <= g.Incarnation {
		if err := backoff.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	now := e.cfg.Now()
	next := record.Group{Key: key, Incarnation: g.Incarnation}
	next.Succeed(&g, now, 0)
	next.Expires = now
	if err := e.cfg.Store.Commit(ctx, record.Commit{Loaded: g, Next: next, Attempt: e.cfg.NewID()}); err != nil {
		return err
	}
	e.cfg.Appended(key) // so that its readers look
	return nil
}

var errHeld = errors.New("messages of the group are held")
