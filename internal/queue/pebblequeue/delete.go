package pebblequeue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ErrNotInFlight says that a receipt is no longer the right to hide its message.
var ErrNotInFlight = errors.New("message is not in flight under this receipt")

// A receipt names one giving-out of a message by one incarnation of the queue.
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

// Delete acknowledges. As on SQS, a standard queue takes an older receipt too, while a first-in-first-out queue ignores one whose visibility time
// has ended: its message, and order, belong to the next receiver. The delete is not waited for; a crash that loses it brings the message again.
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

// claim gives the entries that the receipts may delete, and nobody else is removing already.
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

// current reports whether a receipt still holds the message back from others.
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

// erase adds the deletes of one message to a batch. Its record is written once and never again, which is what SingleDelete asks for; in
// return both disappear in the first compaction that meets them, and a busy queue leaves no trail of tombstones to scan.
func (q *Queue) erase(batch *pebble.Batch, seq uint64) error {
	if err := batch.SingleDelete(q.key(kindMessage, seq), nil); err != nil {
		return err
	}
	return batch.Delete(q.key(kindReceives, seq), nil)
}

// unclaim leaves entries to be deleted another time.
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
	}
	q.stir()
}

// ChangeVisibility hides a received message for a time from now; 0 gives it back at once. It returns [ErrNotInFlight] when the message was deleted, or its
// time has ended.
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
		q.index.hide(e, now.Add(visibility).UnixNano())
	} else {
		q.index.show(e)
	}
	q.stir()
	return nil
}
