package pipeline

import (
	"context"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// A Lister lists the group records of a stream, after a key.
type Lister func(ctx context.Context, stream string, after record.GroupKey, limit int) ([]record.Group, error)

// Sessions makes the sessions of the streams, whose logs are read from logs. They are written to the
// store of the engine, which publishes their effects. The ends of streams go to queues. If records
// is nil, only the sessions that pools know can be listed.
func (p *Pipeline) Sessions(logs record.LogReader, queues *Queues, records Lister) *session.Sessions {
	pools := map[string]session.Pool{}
	for i := range p.streams {
		if s := &p.streams[i]; s.Partitions > 0 {
			c := p.cfg.Config.Streams[s.Name]
			pools[s.Name] = session.Pool{
				Partitions: int(s.Partitions), Window: c.Pool.Window, ByPartition: c.Pool.Deal == config.DealPartition, //nolint:gosec // an int before
				Attempts: c.Pool.Attempts, DeadLetter: c.Pool.Poison == config.PoisonDeadLetter, Destinations: c.Destinations,
			}
		}
	}
	return p.Engine.Sessions(logs, session.Config{Pools: pools, Enqueue: queues.Enqueue, Records: records})
}
