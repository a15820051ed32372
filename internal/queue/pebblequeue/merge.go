package pebblequeue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"
	"unique"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/queue"
)

// A Merger makes a standard queue keep one message of each identity, as a dead-letter queue does.
type Merger interface {
	// Identity returns the identity of a message, or "" if it has none, and its stream.
	Identity(d *queue.Delivery) (name, stream string)
	// Merge returns the message that replaces old when next is sent under its identity, or false if
	// the queue keeps both.
	Merge(old, next *queue.Delivery) (queue.Message, bool)
}

// merged are the messages of a queue that merges. All but sending belongs to the queue's lock.
type merged struct {
	sending sync.Mutex // held while a message is written: the next one may replace it
	bySeq   map[uint64]kept
	newest  map[uint64]uint64 // sequence numbers, by the hash of the identity
}

// A kept is a message of a queue that merges.
type kept struct {
	entry  *entry
	hash   uint64 // of its identity; 0 for none
	sent   int64  // Unix nanoseconds
	stream unique.Handle[string]
}

func (m *merged) add(k kept) {
	m.bySeq[k.entry.seq] = k
	if k.hash != 0 {
		m.newest[k.hash] = k.entry.seq
	}
}

func (m *merged) remove(e *entry) {
	k, ok := m.bySeq[e.seq]
	if delete(m.bySeq, e.seq); ok && m.newest[k.hash] == e.seq {
		delete(m.newest, k.hash)
	}
}

// keep describes a message.
func (q *Queue) keep(d *queue.Delivery) kept {
	name, stream := q.options.Merge.Identity(d)
	k := kept{sent: d.Sent.UnixNano(), stream: unique.Make(stream)}
	if name != "" {
		k.hash = max(1, maphash.String(q.seed, name))
	}
	return k
}

// sendMerged puts messages one by one: each may replace the one before it. It waits for the disk
// once, after all of them.
func (q *Queue) sendMerged(ctx context.Context, messages []queue.Message, sync *pebble.WriteOptions) []queue.SendResult {
	results := make([]queue.SendResult, len(messages))
	for i := range messages {
		results[i] = q.sendOne(ctx, messages[i])
	}
	if !sync.Sync {
		return results
	}
	batch := q.db.NewBatch()
	if err := errors.Join(batch.LogData(nil, nil), q.options.Write(batch)); err != nil {
		return failAll(results, err)
	}
	return results
}

func (q *Queue) sendOne(ctx context.Context, m queue.Message) queue.SendResult {
	q.merged.sending.Lock()
	defer q.merged.sending.Unlock()
	result := make([]queue.SendResult, 1)
	if err := ctx.Err(); err != nil {
		return failAll(result, err)[0]
	}
	out := q.prepare([]queue.Message{m}, result)
	if len(out) == 0 {
		return result[0]
	}
	next := q.delivery(&out[0].record, 0, 0)
	k := q.keep(&next)
	old, err := q.merge(&out[0], &next, k.hash)
	if err != nil {
		return failAll(result, err)[0]
	}
	out, _, _ = q.line(out)
	if err = q.replace(old, out); err != nil {
		q.finish(out, result, err)
		q.unclaim(old)
		return result[0]
	}
	k.entry = out[0].entry
	q.mu.Lock()
	q.merged.add(k) // before it is received, and deleted
	q.mu.Unlock()
	q.finish(out, result, nil)
	q.forget(old)
	return result[0]
}

// merge changes a message that is sent to the one that replaces the message of its identity, and
// claims that one. If there is none, or another call is deleting it, it returns none.
func (q *Queue) merge(o *outgoing, next *queue.Delivery, hash uint64) ([]*entry, error) {
	q.mu.Lock()
	old, ok := q.merged.bySeq[q.merged.newest[hash]]
	q.mu.Unlock()
	if hash == 0 || !ok {
		return nil, nil
	}
	r, err := q.record(old.entry.seq)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	before := q.delivery(&r, old.entry.seq, 0)
	was, _ := q.options.Merge.Identity(&before)
	if now, _ := q.options.Merge.Identity(next); was != now {
		return nil, nil
	}
	m, ok := q.options.Merge.Merge(&before, next)
	if !ok {
		return nil, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// A receiver may be about to process the older content and to delete it.
	if old.entry.state == inFlight && m.Body != next.Body {
		return nil, nil
	}
	if _, there := q.merged.bySeq[old.entry.seq]; !there || !q.index.claim(old.entry) {
		return nil, nil
	}
	// An operator who sees the older one in a list finds this one by its id.
	o.record.ID, o.record.Body, o.record.Attributes, o.record.Sender = r.ID, m.Body, m.Attributes, m.Sender
	o.data = encode(&o.record)
	return []*entry{old.entry}, nil
}

// replace writes a message and the delete of the one that it replaces. It does not wait for the
// disk.
func (q *Queue) replace(old []*entry, out []outgoing) error {
	batch := q.db.NewBatch()
	defer batch.Close()
	for _, e := range old {
		if err := q.erase(batch, e.seq); err != nil {
			return err
		}
	}
	return errors.Join(q.fill(batch, out, nil), batch.Commit(pebble.NoSync))
}

// A Trimmed is a message that Trim deleted.
type Trimmed struct {
	Stream string
	Sent   time.Time
}

// Trim deletes messages of a queue with a [Merger]: those that were sent before a time, and those
// beyond most, each the oldest one of the stream that has the most; at most limit in one call. It
// returns what it deleted. As after Delete, a crash may bring them back.
func (q *Queue) Trim(before time.Time, most, limit int) ([]Trimmed, error) {
	if err := q.enter(); err != nil {
		return nil, fmt.Errorf("trim: %w", err)
	}
	defer q.busy.Done()
	claimed, gone := q.claimOldest(before, most, limit)
	if err := q.delete(claimed); err != nil {
		return nil, fmt.Errorf("trim: %w", err)
	}
	return gone, nil
}

func (q *Queue) claimOldest(before time.Time, most, limit int) (claimed []*entry, gone []Trimmed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	surplus := len(q.merged.bySeq) - most
	var old []kept
	streams := map[unique.Handle[string]][]kept{}
	for _, k := range q.merged.bySeq {
		switch {
		case k.entry.leaving || k.entry.state == sending:
		case time.Unix(0, k.sent).Before(before):
			old = append(old, k)
		case surplus > 0:
			streams[k.stream] = append(streams[k.stream], k)
		}
	}
	bySeq := func(a, b kept) int { return cmp.Compare(a.entry.seq, b.entry.seq) }
	slices.SortFunc(old, bySeq)
	for _, list := range streams {
		slices.SortFunc(list, bySeq)
	}
	for len(old) < min(limit, surplus) && len(streams) > 0 {
		var from []kept
		for _, list := range streams {
			if len(list) > len(from) || len(list) == len(from) && bySeq(list[0], from[0]) < 0 {
				from = list
			}
		}
		old = append(old, from[0])
		if streams[from[0].stream] = from[1:]; len(from) == 1 {
			delete(streams, from[0].stream)
		}
	}
	for _, k := range old[:min(limit, len(old))] {
		q.index.claim(k.entry)
		claimed, gone = append(claimed, k.entry), append(gone, Trimmed{k.stream.Value(), time.Unix(0, k.sent)})
	}
	return claimed, gone
}

// Older counts the messages that were sent before a time.
func (q *Queue) Older(before time.Time) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, k := range q.merged.bySeq {
		if time.Unix(0, k.sent).Before(before) {
			n++
		}
	}
	return n
}
