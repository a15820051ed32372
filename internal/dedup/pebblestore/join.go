package pebblestore

import (
	"errors"
	"runtime"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// maxJoined limits the bytes of writes that are combined.
const maxJoined = 512 << 10

// errNotWritten is the error of a round whose leader panicked.
var errNotWritten = errors.New("the write was interrupted")

// A joiner combines the synced writes of concurrent callers. While a write waits for its sync, the
// ones that come meanwhile gather in a round, which is then written as one batch with one sync. If
// nothing is being written, a write waits only for goroutines that can run.
//
// The caller of each write holds the latches of its keys until the write returns. So the writes of
// a round have different keys, each with a condition that was checked and can't change. If the
// batch fails, all of its writes return the error, and each of them may have been applied.
type joiner struct {
	db    *pebble.DB
	apply func(*pebble.Batch) error

	mu   sync.Mutex
	open *round // the round that gathers writes, or nil
	last *round // the newest round, or nil
}

// A round is the writes of one batch. The caller that began the round leads: it writes the batch.
type round struct {
	batches []*pebble.Batch
	bytes   int
	before  *round        // to be written first, or nil
	done    chan struct{} // closed when the round is written
	err     error         // set before done is closed
}

// write writes a batch, together with those of other callers.
func (j *joiner) write(batch *pebble.Batch) error {
	r, leads := j.join(batch)
	if !leads {
		<-r.done
		return r.err
	}
	if r.before != nil {
		<-r.before.done
		r.before = nil
	}
	// Many callers that waited for the last sync are running again: let them join this round.
	runtime.Gosched()
	j.mu.Lock()
	if j.open == r {
		j.open = nil
	}
	j.mu.Unlock()
	r.err = errNotWritten
	defer close(r.done)
	r.err = j.writeAll(r)
	return r.err
}

// join adds a batch to the round that gathers writes, or begins one, which the caller then leads.
func (j *joiner) join(batch *pebble.Batch) (r *round, leads bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r = j.open; r == nil || r.bytes+batch.Len() > maxJoined {
		r, leads = &round{before: j.last, done: make(chan struct{})}, true
		j.open, j.last = r, r
	}
	r.batches, r.bytes = append(r.batches, batch), r.bytes+batch.Len()
	return r, leads
}

func (j *joiner) writeAll(r *round) error {
	if len(r.batches) == 1 {
		return j.apply(r.batches[0])
	}
	all := j.db.NewBatchWithSize(r.bytes)
	for _, batch := range r.batches {
		if err := all.Apply(batch, nil); err != nil {
			return err
		}
		if err := batch.Close(); err != nil {
			return err
		}
	}
	r.batches = nil
	return j.apply(all)
}
