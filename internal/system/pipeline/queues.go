package pipeline

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/process"
)

// Ports are the queues of a system. All but Delays are required.
//
// When a send returns, the message is durable no later than any write that is made afterwards:
// [record.Queues] requires it.
type Ports struct {
	Ingress     queue.Queue // standard
	IngressFIFO queue.Queue // first-in-first-out
	Publish     queue.Queue // standard: triggers with a delay
	PublishFIFO queue.Queue // first-in-first-out: all other triggers, one publisher a group
	Dead        queue.Queue // standard: refused messages
	DeadPublish queue.Queue // standard: refused effects
	Delays      Delays      // optional
}

func (p Ports) all() []queue.Queue {
	return []queue.Queue{p.Ingress, p.IngressFIFO, p.Publish, p.PublishFIFO, p.Dead, p.DeadPublish}
}

// Queues send each message to the queue that it belongs on. They keep nothing between calls, and
// may be used concurrently.
type Queues struct {
	ports    Ports
	numbered map[string]bool // the streams that are ordered by numbers
	ending   map[string]bool // the streams with partitions, which may end
	now      func() time.Time
}

var _ record.Queues = (*Queues)(nil)

// newQueues returns the queues for the messages of streams.
func newQueues(ports Ports, streams []record.Stream, now func() time.Time) *Queues {
	ports.Delays = ports.Delays.withDefaults()
	q := &Queues{ports: ports, numbered: map[string]bool{}, ending: map[string]bool{}, now: now}
	for _, s := range streams {
		q.numbered[s.Name] = s.Admission == record.BySequence
		q.ending[s.Name] = s.Partitions > 0
	}
	return q
}

// Over returns the same queues on other ports, for callers that need another durability.
func (q *Queues) Over(ports Ports) *Queues {
	ports.Delays = ports.Delays.withDefaults()
	return &Queues{ports: ports, numbered: q.numbered, ending: q.ending, now: q.now}
}

// Unordered reports whether a message may pass others of its group in the queue, because only its
// number orders it. In a first-in-first-out queue such a message would block its own predecessors.
// The messages of a stream with partitions are never unordered: the end of the stream is put behind
// them in the queue, and must not pass one.
func (q *Queues) Unordered(m *record.Message) bool {
	return q.numbered[m.Stream] && m.Route == "" && !q.ending[m.Stream]
}

// entrance returns the ingress queue for a message.
func (q *Queues) entrance(m *record.Message) queue.Queue {
	if q.Unordered(m) {
		return q.ports.Ingress
	}
	return q.ports.IngressFIFO
}

// Enqueue puts a message on its ingress queue, or lets it wait as EnqueueAll does. See api.Queue.
func (q *Queues) Enqueue(ctx context.Context, m record.Message) error {
	if m.Waits(q.now()) {
		return q.postpone(ctx, []delay.Item{q.item(m)})[0]
	}
	return send(ctx, q.entrance(&m), wire.ToQueue(m))
}

// Trigger asks for publishing. See [record.Queues].
func (q *Queues) Trigger(ctx context.Context, groups []record.GroupKey, delay time.Duration) error {
	to := q.ports.PublishFIFO
	if delay > 0 { // no first-in-first-out queue takes a delay for one message
		to = q.ports.Publish
	}
	messages := make([]queue.Message, len(groups))
	for i, key := range groups {
		messages[i] = wire.ToTrigger(key)
		messages[i].Delay = delay
	}
	return send(ctx, to, messages...)
}

// Return puts messages back on the ingress queue. See [record.Queues].
func (q *Queues) Return(ctx context.Context, messages []record.Message) error {
	return q.back(ctx, messages, func(*record.Message) time.Duration { return 0 })
}

// Defer puts messages back on the ingress queue for later; the older a message is, the longer. See
// [process.Backoff].
func (q *Queues) Defer(ctx context.Context, messages []record.Message) error {
	now := q.now()
	return q.back(ctx, messages, func(m *record.Message) time.Duration { return process.Backoff(m, now) })
}

// Later puts messages of one stream on its ingress queue, each after its pause, and returns an
// error for each. It does not keep the order of a group, except in a stream with partitions: there
// it ignores the pauses.
func (q *Queues) Later(ctx context.Context, messages []record.Message, pauses []time.Duration) []error {
	out := make([]queue.Message, len(messages))
	for i := range messages {
		out[i] = wire.ToQueue(messages[i])
		out[i].Delay = min(pauses[i].Truncate(time.Second)+time.Second, queue.MaxDelay) // SQS has no fractions
	}
	return record.ErrorsOf(q.sendBack(ctx, messages, out), len(messages))
}

func (q *Queues) back(ctx context.Context, messages []record.Message, delay func(*record.Message) time.Duration) error {
	out := make([]queue.Message, len(messages))
	for i, m := range messages {
		out[i] = wire.ToQueue(m)
		out[i].Delay = delay(&m)
	}
	return q.sendBack(ctx, messages, out)
}

// sendBack puts messages, which out has in the form of the queue, back on the ingress queues. It
// uses the standard queue: in the other one a waiting message would block its own predecessors. The
// messages of streams with partitions do not wait for others, and stay in order.
func (q *Queues) sendBack(ctx context.Context, messages []record.Message, out []queue.Message) error {
	errs := make([]error, len(messages))
	for _, to := range []queue.Queue{q.ports.Ingress, q.ports.IngressFIFO} {
		var part []queue.Message
		var places []int
		for i := range messages {
			ordered := q.ending[messages[i].Stream]
			if ordered != (to == q.ports.IngressFIFO) {
				continue
			}
			if ordered { // no first-in-first-out queue takes a delay for one message
				out[i].Delay = 0
			}
			part, places = append(part, out[i]), append(places, i)
		}
		for k, err := range record.ErrorsOf(send(ctx, to, part...), len(places)) {
			errs[places[k]] = err
		}
	}
	return record.Each(errs)
}

// DeadLetter puts refused messages and effects on their dead-letter queues. See [record.Queues].
func (q *Queues) DeadLetter(ctx context.Context, refused []record.Refused) error {
	errs := make([]error, len(refused))
	for _, effects := range []bool{false, true} {
		to := q.ports.Dead
		if effects {
			to = q.ports.DeadPublish
		}
		var letters []queue.Message
		var places []int
		for i, r := range refused {
			if effects == (r.Delivery != nil) {
				letters, places = append(letters, wire.ToDeadLetter(r, queue.Largest(to))), append(places, i)
			}
		}
		for i, err := range record.ErrorsOf(send(ctx, to, letters...), len(places)) {
			errs[places[i]] = err
		}
	}
	return record.Each(errs)
}

// Back puts dead letters back.
type Back struct {
	*Queues
	*dedup.Engine
}

// Redrive puts a refused message or effect back on the queue that it came from, under its identity.
func (q *Queues) Redrive(ctx context.Context, r record.Refused) error {
	if r.Delivery != nil { // one at a time of its group, in order
		return send(ctx, q.ports.PublishFIFO, wire.ToRedelivery(r.To, *r.Delivery))
	}
	if r.Reason == record.ReasonExpired {
		// it was not processed: by redriving it, the operator has decided so
		r.Message.Accepted = q.now()
	}
	return q.Enqueue(ctx, r.Message)
}

func send(ctx context.Context, to queue.Queue, messages ...queue.Message) error {
	if len(messages) == 0 {
		return nil
	}
	var errs []error
	results := sendEach(ctx, to, messages)
	if len(results) != len(messages) {
		return errNoAnswer
	}
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	return record.Each(errs)
}

// sendEach sends, and returns a result for each message. A standard queue has no use for message
// groups and deduplication ids; they would only take space in it.
func sendEach(ctx context.Context, to queue.Queue, messages []queue.Message) []queue.SendResult {
	if !queue.FIFO(to.Name()) {
		for i := range messages {
			messages[i].Group, messages[i].DedupID = "", ""
		}
	}
	return to.Send(ctx, messages)
}
