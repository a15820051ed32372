package dedup

import (
	"context"
	"errors"

	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/record"
)

// Process runs a batch of messages through the protocol and tells each one's fate, in their order. Messages of one group are processed in their order, and
// after one that must be tried again, the later ones of its group must be too. Messages may belong to any streams and groups.
func (e *Engine) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	return e.process(ctx, messages, false)
}

// Call processes one message that no queue would deliver again, on behalf of a caller that waits for the answer. Because a crash after the commit must not strand
// the effects, the trigger to publish them is sent before it, delayed by Config.LateDelay; another one follows the commit.
func (e *Engine) Call(ctx context.Context, m record.Message) record.Outcome {
	return e.process(ctx, []record.Message{m}, true)[0]
}

func (e *Engine) process(ctx context.Context, messages []record.Message, early bool) []record.Outcome {
	out := make([]record.Outcome, len(messages))
	parts, relays := e.split(messages, out)
	e.forward(ctx, relays)
	for _, p := range parts {
		p.early = early
	}
	e.settleAll(ctx, parts)
	for _, p := range parts {
		e.count(p.stream.Name, p.items)
	}
	return out
}

// split validates the messages and sorts them by group. Those that need no group record come apart.
func (e *Engine) split(messages []record.Message, out []record.Outcome) (parts []*part, relays []*item) {
	items := make([]item, len(messages))
	byKey := map[record.GroupKey]*part{}
	var p *part
	for i := range messages {
		it := &items[i]
		it.Message, it.out = messages[i], &out[i]
		s, err := it.Check(e.streams)
		if err != nil {
			out[i] = record.Outcome{Kind: record.Rejected, Reason: record.ReasonInvalid, Detail: err.Error()}
			e.count(it.Stream, []*item{it})
			continue
		}
		if e.relay.Takes(s, &it.Arrival) {
			relays = append(relays, it)
			continue
		}
		if key := it.GroupKey(); p == nil || p.key != key {
			if p = byKey[key]; p == nil {
				p = newPart(key, s)
				byKey[key] = p
				parts = append(parts, p)
			}
		}
		p.items = append(p.items, it)
	}
	if len(parts) > 1 {
		partTwins(parts)
	}
	return parts, relays
}

// errTwin keeps two groups of one batch from running one identity side by side. When the second message comes again, the first one's token refuses it.
var errTwin = errors.New("another group of the batch has the same identity")

// partTwins finds identities that are in several groups.
func partTwins(parts []*part) {
	byToken := map[record.TokenKey]*part{}
	for _, p := range parts {
		for _, it := range p.items {
			if it.ByNumber {
				continue
			}
			if first := byToken[it.Token()]; first != nil && first != p {
				it.fate = record.Outcome{Err: errTwin}
			}
			byToken[it.Token()] = p
		}
	}
}

// forward hands the messages that need no group record to the relay.
func (e *Engine) forward(ctx context.Context, items []*item) {
	if len(items) == 0 {
		return
	}
	arrivals := make([]*admission.Arrival, len(items))
	for i, it := range items {
		arrivals[i] = &it.Arrival
	}
	for i, fate := range e.relay.Process(ctx, arrivals) {
		*items[i].out = fate
		e.count(items[i].Stream, items[i:i+1])
	}
}

// count reports outcomes to the observer.
func (e *Engine) count(stream string, items []*item) {
	for _, it := range items {
		e.cfg.Observe(it.out.Event(stream))
	}
}
