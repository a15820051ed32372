package dedup

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// Process runs a batch of messages through the protocol and returns their outcomes, in the same
// order. Messages of one group are processed in order; if one has to be retried, so have the later
// ones of its group. Messages may belong to any streams and groups.
func (e *Engine) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	return e.process(ctx, messages, way{})
}

// ProcessUntil is Process, but no handler starts after the time until, if that is not zero; one that
// runs then may end. The messages that did not run have to be retried.
func (e *Engine) ProcessUntil(ctx context.Context, until time.Time, messages []record.Message) []record.Outcome {
	return e.process(ctx, messages, way{until: until})
}

// Call processes one message for a caller that waits for the answer; no queue would redeliver it.
// If the process crashes after the commit, its effects must still be published, so Call sends a
// trigger before the commit, delayed by Config.LateDelay, and another one after it.
func (e *Engine) Call(ctx context.Context, m record.Message) record.Outcome {
	return e.process(ctx, []record.Message{m}, way{early: true})[0]
}

// Direct processes one message for a caller that puts it on the queue if the outcome is
// [record.Retry]. Until then no queue would redeliver it. Like Call, Direct therefore sends a
// trigger before the commit, delayed by Config.LateDelay, unless Config.Recalls is set. published
// reports whether nothing of the message's effects is left to be sent. No handler starts after the
// time until, see [Engine.ProcessUntil].
func (e *Engine) Direct(ctx context.Context, until time.Time, m record.Message) (outcome record.Outcome, published bool) {
	var pending atomic.Bool
	w := way{early: !e.cfg.Recalls, direct: true, pending: &pending, until: until}
	outcome = e.process(ctx, []record.Message{m}, w)[0]
	return outcome, !pending.Load()
}

// DirectAll is Direct for many messages, each with its own outcome. It puts nothing on the queue
// either: the caller does that with the messages whose outcome is [record.Retry], in their order.
func (e *Engine) DirectAll(ctx context.Context, until time.Time, messages []record.Message) []record.Outcome {
	return e.process(ctx, messages, way{early: !e.cfg.Recalls, direct: true, pending: new(atomic.Bool), until: until})
}

// A way is how messages came to the engine.
type way struct {
	early  bool // trigger before the commit too
	direct bool // without the queue
	// pending is set if effects are left to be sent; only for direct messages
	pending *atomic.Bool
	// until is when no handler starts any more; zero for no limit
	until time.Time
}

func (e *Engine) process(ctx context.Context, messages []record.Message, w way) []record.Outcome {
	out := make([]record.Outcome, len(messages))
	m := e.borrow(len(messages))
	defer e.giveBack(m)
	parts, relays := e.split(messages, m, out)
	for i := range m.items {
		m.items[i].Direct = w.direct
	}
	e.forward(ctx, w.until, relays)
	for _, p := range parts {
		p.way = w
	}
	e.settleAll(ctx, parts)
	for _, p := range parts {
		e.count(p.stream.Name, p.items)
	}
	return out
}

// split validates the messages and sorts them by group. It returns messages that need no group
// record separately.
func (e *Engine) split(messages []record.Message, m *memory, out []record.Outcome) (parts []*part, relays []*item) {
	var byKey map[record.GroupKey]*part
	if len(messages) > 1 {
		byKey = map[record.GroupKey]*part{}
	}
	var p *part
	for i := range messages {
		it := &m.items[i]
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
				p = m.part(key, s)
				if parts = append(parts, p); byKey != nil {
					byKey[key] = p
				}
			}
		}
		p.items = append(p.items, it)
	}
	if len(parts) > 1 {
		deferRepeats(parts)
	}
	return parts, relays
}

// errSameIdentity keeps two groups of one batch from running the same identity concurrently. When
// the second message is retried, the first one's token refuses it.
var errSameIdentity = errors.New("another group of the batch has the same identity")

// deferRepeats makes all but the first group retry an identity that several groups of the batch
// have.
func deferRepeats(parts []*part) {
	byToken := map[record.TokenKey]*part{}
	for _, p := range parts {
		for _, it := range p.items {
			if it.ByNumber {
				continue
			}
			if first := byToken[it.Token()]; first != nil && first != p {
				it.settle(record.Outcome{Err: errSameIdentity})
			}
			byToken[it.Token()] = p
		}
	}
}

// forward processes the messages that need no group record.
func (e *Engine) forward(ctx context.Context, until time.Time, items []*item) {
	if len(items) == 0 {
		return
	}
	arrivals := make([]*admission.Arrival, len(items))
	for i, it := range items {
		arrivals[i] = &it.Arrival
	}
	for i, fate := range e.relay.Process(ctx, until, arrivals) {
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
