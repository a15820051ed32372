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
	hold  Hold
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
	return &Place{q: q, entry: q.reserve(hash)}, true
}

// reserve adds a place to a group. The caller holds the lock.
func (q *Queue) reserve(hash uint64) *entry {
	e := q.index.add(q.next(), hash)
	e.place = true
	return e
}

// Holds reports whether the queue has a message of a group, in any state, or a reserved place of
// it. It is for first-in-first-out queues. Two groups whose names have the same 64-bit hash count
// as one.
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
	return p.SendTried(ctx, Tried{Message: m, Receives: 1, Pause: pause})
}

// SendTried is [Place.Send] with the settings of a tried message.
func (p *Place) SendTried(ctx context.Context, m Tried) queue.SendResult {
	if p.entry == nil {
		return queue.SendResult{Err: fmt.Errorf("send message: %w", errPlaceUsed)}
	}
	result := p.q.sendTried(ctx, []Tried{m}, []*entry{p.entry})[0]
	if result.Err == nil {
		p.entry = nil
	}
	p.Release()
	return result
}

// Places are reserved places in the order of many groups.
type Places struct {
	q       *Queue
	entries []*entry // nil if there is no place, or if it was used or released
	holds   map[int]*Hold
}

// ReserveAll reserves a place for each message of a batch. groups are the groups of the messages.
// It gives all messages of a group the first places in it, in their order, under the conditions of
// [Queue.Reserve], or none of them a place. It returns nil if no message has a place.
//
// If others have places in the groups of at least half of the messages, ReserveAll first waits
// until that has changed, or until ctx ends. With forMessages it waits for messages in the groups,
// too, except for those that pause or are delayed; behind says that it has waited for some in
// vain. It has no place while it waits.
func (q *Queue) ReserveAll(ctx context.Context, groups []string, forMessages bool) (p *Places, behind bool) {
	if !q.index.fifo {
		return nil, false
	}
	r := reservation{hashes: make([]uint64, len(groups)), forMessages: forMessages}
	for i, name := range groups {
		r.hashes[i] = q.hash(name)
	}
	for {
		over := ctx.Err() != nil
		p, changed := q.reserveAll(&r, over)
		if changed == nil {
			return p, over && r.behind
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// A reservation is one call of ReserveAll.
type reservation struct {
	hashes      []uint64
	forMessages bool
	from        int  // where to look first: the first message that had to wait
	behind      bool // messages are in the way
}

// blocked reports whether at least half of the messages have to wait for others. The caller holds
// the lock.
func (r *reservation) blocked(x *index) bool {
	n, from, behind := 0, r.from, false
	for i := range r.hashes {
		at := (from + i) % len(r.hashes)
		g := x.groups[r.hashes[at]]
		if g == nil {
			continue
		}
		head := g.entries.head
		message := r.forMessages && !head.place && !head.paused && head.state != delayed
		if !message && !head.place {
			continue
		}
		if n++; n == 1 {
			r.from = at
		}
		if behind = behind || message; 2*n >= len(r.hashes) {
			r.behind = behind
			return true
		}
	}
	return false
}

// reserveAll reserves places. If it has to wait, and its time is not over, it returns a channel
// that is closed by the next change.
func (q *Queue) reserveAll(r *reservation, over bool) (p *Places, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, nil
	}
	if !over && r.blocked(q.index) {
		return nil, q.watch()
	}
	p = &Places{q: q, entries: make([]*entry, len(r.hashes))}
	first, reserved := q.next(), 0
	for i, hash := range r.hashes {
		if g := q.index.groups[hash]; g != nil && g.entries.head.seq < first { // not reserved by this call
			continue
		}
		p.entries[i] = q.reserve(hash)
		reserved++
	}
	if reserved == 0 {
		return nil, nil
	}
	return p, nil
}

// Has reports whether message i of the batch has a place.
func (p *Places) Has(i int) bool { return p.entries[i] != nil }

// Release gives up the places that were not used or released before.
func (p *Places) Release() {
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	for i, e := range p.entries {
		if e != nil {
			p.q.index.remove(e)
			p.entries[i] = nil
		}
	}
	p.q.stir()
}

// Send puts messages into their places with one write, and returns when it is durable. which are
// the places. It returns a result for each message, see [Place.Send]. If the write fails, none of
// the messages is on the queue. A message without a place is an error.
func (p *Places) Send(ctx context.Context, which []int, messages []Tried) []queue.SendResult {
	entries := make([]*entry, len(which))
	for k, i := range which {
		if entries[k] = p.entries[i]; entries[k] == nil {
			return failAll(make([]queue.SendResult, len(which)), errPlaceUsed)
		}
	}
	results := p.q.sendTried(ctx, messages, entries)
	for k, i := range which {
		if results[k].Err == nil {
			p.entries[i] = nil
		}
	}
	return results
}

// A Tried message was processed without the queue before it is sent.
type Tried struct {
	queue.Message
	// Receives is how often it counts as received.
	Receives uint32
	// Pause is the time until it can be received again.
	Pause time.Duration
	// Hold, if it is set, hides the message until [Hold.Show] or, if the process ends before, for
	// the pause.
	Hold *Hold
}

// A Hold hides a message that is still being processed without the queue.
type Hold struct {
	q     *Queue
	entry *entry
}

// Hold returns the hold of the place, for its message.
func (p *Place) Hold() *Hold { return &p.hold }

// Hold returns the hold of place i, for its message.
func (p *Places) Hold(i int) *Hold {
	h := p.holds[i]
	if h == nil {
		if p.holds == nil {
			p.holds = map[int]*Hold{}
		}
		h = &Hold{}
		p.holds[i] = h
	}
	return h
}

// Show lets the message be received after a pause, as one that was received so often. It does
// nothing if the message was not sent.
func (h *Hold) Show(pause time.Duration, receives uint32) {
	if h.q == nil {
		return
	}
	h.q.mu.Lock()
	defer h.q.mu.Unlock()
	if h.q.closed || h.entry.state != delayed || h.entry.leaving {
		return
	}
	h.entry.receives = receives
	if pause > 0 {
		h.q.index.delay(h.entry, h.q.options.Now().Add(pause).UnixNano())
	} else {
		h.q.index.show(h.entry)
	}
	h.q.stir()
}

// SendTried puts messages without places, with one write. See [Place.Send].
func (q *Queue) SendTried(ctx context.Context, messages []Tried) []queue.SendResult {
	return q.sendTried(ctx, messages, nil)
}

// sendTried puts messages into the entries at, or into new ones if at is nil. If it fails, the
// entries at are left as they are.
func (q *Queue) sendTried(ctx context.Context, messages []Tried, at []*entry) []queue.SendResult {
	results := make([]queue.SendResult, len(messages))
	err := ctx.Err()
	if err == nil {
		err = q.enter()
	}
	if err != nil {
		return failAll(results, err)
	}
	defer q.busy.Done()
	plain := make([]queue.Message, len(messages))
	for i := range messages {
		plain[i] = messages[i].Message
	}
	out := q.prepare(plain, results)
	for i := range out {
		o := &out[i]
		m := &messages[o.place]
		o.receives, o.hold = m.Receives, m.Hold
		if m.Pause > 0 {
			o.record.Due = q.options.Now().Add(m.Pause).UnixNano()
			o.data = encode(&o.record)
		}
		if at != nil {
			o.entry = at[o.place]
		}
	}
	if at == nil {
		q.place(out)
	}
	if err = q.write(out, nil, pebble.Sync); err != nil && at != nil {
		return failAll(results, err)
	}
	q.finish(out, results, err)
	return results
}
