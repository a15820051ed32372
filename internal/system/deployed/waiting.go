package deployed

import (
	"context"
	"slices"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config/change"
	"github.com/effectively-once/once/internal/record"
)

// Waiting counts what waits in the stack. It reads the table of groups from end to end, as the
// hourly sweep does, and the attributes of the queues. It needs no configuration.
func (s *System) Waiting(ctx context.Context) (change.Waiting, error) {
	w := change.Waiting{Streams: map[string]change.Stream{}, Effects: map[string]int{}}
	err := record.EachGroup(ctx, s.store, "", s.passedOver, func(g *record.Group) error {
		count(&w, g)
		return ctx.Err()
	})
	if err != nil {
		return w, explain(err)
	}
	queues, err := s.queueStats(ctx)
	stats := admin.Stats{Queues: queues}.Total()
	w.Queued, w.DeadLetters = stats.Queued+stats.Delayed, stats.DeadLetters
	return w, err
}

// count adds one group.
func count(w *change.Waiting, g *record.Group) {
	x := w.Streams[g.Key.Stream]
	x.Groups++
	x.Restore = max(x.Restore, record.RestoreOf(g.Last))
	for _, source := range g.Sources {
		x.Held += source.Held.Len()
	}
	for i := range g.Pending {
		p := &g.Pending[i]
		if len(p.Effects) > 0 {
			x.Pending++
		}
		for n := range p.Effects {
			for _, to := range p.Effects[n].To {
				if !slices.Contains(p.Sent, record.Sent{Effect: n, To: to}) {
					w.Effects[to]++
				}
			}
		}
	}
	w.Streams[g.Key.Stream] = x
}
