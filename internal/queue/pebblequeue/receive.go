package pebblequeue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/queue"
)

// Receive implements [queue.Queue]. If some records can't be read or moved, it returns the other
// messages, or the error if there are none; the failed ones stay hidden for the visibility time.
func (q *Queue) Receive(ctx context.Context, max int, visibility, wait time.Duration) ([]queue.Delivery, error) {
	if max < 1 {
		return nil, errors.New("receive messages: max must be at least 1")
	}
	if err := q.enter(); err != nil {
		return nil, fmt.Errorf("receive messages: %w", err)
	}
	defer q.busy.Done()
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		taken, dead, woken := q.take(max, visibility, wait > 0)
		if len(dead) > 0 {
			if err := q.bury(dead); err != nil && len(taken) == 0 {
				return nil, fmt.Errorf("move to dead-letter queue: %w", err)
			}
		}
		if len(taken) > 0 {
			out, err := q.read(taken)
			if err != nil || len(out) > 0 {
				return out, err
			}
		}
		switch again, err := q.pause(ctx, woken, end, len(taken)+len(dead) > 0); {
		case err != nil:
			return nil, fmt.Errorf("receive messages: %w", err)
		case !again:
			return nil, nil
		}
	}
}

// A taking is an entry and its receive count at the time. The entry may be received again
// meanwhile.
type taking struct {
	entry    *entry
	receives uint32
}

// take hides and returns messages. If there are none and wait is true, it joins the waiting
// receivers.
func (q *Queue) take(max int, visibility time.Duration, wait bool) (taken []taking, dead []*entry, woken chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, nil, nil
	}
	now := q.options.Now()
	q.index.expire(now.UnixNano())
	entries, dead := q.index.take(max, now.Add(visibility).UnixNano(), uint32(q.options.MaxReceives)) //nolint:gosec // validated when the queue was opened
	for _, e := range entries {
		taken = append(taken, taking{e, e.receives})
	}
	if len(taken)+len(dead) == 0 && wait {
		woken = q.waiters.join()
	}
	q.stir()
	return taken, dead, woken
}

// pause waits until there may be a message, and reports whether to look again.
func (q *Queue) pause(ctx context.Context, woken chan struct{}, end *time.Timer, progress bool) (again bool, err error) {
	if woken == nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.closed {
			return false, ErrClosed
		}
		return progress, nil
	}
	select {
	case <-woken:
		return true, nil
	case <-end.C:
		end.Reset(0) // the next round, if there is one, is the last
	case <-ctx.Done():
		err = ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiters.leave(woken) {
		return false, err
	}
	if err != nil { // the wake-up was meant for a receiver that takes the message
		q.stir()
		return false, err
	}
	return true, nil
}

// read reads the records of the taken messages and writes their receive counts.
func (q *Queue) read(taken []taking) ([]queue.Delivery, error) {
	out := make([]queue.Delivery, 0, len(taken))
	batch := q.db.NewBatch()
	defer batch.Close()
	var failed error
	for _, t := range taken {
		r, err := q.record(t.entry.seq)
		if errors.Is(err, pebble.ErrNotFound) {
			continue // deleted with an older receipt after it was taken
		}
		if err != nil {
			failed = err
			continue
		}
		d := q.delivery(&r, t.entry.seq, t.receives)
		d.Receipt = receipt{q.incarnation, t.entry.seq, t.receives}.String()
		out = append(out, d)
		if err := put(batch, q.key(kindReceives, t.entry.seq), &receivesRecord{t.receives}, nil); err != nil {
			failed = err
		}
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		failed = err
	}
	if len(out) > 0 {
		return out, nil
	}
	if failed != nil {
		return nil, fmt.Errorf("receive messages: %w", failed)
	}
	return nil, nil
}

func (q *Queue) record(seq uint64) (r messageRecord, err error) {
	key := q.key(kindMessage, seq)
	data, closer, err := q.db.Get(key)
	if err != nil {
		return r, fmt.Errorf("read record %q: %w", key, err)
	}
	if err := errors.Join(decode(key, data, &r), closer.Close()); err != nil {
		return r, fmt.Errorf("decode record %q: %w", key, err)
	}
	return r, nil
}

// bury moves messages to the dead-letter queue in one write, which is in the write-ahead log before
// every later one. If a crash loses it, the messages are still in this queue and over the limit.
func (q *Queue) bury(dead []*entry) error {
	to := q.options.DeadLetter
	if err := to.enter(); err != nil {
		q.unclaim(dead)
		return err
	}
	defer to.busy.Done()
	batch := q.db.NewBatch()
	defer batch.Close()
	var out []outgoing
	for _, e := range dead {
		r, err := q.record(e.seq)
		if err == nil {
			err = q.erase(batch, e.seq)
		}
		if err != nil {
			q.unclaim(dead)
			return err
		}
		r.Due = 0
		out = append(out, outgoing{record: r, hash: to.hash(r.Group)})
	}
	return q.move(dead, out, batch)
}

func (q *Queue) move(dead []*entry, out []outgoing, batch *pebble.Batch) error {
	to := q.options.DeadLetter
	to.place(out)
	err := func() error {
		for i := range out {
			if err := put(batch, to.key(kindMessage, out[i].entry.seq), &out[i].record, nil); err != nil {
				return err
			}
		}
		return batch.Commit(pebble.NoSync)
	}()
	to.finish(out, make([]queue.SendResult, 1), err)
	if err != nil {
		q.unclaim(dead)
		return err
	}
	q.forget(dead)
	return nil
}

// place assigns sequence numbers to messages that are moved to this queue.
func (q *Queue) place(out []outgoing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range out {
		out[i].entry = q.index.add(q.next(), out[i].hash)
	}
}
