package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"strconv"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/destination/retry"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

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

// byPolicy returns a sender that sends by the retry policy of the destination. It logs and
// registers each failed try.
func (p *Pipeline) byPolicy(name string, d config.Destination, inner record.Sender) record.Sender {
	if s := p.before(name); s != nil {
		p.replacing = append(p.replacing, func() { s.Replace(inner, d.Retry.Std()) })
		p.patient[name] = s
		return s
	}
	s := retry.New(inner, retry.Options{
		Policy:  d.Retry.Std(),
		Failed:  func(t retry.Try) { p.failed(name, &t) },
		Settled: func(d *record.Delivery) { p.cfg.Waiting.Settled(waitOf(name, d)) },
		Random:  p.cfg.Random,
		Now:     p.cfg.Now,
	})
	p.patient[name] = s
	return s
}

// Hasten ends the pauses of all failing effects: an operator asks for a try now.
func (p *Pipeline) Hasten() {
	for _, s := range p.patient {
		s.Hasten()
	}
}

// Skip makes a pending effect a dead letter. See [outbox.Publisher.Skip].
func (p *Pipeline) Skip(ctx context.Context, o admin.SkipOptions) (admin.SkipInfo, error) {
	key := record.GroupKey{Stream: o.Stream, Group: o.Group}
	to, err := p.Engine.Skip(ctx, key, o.Number)
	if errors.Is(err, outbox.ErrNotPending) {
		return admin.SkipInfo{}, o.NotPending()
	}
	if err != nil {
		return admin.SkipInfo{}, err
	}
	for _, name := range to {
		if s := p.patient[name]; s != nil {
			s.Forget(&record.Delivery{Identity: key.Path() + "/" + strconv.FormatUint(o.Number, 10), Stream: o.Stream, Group: o.Group, Number: o.Number})
		}
	}
	p.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "effect skipped by an operator: it is a dead letter",
		append(key.LogAttrs(p.cfg.LogKeys), slog.Uint64("number", o.Number), slog.Any("destinations", to))...)
	return admin.SkipInfo{Destinations: to}, nil
}

func (p *Pipeline) failed(to string, t *retry.Try) {
	d := t.Delivery
	w := waitOf(to, d)
	w.Try, w.Error, w.Status, w.Last, w.Next = t.Number, t.Err.Error(), t.Status(), t.At, t.Next
	p.cfg.Waiting.Failed(w)
	attrs := append(d.LogAttrs(p.cfg.LogKeys), slog.String("destination", to))
	if status := t.Status(); status != 0 {
		attrs = append(attrs, slog.Int("status", status))
	}
	attrs = append(attrs, slog.Any("error", t.Err), slog.Int("try", t.Number))
	level, text := slog.LevelWarn, record.LogEffectRetried
	switch {
	case t.Next.IsZero():
		level, text = slog.LevelError, record.LogUndeliverable
	case errors.Is(t.Err, record.ErrUntried):
		level = slog.LevelDebug
		fallthrough
	default:
		attrs = append(attrs, slog.Time("next", t.Next))
	}
	p.cfg.Log.LogAttrs(context.Background(), level, text, attrs...) //nolint:sloglint // a constant of package record
}

func waitOf(to string, d *record.Delivery) system.Wait {
	return system.Wait{Group: record.GroupKey{Stream: d.Stream, Group: d.Group}, ID: d.Identity, Destination: to, Number: d.Number}
}
