package pebblequeue

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
)

// AllOrNone reports whether one Send is one write: it is, unless the queue merges.
func (q *Queue) AllOrNone() bool { return q.options.Merge == nil }

// Send puts messages with one write, and returns when it is durable. If the write fails, it is
// unknown whether the queue has the messages when it is opened again; until then it has not.
func (q *Queue) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	return q.send(ctx, messages, pebble.Sync)
}

// SendOrdered puts messages and does not wait for the disk: they become durable no later than any
// write to the database that begins after it has returned. They may be received immediately.
func (q *Queue) SendOrdered(ctx context.Context, messages []queue.Message) []queue.SendResult {
	return q.send(ctx, messages, pebble.NoSync)
}

// An outgoing message is one that is being sent.
type outgoing struct {
	place  int // index in the call
	record messageRecord
	data   []byte
	hash   uint64
	entry  *entry
	dedup  *sent // if the queue deduplicates
	// receives counts the tries before the message was sent
	receives uint32
	hold     *Hold // nil if the message is not hidden
}

func (q *Queue) send(ctx context.Context, messages []queue.Message, sync *pebble.WriteOptions) []queue.SendResult {
	results := make([]queue.SendResult, len(messages))
	if err := ctx.Err(); err != nil {
		return failAll(results, err)
	}
	if err := q.enter(); err != nil {
		return failAll(results, err)
	}
	defer q.busy.Done()
	if q.options.Merge != nil {
		return q.sendMerged(ctx, messages, sync)
	}
	out := q.prepare(messages, results)
	out, earlier, forgotten := q.line(out)
	q.finish(out, results, q.write(out, forgotten, sync))
	// after our own write, because a message may repeat one of the same call
	for place, s := range earlier {
		<-s.settled
		results[place] = s.result
	}
	return results
}

func failAll(results []queue.SendResult, err error) []queue.SendResult {
	for i := range results {
		results[i].Err = fmt.Errorf("send message: %w", err)
	}
	return results
}

// prepare checks and encodes messages, which needs no lock.
func (q *Queue) prepare(messages []queue.Message, results []queue.SendResult) []outgoing {
	now := q.options.Now()
	out := make([]outgoing, 0, len(messages))
	for i := range messages {
		m := &messages[i]
		o := outgoing{place: i, hash: q.hash(m.Group), record: messageRecord{
			ID: uuid.New(), Body: m.Body, Attributes: m.Attributes, Group: m.Group, DedupID: m.DedupID, Sender: m.Sender, Sent: now.UnixNano(),
		}}
		if m.Delay > 0 {
			o.record.Due = now.Add(m.Delay).UnixNano()
		}
		err := m.ValidateLarge(q.name)
		if err == nil && q.options.Deduplicate > 0 && m.DedupID == "" {
			err = &queue.InvalidError{Field: "deduplication id", Rule: "must be given on a queue that deduplicates"}
		}
		if err != nil {
			results[i].Err = fmt.Errorf("send message: %w", err)
			continue
		}
		o.data = encode(&o.record)
		out = append(out, o)
	}
	return out
}

// line assigns sequence numbers and places to messages, all under the lock, so that the order of
// numbers is the order within the groups. Repeated messages are returned in earlier, by their
// index; forgotten are the keys of expired deduplication records.
func (q *Queue) line(out []outgoing) (fresh []outgoing, earlier map[int]*sent, forgotten []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.options.Deduplicate > 0 {
		out, earlier = q.window.sift(out, q.options.Now(), q.options.Deduplicate)
		forgotten = q.window.forget(q.options.Now())
	}
	for i := range out {
		seq := q.next()
		out[i].entry = q.index.add(seq, out[i].hash)
		if out[i].dedup != nil {
			out[i].dedup.seq = seq
		}
	}
	return out, earlier, forgotten
}

func (q *Queue) write(out []outgoing, forgotten []uint64, sync *pebble.WriteOptions) error {
	if len(out) == 0 {
		return nil
	}
	batch := q.db.NewBatch()
	if err := q.fill(batch, out, forgotten); err != nil {
		return errors.Join(err, batch.Close())
	}
	if sync.Sync {
		return q.options.Write(batch)
	}
	return errors.Join(batch.Commit(sync), batch.Close())
}

// fill puts messages into a batch, and the deletes of deduplication records.
func (q *Queue) fill(batch *pebble.Batch, out []outgoing, forgotten []uint64) error {
	for i := range out {
		key := q.key(kindMessage, out[i].entry.seq)
		if err := batch.Set(key, pebbledb.Seal(key, out[i].data), nil); err != nil {
			return err
		}
		if n := out[i].receives; n > 0 {
			if err := put(batch, q.key(kindReceives, out[i].entry.seq), &receivesRecord{n}, nil); err != nil {
				return err
			}
		}
		if out[i].dedup == nil {
			continue
		}
		if err := put(batch, q.key(kindDedup, out[i].entry.seq), out[i].dedup.record(), nil); err != nil {
			return err
		}
	}
	for _, seq := range forgotten {
		if err := batch.Delete(q.key(kindDedup, seq), nil); err != nil {
			return err
		}
	}
	return nil
}

// finish makes written messages ready, or removes them if the write failed.
func (q *Queue) finish(out []outgoing, results []queue.SendResult, err error) {
	if len(out) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range out {
		o := &out[i]
		r := &results[o.place]
		if err != nil {
			r.Err = fmt.Errorf("send message: %w", err)
			q.index.remove(o.entry)
		} else {
			r.ID = o.record.ID.String()
			if q.index.fifo {
				r.SequenceNumber = sequenceNumber(o.entry.seq)
			}
			o.entry.receives = o.receives
			o.entry.place = false
			if o.hold != nil {
				o.hold.q, o.hold.entry = q, o.entry
				q.index.delay(o.entry, math.MaxInt64)
			} else {
				q.admit(o.entry, o.record.Due)
			}
		}
		if o.dedup != nil {
			q.window.settle(o.dedup, *r)
		}
	}
	q.stir()
}
