package deployed

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/effectively-once/once/internal/admin"
	onceconfig "github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/config/change"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function/environment"
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
	if err != nil {
		return w, err
	}
	sources, err := s.stack.sources(ctx)
	w.Sources = map[string]int{}
	for _, q := range sources {
		w.Sources[q.Queue] = q.Depth()
		w.Queued += q.Depth()
	}
	return w, err
}

// sources counts the messages on the queue of each source, by its name.
func (s *Stack) sources(ctx context.Context) ([]admin.QueueStats, error) {
	urls, err := s.sourceQueues(ctx)
	if err != nil {
		return nil, err
	}
	var out []admin.QueueStats
	for _, source := range slices.Sorted(maps.Keys(urls)) {
		q, err := s.queueStats(ctx, place{source, urls[source]})
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// sourceQueues returns the URLs of the queues of sources, by the names of the sources, that the
// process function has.
func (s *Stack) sourceQueues(ctx context.Context) (map[string]string, error) {
	name, err := s.processFunction(ctx)
	if err != nil {
		return nil, err
	}
	f, err := s.get(ctx, name)
	if err != nil {
		return nil, unread(name, explain(err))
	}
	if f.Configuration.Environment.Variables == nil {
		return nil, nil
	}
	urls, err := environment.ReadSources(f.Configuration.Environment.Variables[environment.SourceQueues], s.Outputs.IngressQueueURL)
	if err != nil {
		return nil, fmt.Errorf("read environment of function %s: %w", name, err)
	}
	return urls, nil
}

// SourcesWithoutQueue returns the sources of a configuration that have no queue in the stack, in
// the order of their names. Only the template makes queues, so nothing can be sent to them.
func (s *Stack) SourcesWithoutQueue(ctx context.Context, c *onceconfig.Config) ([]string, error) {
	if len(c.Ingress) == 0 {
		return nil, nil
	}
	urls, err := s.sourceQueues(ctx)
	if err != nil {
		return nil, err
	}
	return environment.Queues{Sources: urls}.WithoutQueue(c), nil
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
