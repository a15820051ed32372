package pipeline

import "github.com/effectively-once/once/internal/record"

// messageRetry returns the policy for messages of a stream.
func (p *Pipeline) messageRetry(stream string) record.RetryPolicy {
	if s, ok := p.Engine.Stream(stream); ok {
		return s.Retry.Or(record.MessageRetry())
	}
	return record.MessageRetry()
}

// effectRetry returns the policy for effects of a stream to a destination. If the destination is
// not known, the tries are as frequent as for the destination of the stream that is tried most
// often.
func (p *Pipeline) effectRetry(stream, to string) record.RetryPolicy {
	if d, ok := p.cfg.Config.Destinations[to]; ok {
		return d.Retry.Std().Or(record.EffectRetry())
	}
	policies := make([]record.RetryPolicy, 0, 1)
	s, _ := p.Engine.Stream(stream)
	for _, name := range s.Events {
		if d, ok := p.cfg.Config.Destinations[name]; ok {
			policies = append(policies, d.Retry.Std().Or(record.EffectRetry()))
		}
	}
	if len(policies) == 0 {
		return record.EffectRetry()
	}
	out := policies[0]
	for _, x := range policies[1:] {
		out.First, out.Max, out.For = min(out.First, x.First), min(out.Max, x.Max), max(out.For, x.For)
	}
	return out
}
