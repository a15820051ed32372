package dedup

import (
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
func (e *Engine) DropGroup(ctx context.Context, key record.GroupKey) error {
	for n := 1; ; n++ {
		err := e.drop(ctx, key)
		if err == nil || !errors.Is(err, record.ErrConflict) || n == maxRounds {
			return err
		}
		if err := e.cfg.Pause(ctx, n); err != nil {
			return err
		}
	}
}

func (e *Engine) drop(ctx context.Context, key record.GroupKey) error {
	groups, _, err := e.cfg.Store.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return fmt.Errorf("drop group: %w", err)
	}
	g := groups[0]
	switch {
	case g.Version == 0:
		return nil
	case g.HasHeld():
		return fmt.Errorf("drop group: %w", errHeld)
	case len(g.Leftovers()) > 0 || g.HasEffects():
		if err := e.publisher.Publish(ctx, []record.GroupKey{key})[0]; err != nil {
			return fmt.Errorf("drop group: %w", err)
		}
		if err := e.publisher.ClearLeftovers(ctx, key); err != nil {
			return fmt.Errorf("drop group: %w", err)
		}
		return fmt.Errorf("drop group: %w", record.ErrConflict)
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
		return fmt.Errorf("drop group: %w", err)
	}
	e.cfg.Appended(key) // so that its readers look
	return nil
}

var errHeld = errors.New("messages of the group are held")
