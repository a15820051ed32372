package pipeline

import (
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/session"
)

// Sessions makes the sessions of the streams. The store may be another one than that of the engine.
func (p *Pipeline) Sessions(store session.Store) *session.Sessions {
	pools := map[string]session.Pool{}
	for i := range p.streams {
		if s := &p.streams[i]; s.Partitions > 0 {
			c := p.cfg.Config.Streams[s.Name].Pool
			pools[s.Name] = session.Pool{Partitions: int(s.Partitions), Window: c.Window, ByPartition: c.Deal == config.DealPartition} //nolint:gosec // an int before
		}
	}
	return session.New(store, session.Config{Pools: pools, Now: p.cfg.Now})
}
