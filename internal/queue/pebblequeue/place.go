package pebblequeue

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/queue"
)

// A Place is a reserved place in the order of a group. Its owner processes a message without the
// queue, and either puts the message into the place or releases it.
type Place struct {
	q     *Queue
	entry *entry // nil if the place was used or released
}

// Reserve takes the first place in a group, if the queue has no message of the group in any state
// and no other place of it. Messages of the group that are sent later are received only after
// Release, or after the message that Send puts into the place. Reserve writes nothing: a crash
// releases the place. It is for first-in-first-out queues.
func (q *Queue) Reserve(group string) (*Place, bool) {
	hash := q.hash(group)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || !q.index.fifo || q.index.groups[hash] != nil {
		return nil, false
	}
	return &Place{q, q.index.add(q.next(), hash)}, true
}

// Holds reports whether the queue has a message of a group, in any state, or a reserved place of it.
// It is for first-in-first-out queues. Two groups whose names have the same 64-bit hash count as
// one.
func (q *Queue) Holds(group string) bool {
	hash := q.hash(group)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.index.groups[hash] != nil
}

// Release gives up the place, unless it was used or released before.
func (p *Place) Release() {
	if p.entry == nil {
		return
	}
	e := p.entry
	p.entry = nil
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	p.q.index.remove(e)
	p.q.stir()
}

// Send puts the message of the group into the place, as one that was received once before, and
// returns when it is durable. It can be received again after the pause. If the write fails, it is
// unknown whether the queue has the message when it is opened again; until then it has not. Send
// does not deduplicate.
func (p *Place) Send(ctx context.Context, m queue.Message, pause time.Duration) queue.SendResult {
	if p.entry == nil {
		return queue.SendResult{Err: fmt.Errorf("send message: %w", errPlaceUsed)}
	}
	result := p.q.sendTried(ctx, m, pause, p.entry)
	if result.Err == nil {
		p.entry = nil
	}
	p.Release()
	return result
}

// SendTried puts a message that was received once before, without a place. See [Place.Send].
func (q *Queue) SendTried(ctx context.Context, m queue.Message, pause time.Duration) queue.SendResult {
	return q.sendTried(ctx, m, pause, nil)
}

func (q *Queue) sendTried(ctx context.Context, m queue.Message, pause time.Duration, at *entry) queue.SendResult {
	results := make([]queue.SendResult, 1)
	err := ctx.Err()
	if err == nil {
		err = q.enter()
	}
	if err != nil {
		return failAll(results, err)[0]
	}
	defer q.busy.Done()
	out := q.prepare([]queue.Message{m}, results)
	if len(out) == 0 {
		return results[0]
	}
	o := &out[0]
	o.record.Due, o.receives = q.options.Now().Add(pause).UnixNano(), 1
	o.data = encode(&o.record)
	if o.entry = at; at == nil {
		q.place(out)
	}
	if err = q.write(out, nil, pebble.Sync); err != nil && at != nil {
		return failAll(results, err)[0]
	}
	q.finish(out, results, err)
	return results[0]
}
