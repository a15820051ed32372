package pebblequeue

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/queue"
)

// A Merger makes a standard queue keep one message of each identity, as a dead-letter queue does.
type Merger interface {
	// Identity returns the identity of a message, or "" if it has none.
	Identity(d *queue.Delivery) string
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
	entry *entry
	hash  uint64 // of its identity; 0 for none
}

func (m *merged) add(e *entry, hash uint64) {
	m.bySeq[e.seq] = kept{e, hash}
	if hash != 0 {
		m.newest[hash] = e.seq
	}
}

func (m *merged) remove(e *entry) {
	k, ok := m.bySeq[e.seq]
	if delete(m.bySeq, e.seq); ok && m.newest[k.hash] == e.seq {
		delete(m.newest, k.hash)
	}
}

// identity returns the hash of a message's identity, 0 for none.
func (q *Queue) identity(d *queue.Delivery) uint64 {
	if name := q.options.Merge.Identity(d); name != "" {
		return max(1, maphash.String(q.seed, name))
	}
	return 0
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
	hash := q.identity(&next)
	old, err := q.merge(&out[0], &next, hash)
	if err != nil {
		return failAll(result, err)[0]
	}
	out, _, _ = q.line(out)
	err = q.replace(old, out)
	q.finish(out, result, err)
	if err != nil {
		q.unclaim(old)
		return result[0]
	}
	q.mu.Lock()
	q.merged.add(out[0].entry, hash)
	q.mu.Unlock()
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
	if q.options.Merge.Identity(&before) != q.options.Merge.Identity(next) {
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
	o.record.Body, o.record.Attributes, o.record.Sender = m.Body, m.Attributes, m.Sender
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

// Trim deletes messages of a queue with a [Merger], the oldest first: those that were sent before a
// time, and those beyond most; at most limit in one call. It returns what it deleted. As after
// Delete, a crash may bring them back.
func (q *Queue) Trim(before time.Time, most, limit int) ([]queue.Delivery, error) {
	surplus := q.Len() - most
	var gone []queue.Delivery
	var claimed []*entry
	err := q.oldest(func(d *queue.Delivery, seq uint64) bool {
		if len(claimed) >= limit || len(claimed) >= surplus && !d.Sent.Before(before) {
			return false
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if k, ok := q.merged.bySeq[seq]; ok && q.index.claim(k.entry) {
			claimed, gone = append(claimed, k.entry), append(gone, *d)
		}
		return true
	})
	if err != nil {
		q.unclaim(claimed)
		return nil, fmt.Errorf("trim: %w", err)
	}
	if err := q.delete(claimed); err != nil {
		return nil, fmt.Errorf("trim: %w", err)
	}
	return gone, nil
}

// Older counts the oldest messages, up to the first one that was sent at or after a time; at most
// limit.
func (q *Queue) Older(before time.Time, limit int) (n int, err error) {
	if q.Len() == 0 {
		return 0, nil
	}
	err = q.oldest(func(d *queue.Delivery, _ uint64) bool {
		if n == limit || !d.Sent.Before(before) {
			return false
		}
		n++
		return true
	})
	return n, err
}

// oldest calls visit with the messages, the oldest first, until it returns false.
func (q *Queue) oldest(visit func(d *queue.Delivery, seq uint64) bool) error {
	if err := q.enter(); err != nil {
		return err
	}
	defer q.busy.Done()
	err := q.scan(kindMessage, func(key, data []byte) error {
		var r messageRecord
		if err := decode(key, data, &r); err != nil {
			return err
		}
		if d := q.delivery(&r, keySeq(key), 0); !visit(&d, keySeq(key)) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
