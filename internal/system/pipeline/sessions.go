package pipeline

import (
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// Sessions makes the sessions of the streams, whose logs are read from logs. They are written to the
// store of the engine, which publishes their effects. The ends of streams go to queues. The settings
// of the pools come from the configuration, and cfg has those that depend on the system.
func (p *Pipeline) Sessions(logs record.LogReader, queues *Queues, cfg session.Config) *session.Sessions {
	cfg.Pools, cfg.Enqueue = map[string]session.Pool{}, queues.Enqueue
	for i := range p.streams {
		if s := &p.streams[i]; s.Partitions > 0 {
			c := p.cfg.Config.Streams[s.Name]
			cfg.Pools[s.Name] = session.Pool{
				Partitions: int(s.Partitions), Window: c.Pool.Window, ByPartition: c.Pool.Deal == config.DealPartition, //nolint:gosec // an int before
				Attempts: c.Pool.Attempts, DeadLetter: c.Pool.Poison == config.PoisonDeadLetter, Destinations: c.Destinations,
			}
		}
	}
	return p.Engine.Sessions(logs, cfg)
}
