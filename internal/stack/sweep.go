package stack

import (
	"context"
	"errors"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
)

// Sweep looks at every group, which reads the whole table, and asks the deployed functions to publish what is pending; it marks done what needs no publishing, and acts on
// gaps. Held messages that could run count as failed, because handlers run in the functions only: the stack's own sweep runs them. Expired records are for the
// tables' time-to-live to delete, and blobs for the bucket's lifecycle.
func (s *System) Sweep(ctx context.Context) (admin.SweepInfo, error) {
	var info admin.SweepInfo
	err := s.eachGroup(ctx, func(g *record.Group) error {
		info.Groups++
		if len(g.Pending) == 0 && !g.HasHeld() && !g.Endless() {
			return nil
		}
		if err := s.engine.Sweep(ctx, g.Key); err != nil {
			info.Failed++
			if errors.Is(err, record.ErrNoStream) {
				err = s.unknown(g.Key.Stream)
			}
			s.options.Log.Warn("group not swept", "group", g.Key.String(), "error", err)
			return ctx.Err()
		}
		info.Finished++
		return nil
	})
	return info, err
}
