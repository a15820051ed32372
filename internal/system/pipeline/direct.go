package pipeline

import (
	"maps"
	"slices"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// Direct reports for each stream whether its messages are processed without the queue: if its
// setting says so or, without a setting, if local is true of all destinations to which its handler
// can send. A nil local is never true.
func (p *Pipeline) Direct(local func(config.Destination) bool) map[string]bool {
	out := map[string]bool{}
	for i := range p.streams {
		s := &p.streams[i]
		if set := p.cfg.Config.Streams[s.Name].Direct; set != nil {
			out[s.Name] = *set
			continue
		}
		out[s.Name] = local != nil && !slices.ContainsFunc(p.sendsTo(s), func(to string) bool { return !local(p.cfg.Config.Destinations[to]) })
	}
	return out
}

// sendsTo returns the names of the destinations to which the handler of a stream can send. A
// handler in code that declares none can send to all.
func (p *Pipeline) sendsTo(s *record.Stream) []string {
	inCode := slices.ContainsFunc(p.cfg.Declared, func(d system.Stream) bool { return d.Name == s.Name && d.Handler != nil })
	if inCode && len(s.Events) == 0 {
		return slices.Collect(maps.Keys(p.cfg.Config.Destinations))
	}
	return s.Events
}

// CheckDirect is [config.Config.CheckDirect] for the configuration and the declarations in code
// together: code can change the admission and the order of a stream that the file makes direct.
func CheckDirect(c *config.Config, declared []system.Stream) error {
	streams, err := merge(c, declared, 1, true)
	if err != nil {
		return err
	}
	merged := config.Config{Streams: map[string]config.Stream{}}
	for _, s := range streams {
		x := config.Stream{Direct: c.Streams[s.Name].Direct, Admission: s.Admission}
		if s.Unordered {
			x.Order = config.OrderNone
		}
		merged.Streams[s.Name] = x
	}
	return merged.CheckDirect()
}
