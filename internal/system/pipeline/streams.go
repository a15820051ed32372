package pipeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// merge merges the configuration and the code of each stream, sorted by name; if both set a field,
// the code's value counts. A pool without a number of partitions has the given one. If a stream has
// no handler in code, it forwards to its destinations. large is [Config]'s. It returns an error if
// a destination is not configured.
func merge(c *config.Config, declared []system.Stream, partitions int, large bool) ([]record.Stream, error) {
	byName := map[string]system.Stream{}
	for name, s := range c.Streams {
		byName[name] = system.Stream{Stream: s.Settings(name), Destinations: s.Destinations}
	}
	for _, d := range declared {
		byName[d.Name] = overlay(byName[d.Name], d)
	}
	out := make([]record.Stream, 0, len(byName))
	forwards := map[string][]string{}
	for name, s := range byName {
		for _, to := range s.Destinations {
			if _, ok := c.Destinations[to]; !ok {
				return nil, fmt.Errorf("stream %s: no destination is named %q", name, to)
			}
		}
		if pool := c.Streams[name].Pool; pool != nil {
			if s.Handler != nil {
				return nil, fmt.Errorf("stream %s: has a pool, and a handler in code: the entries of a pool are for sessions", name)
			}
			s.Partitions = uint64(cmp.Or(pool.Partitions, partitions)) //nolint:gosec // not negative
			s.Destinations = nil                                       // which get the end of the stream only
		}
		s.Events = s.Destinations
		h, configured := c.Handlers[name]
		settings := h.WithDefaults()
		switch opened := configured && h.Kind() != config.HandlerCode; {
		case opened && s.Handler != nil:
			return nil, fmt.Errorf("stream %s: has a handler in code and one in once.yaml: remove one of them", name)
		case opened:
			s.Batch, s.BatchSize = unopened, settings.Batch
			s.Timeout, s.Concurrency = settings.Timeout.Std(), settings.Concurrency
		case s.Handler != nil:
			s.Timeout, s.Concurrency = cmp.Or(s.Timeout, settings.Timeout.Std()), cmp.Or(s.Concurrency, settings.Concurrency)
		default:
			s.Handler, s.Stateless, s.LogMessages = dedup.ForwardTo(s.Destinations), true, s.LogRetention > 0
			s.Timeout, s.Concurrency = 0, 0
			forwards[name] = s.Destinations
		}
		out = append(out, s.Stream)
	}
	slices.SortFunc(out, func(a, b record.Stream) int { return cmp.Compare(a.Name, b.Name) })
	limitBodies(c, out, forwards, large)
	return out, nil
}

// limitBodies sets the largest body of each stream that forwards: what its destinations take, so
// that a larger one is refused before it is accepted. In other streams the handler decides what is
// sent. A stream that sends to another one takes no more than that one; this is repeated until no
// limit changes, because streams may form a chain.
func limitBodies(c *config.Config, streams []record.Stream, forwards map[string][]string, large bool) {
	byName := map[string]*record.Stream{}
	for i := range streams {
		if streams[i].MaxBody = record.MaxBody; !large {
			streams[i].MaxBody = record.SmallBody
		}
		byName[streams[i].Name] = &streams[i]
	}
	for changed := true; changed; {
		changed = false
		for name, destinations := range forwards {
			for _, to := range destinations {
				if most := takes(c.Destinations[to], byName); most < byName[name].MaxBody {
					byName[name].MaxBody, changed = most, true
				}
			}
		}
	}
}

// takes returns the largest body that a destination takes. It is the same in every system, although
// the embedded one writes to a file what is for AWS.
func takes(d config.Destination, streams map[string]*record.Stream) int {
	switch d.Kind() {
	case config.KindWebhook, config.KindFile:
		return record.MaxBody
	case config.KindSQS:
		return record.QueueBody
	case config.KindStream:
		if target := streams[d.Target()]; target != nil {
			return target.BodyLimit()
		}
	default: // SNS, EventBridge and other systems may take no more than the smallest limit
	}
	return record.SmallBody
}

// Forwards reports whether Config.Forward replaces the handler of a stream: it has logs, no code
// and no numbers and no pool.
func Forwards(s record.Stream) bool {
	return s.LogMessages && s.Admission != record.BySequence && s.Partitions == 0
}

// overlay completes a configured stream with its declaration in code.
func overlay(s, d system.Stream) system.Stream {
	s.Name, s.Handler, s.Stateless = d.Name, d.Handler, d.Stateless
	if d.Admission != "" {
		s.Admission = d.Admission
	}
	if d.Unordered || d.Ordered {
		s.Unordered = d.Unordered
	}
	if d.Retention != 0 {
		s.Retention = d.Retention
	}
	if d.GroupRetention != 0 {
		s.GroupRetention = d.GroupRetention
	}
	s.StateRetention = cmp.Or(d.StateRetention, s.StateRetention)
	s.Timeout, s.Concurrency = d.Timeout, d.Concurrency
	s.Retry = d.Retry.Or(s.Retry.Or(record.MessageRetry()))
	s.LogRetention = cmp.Or(d.LogRetention, s.LogRetention)
	if d.Gap != (record.Gap{}) {
		s.Gap = d.Gap
	}
	s.Bounds = record.Bounds{
		Count: cmp.Or(d.Bounds.Count, s.Bounds.Count), Bytes: cmp.Or(d.Bounds.Bytes, s.Bounds.Bytes), Distance: cmp.Or(d.Bounds.Distance, s.Bounds.Distance),
	}
	if d.Destinations != nil {
		s.Destinations = d.Destinations
	}
	return s
}

// sequenced names the destinations that are streams, of this system or of another one.
func sequenced(c *config.Config) map[string]bool {
	return those(c, func(d config.Destination) bool { return d.Kind() == config.KindStream || d.Kind() == config.KindOnce })
}

// numbered names the destinations that are streams ordered by numbers.
func numbered(c *config.Config, streams []record.Stream) map[string]bool {
	return those(c, func(d config.Destination) bool {
		return d.Kind() == config.KindStream && slices.ContainsFunc(streams, func(s record.Stream) bool { return s.Name == d.Stream && s.Admission == record.BySequence })
	})
}

// unrelayed names the destinations that effects of messages of other systems do not go to.
func unrelayed(c *config.Config) map[string]bool {
	return those(c, func(d config.Destination) bool { return !d.Relays() })
}

func those(c *config.Config, which func(config.Destination) bool) map[string]bool {
	out := map[string]bool{}
	for name, d := range c.Destinations {
		if which(d) {
			out[name] = true
		}
	}
	return out
}
