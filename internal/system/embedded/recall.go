package embedded

import (
	"context"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// walkEvery is the time between two walks through the store while the watch misses groups. A walk
// reads every group.
const walkEvery = 10 * time.Minute

// recall finds the groups that had pending entries or held messages when the last process ended.
// They are due immediately, because their triggers may have been lost with the process. Run calls
// it before anything is received from a queue.
//
// A group whose trigger is on the queue is left out: the trigger will be received, and then
// publishes all of the group. So a restart while a destination is down for a day does not load
// every group that waits for it.
func (s *System) recall(ctx context.Context) error {
	return s.eachGroup(ctx, func(g *record.Group) error {
		if !g.Idle() && !s.triggered(g) {
			s.watch.note(g, time.Time{})
		}
		return nil
	})
}

// triggered reports whether a trigger on the queue settles everything that a group has left.
func (s *System) triggered(g *record.Group) bool {
	return !g.HasHeld() && len(g.Leftovers()) == 0 && s.queues.publishFIFO.Holds(wire.FIFOGroup(&record.Message{Stream: g.Key.Stream, Group: g.Key.Group}))
}

// walkForever walks through the store whenever the watch has missed groups, until the context ends.
func (s *System) walkForever(ctx context.Context) {
	tick := time.NewTicker(walkEvery)
	defer tick.Stop()
	for {
		if err := s.walk(ctx); err != nil && ctx.Err() == nil {
			s.options.Log.LogAttrs(ctx, slog.LevelError, "groups not read for a sweep", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// walk does what sweeps do for the groups that the watch has missed. It reads them in pages and
// keeps none in memory, except for those that the watch has room for.
func (s *System) walk(ctx context.Context) error {
	if !s.watch.misses() {
		return nil
	}
	err := s.eachGroup(ctx, func(g *record.Group) error {
		if g.Idle() || s.watch.knows(g.Key) {
			return nil
		}
		if s.triggered(g) {
			// A trigger that was received before the last commit may not settle it: look again.
			s.watch.miss()
			return nil
		}
		s.watch.note(g, time.Time{})
		if s.watch.knows(g.Key) {
			return nil // the next sweep finds it
		}
		if err := s.engine.Sweep(ctx, g.Key); err != nil && ctx.Err() == nil {
			s.logGroup(ctx, slog.LevelError, "group not swept", g.Key, err)
		}
		return ctx.Err()
	})
	if err != nil {
		s.watch.miss()
	}
	return err
}
