package pebblequeue

import (
	"time"

	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/queue"
)

// A window remembers recent deduplication ids. The caller holds the queue's lock.
type window struct {
	sent  map[string]*sent
	order []*sent // by expiry, because the retention is the same for all
}

// sent is one remembered message. Its result may be read when settled is closed.
type sent struct {
	dedupID string
	id      uuid.UUID
	seq     uint64
	expires int64
	settled chan struct{}
	result  queue.SendResult
}

func (s *sent) record() *dedupRecord {
	return &dedupRecord{DedupID: s.dedupID, ID: s.id, Expires: s.expires}
}

// sift separates new messages, which it remembers, from repeated ones, which it returns by their
// place in the call.
func (w *window) sift(out []outgoing, now time.Time, keep time.Duration) (fresh []outgoing, earlier map[int]*sent) {
	for _, o := range out {
		if s := w.sent[o.record.DedupID]; s != nil && s.expires > now.UnixNano() {
			if earlier == nil {
				earlier = map[int]*sent{}
			}
			earlier[o.place] = s
			continue
		}
		o.dedup = &sent{dedupID: o.record.DedupID, id: o.record.ID, expires: now.Add(keep).UnixNano(), settled: make(chan struct{})}
		w.sent[o.dedup.dedupID] = o.dedup
		w.order = append(w.order, o.dedup)
		fresh = append(fresh, o)
	}
	return fresh, earlier
}

// forget drops expired ids and returns their sequence numbers.
func (w *window) forget(now time.Time) (forgotten []uint64) {
	for len(w.order) > 0 && w.order[0].expires <= now.UnixNano() {
		s := w.order[0]
		w.order[0] = nil
		w.order = w.order[1:]
		if w.sent[s.dedupID] == s {
			delete(w.sent, s.dedupID)
		}
		forgotten = append(forgotten, s.seq)
	}
	return forgotten
}

// settle sets the result of a message. A failed message is not remembered, so that the sender can
// retry.
func (w *window) settle(s *sent, r queue.SendResult) {
	s.result = r
	if r.Err != nil && w.sent[s.dedupID] == s {
		delete(w.sent, s.dedupID)
	}
	close(s.settled)
}

func (q *Queue) loadWindow() error {
	return q.scan(kindDedup, func(key, data []byte) error {
		var r dedupRecord
		if err := decode(key, data, &r); err != nil {
			return err
		}
		s := &sent{dedupID: r.DedupID, id: r.ID, seq: keySeq(key), expires: r.Expires, settled: make(chan struct{})}
		s.result = queue.SendResult{ID: r.ID.String()}
		if q.index.fifo {
			s.result.SequenceNumber = sequenceNumber(s.seq)
		}
		close(s.settled)
		q.window.sent[s.dedupID] = s
		q.window.order = append(q.window.order, s)
		return nil
	})
}
