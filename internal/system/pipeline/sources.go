package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/ingress"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// sources are the sources of the configuration, by their names, and those that have a queue, by its
// name.
type sources struct{ named, queues map[string]*ingress.Source }

// newSources makes the sources of a configuration. It returns an error if a queue belongs to a
// source that is not configured.
func newSources(c *config.Config, byQueue map[string]string) (sources, error) {
	out := sources{map[string]*ingress.Source{}, map[string]*ingress.Source{}}
	for _, name := range c.IngressNames() {
		s, err := ingress.New(c, name)
		if err != nil {
			return sources{}, err
		}
		out.named[name] = s
	}
	for q, name := range byQueue {
		if out.queues[q] = out.named[name]; out.queues[q] == nil {
			return sources{}, fmt.Errorf("queue %s belongs to ingress %q, which the configuration lacks", q, name)
		}
	}
	return out, nil
}

// Source returns the source that a queue belongs to, by the name of the queue, or nil.
func (p *Pipeline) Source(queue string) *ingress.Source { return p.sources.queues[queue] }

// SourceNamed returns a source of the configuration, nil if there is none of that name, and whether
// its queue is first-in-first-out.
func (p *Pipeline) SourceNamed(name string) (s *ingress.Source, fifo bool) {
	return p.sources.named[name], p.cfg.Config.Ingress[name].FIFO
}

// read decodes a delivery of an ingress queue, or of the queue of a source.
func (p *Pipeline) read(d *queue.Delivery) (ingress.Read, error) {
	if s := p.sources.queues[d.Queue]; s != nil {
		return s.Read(d)
	}
	m, origin, err := wire.FromQueue(d, wire.Defaults{Trusted: p.cfg.Trusted})
	out := ingress.Read{Messages: []record.Message{m}, Origin: origin}
	name := ingress.UnreadOf(&m)
	if err != nil || name == "" {
		return out, err
	}
	if s := p.sources.named[name]; s != nil {
		return s.Again(&m)
	}
	return out, &record.InvalidError{Field: wire.HeaderUnread, Rule: fmt.Sprintf("names ingress.%s, which the configuration has no more", name)}
}

// decode decodes a delivery that contains one message.
func (p *Pipeline) decode(d *queue.Delivery) (record.Message, error) {
	read, err := p.read(d)
	switch {
	case err == nil && len(read.Messages) != 1:
		return record.Message{}, errors.New("delivery contains several messages or none")
	case err == nil && read.Origin == wire.FromMessageID:
		p.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "message without an identity of its own: a redrive would make it a new one; send once-id", read.Messages[0].LogAttrs(p.cfg.LogKeys)...)
	}
	return read.Messages[0], err
}

// Messages makes the function behind the ingress queues and the queues of sources. It is that of
// [Pipeline.Process], except that a delivery with several messages is split: each is put on an
// ingress queue by itself before the delivery is acknowledged. If that is repeated, the copies have
// the same identities.
func (p *Pipeline) Messages() queue.Handler {
	process := p.Process().Handle
	if len(p.sources.named) == 0 {
		return process
	}
	return func(ctx context.Context, batch []queue.Delivery) []queue.Disposition {
		split := p.split(ctx, batch)
		if len(split) == 0 {
			return process(ctx, batch)
		}
		out := make([]queue.Disposition, len(batch))
		var rest []queue.Delivery
		var places []int
		for i := range batch {
			if err, ok := split[i]; ok {
				out[i].Retry = err != nil
				continue
			}
			rest, places = append(rest, batch[i]), append(places, i)
		}
		if len(rest) > 0 {
			for k, disposition := range process(ctx, rest) {
				out[places[k]] = disposition
			}
		}
		for i, behind := range wire.Behind(batch, func(i int) bool { return split[i] != nil }) {
			out[i].Retry = out[i].Retry || behind
		}
		return out
	}
}

// split puts the messages of deliveries that contain several of them on the ingress queues, and
// returns an error for each such delivery. One that contains none is split into nothing.
func (p *Pipeline) split(ctx context.Context, batch []queue.Delivery) map[int]error {
	out := map[int]error{}
	for i := range batch {
		if p.sources.queues[batch[i].Queue] == nil && !mayBeUnread(&batch[i]) {
			continue
		}
		read, err := p.read(&batch[i])
		if err != nil || len(read.Messages) == 1 {
			continue
		}
		out[i] = errors.Join(p.Queues.EnqueueAll(ctx, read.Messages)...)
		if out[i] != nil {
			p.cfg.Log.Error("delivery of several messages stays in the queue", "queue", batch[i].Queue, "count", len(read.Messages), "error", out[i])
		} else {
			p.cfg.Log.Info("delivery split", "queue", batch[i].Queue, "count", len(read.Messages))
		}
	}
	return out
}

// mayBeUnread reports whether a delivery may be a redriven dead letter of a source. It does not
// decode the delivery.
func mayBeUnread(d *queue.Delivery) bool {
	return strings.Contains(d.Attributes[wire.AttrMeta], wire.HeaderUnread)
}
