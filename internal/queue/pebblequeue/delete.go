package pebblequeue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ErrNotInFlight reports that a receipt is no longer valid for hiding its message.
var ErrNotInFlight = errors.New("message is not in flight under this receipt")

// errPlaceUsed reports that a place was used or released before.
var errPlaceUsed = errors.New("the place was given up")

// A receipt identifies one receive of a message, by one incarnation of the queue.
type receipt struct {
	incarnation uint64
	seq         uint64
	receives    uint32
}

func (r receipt) String() string { return fmt.Sprintf("%x-%x-%x", r.incarnation, r.seq, r.receives) }

func parseReceipt(s string) (r receipt, ok bool) {
	incarnation, rest, _ := strings.Cut(s, "-")
	seq, receives, _ := strings.Cut(rest, "-")
	var errs [3]error
	r.incarnation, errs[0] = strconv.ParseUint(incarnation, 16, 64)
	r.seq, errs[1] = strconv.ParseUint(seq, 16, 64)
	n, err := strconv.ParseUint(receives, 16, 32)
	r.receives, errs[2] = uint32(n), err
	return r, errors.Join(errs[:]...) == nil
}

// Delete implements queue.Queue. As on SQS, a standard queue accepts an older receipt too. A
// first-in-first-out queue ignores a receipt whose visibility time has ended, because the message
// and its order belong to the next receiver. Delete does not wait for the disk: if a crash loses
// the delete, the message is redelivered.
func (q *Queue) Delete(ctx context.Context, receipts []string) []error {
	results := make([]error, len(receipts))
	err := ctx.Err()
	if err == nil {
		err = q.enter()
	}
	if err == nil {
		defer q.busy.Done()
		err = q.delete(q.claim(receipts))
	}
	if err != nil {
		for i := range results {
			results[i] = fmt.Errorf("delete message: %w", err)
		}
	}
	return results
}

// claim returns the entries that the receipts may delete and that no other call is removing.
func (q *Queue) claim(receipts []string) (claimed []*entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.options.Now().UnixNano()
	for _, s := range receipts {
		r, ok := parseReceipt(s)
		e := q.index.received[r.seq]
		if !ok || e == nil || q.index.fifo && !q.current(e, r, now) {
			continue
		}
		if q.index.claim(e) {
			claimed = append(claimed, e)
		}
	}
	return claimed
}

// current reports whether a receipt still hides its message from other receivers.
func (q *Queue) current(e *entry, r receipt, now int64) bool {
	return e.state == inFlight && !e.leaving && e.due > now && e.receives == r.receives && q.incarnation == r.incarnation
}

func (q *Queue) delete(claimed []*entry) error {
	if len(claimed) == 0 {
		return nil
	}
	batch := q.db.NewBatch()
	defer batch.Close()
	for _, e := range claimed {
		if err := q.erase(batch, e.seq); err != nil {
			q.unclaim(claimed)
			return err
		}
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		q.unclaim(claimed)
		return err
	}
	q.forget(claimed)
	return nil
}

// erase adds the deletes of one message to a batch. Its record is written exactly once, as
// SingleDelete requires. In return, record and tombstone both disappear in the first compaction
// that contains them, so that a busy queue leaves no tombstones to scan.
func (q *Queue) erase(batch *pebble.Batch, seq uint64) error {
	if err := batch.SingleDelete(q.key(kindMessage, seq), nil); err != nil {
		return err
	}
	return batch.Delete(q.key(kindReceives, seq), nil)
}

// unclaim leaves entries to a later delete.
func (q *Queue) unclaim(claimed []*entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range claimed {
		q.index.unclaim(e)
	}
	q.stir()
}

// forget removes entries whose records are gone.
func (q *Queue) forget(gone []*entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range gone {
		q.index.remove(e)
		q.merged.remove(e)
	}
	q.stir()
}

// ChangeVisibility hides a received message for a time from now; 0 makes it visible immediately. It
// returns [ErrNotInFlight] if the message was deleted or its visibility time has ended.
func (q *Queue) ChangeVisibility(ctx context.Context, s string, visibility time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("change visibility: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return fmt.Errorf("change visibility: %w", ErrClosed)
	}
	now := q.options.Now()
	r, ok := parseReceipt(s)
	e := q.index.received[r.seq]
	if !ok || e == nil || !q.current(e, r, now.UnixNano()) {
		return fmt.Errorf("change visibility: %w", ErrNotInFlight)
	}
	if visibility > 0 {
		q.index.pause(e, now.Add(visibility).UnixNano())
	} else {
		q.index.show(e)
	}
	q.stir()
	return nil
}

// Hasten ends the pauses of all messages that were received, and are hidden until their next try.
// It leaves out those that a receiver has.
func (q *Queue) Hasten() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	for _, e := range slices.Collect(maps.Values(q.index.received)) {
		if e.paused && !e.leaving {
			q.index.show(e)
		}
	}
	q.stir()
}
