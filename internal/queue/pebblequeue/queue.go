package pebblequeue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/queue"
)

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("queue is closed")

// Options configure a queue. The zero value is a queue without dead letters and without
// deduplication.
type Options struct {
	// DeadLetter receives messages that were received MaxReceives times and not deleted. It is a
	// queue in the same database, first-in-first-out if this queue is. If it is nil, such messages
	// stay here forever.
	DeadLetter *Queue
	// MaxReceives is required with DeadLetter.
	MaxReceives int
	// Deduplicate is how long a second message with the same DedupID is treated as a duplicate of
	// the first one. SQS does so for five minutes. 0 means never.
	Deduplicate time.Duration
	// Write writes a batch durably and closes it. It may write the batches of concurrent callers
	// together. Defaults to a synced commit.
	Write func(*pebble.Batch) error
	// Merge makes a standard queue keep one message of each identity. Defaults to none.
	Merge Merger
	// ReadOnly opens the queue of a database that was opened to be read only. Only Name, Peek,
	// Stats, Len and Close may be called then.
	ReadOnly bool
	// Now defaults to time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Write == nil {
		o.Write = func(batch *pebble.Batch) error { return errors.Join(batch.Commit(pebble.Sync), batch.Close()) }
	}
	return o
}

func (o Options) validate(db *pebble.DB, name string) error {
	switch {
	case name == "" || strings.ContainsRune(name, 0):
		return errors.New("name must not be empty and have no zero byte")
	case o.DeadLetter == nil && o.MaxReceives != 0, o.DeadLetter != nil && o.MaxReceives < 1:
		return errors.New("DeadLetter and MaxReceives belong together")
	case o.DeadLetter != nil && o.DeadLetter.db != db:
		return errors.New("DeadLetter must be in the same database: a move is one write")
	case o.DeadLetter != nil && queue.FIFO(o.DeadLetter.name) != queue.FIFO(name):
		return errors.New("DeadLetter must be first-in-first-out if and only if the queue is")
	case o.Merge != nil && (queue.FIFO(name) || o.DeadLetter != nil || o.Deduplicate > 0):
		return errors.New("a Merger is for a standard queue without DeadLetter and Deduplicate")
	case o.DeadLetter != nil && o.DeadLetter.options.Merge != nil:
		return errors.New("DeadLetter must have no Merger: a move is one write")
	case o.Deduplicate < 0:
		return errors.New("the time to deduplicate must not be negative")
	}
	return nil
}

// A Queue is a durable queue. Close it before the database.
type Queue struct {
	db          *pebble.DB
	name        string
	options     Options
	seed        maphash.Seed
	incarnation uint64

	mu      sync.Mutex // never held during disk input or output
	index   *index
	counter uint64
	window  window
	merged  merged // of a queue with Options.Merge
	waiters waiters
	changed chan struct{} // closed by the next change of the index; nil if nobody waits for that
	closed  bool
	busy    sync.WaitGroup // calls that use the database
}

var _ queue.Queue = (*Queue)(nil)

// Open opens or creates a queue and reads all its records. If a record is corrupt, the error names
// its key.
func Open(db *pebble.DB, name string, options Options) (*Queue, error) {
	if err := options.validate(db, name); err != nil {
		return nil, fmt.Errorf("open queue %s: %w", name, err)
	}
	q := &Queue{
		db: db, name: name, options: options.withDefaults(), seed: maphash.MakeSeed(),
		index: newIndex(queue.FIFO(name)), window: window{sent: map[string]*sent{}}, merged: merged{bySeq: map[uint64]kept{}, newest: map[uint64]uint64{}},
	}
	q.waiters.ring = q.ring
	for _, step := range []func() error{q.begin, q.loadMessages, q.loadWindow} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("open queue %s: %w", name, err)
		}
	}
	return q, nil
}

// begin starts a new incarnation, durably, unless the queue is only read.
func (q *Queue) begin() error {
	key := keyPrefix(q.name, kindIncarnation)
	data, closer, err := q.db.Get(key)
	if err != nil && !errors.Is(err, pebble.ErrNotFound) {
		return fmt.Errorf("read record %q: %w", key, err)
	}
	var r incarnationRecord
	if err == nil {
		err = decode(key, data, &r)
		if err = errors.Join(err, closer.Close()); err != nil {
			return fmt.Errorf("decode record %q: %w", key, err)
		}
	}
	if q.options.ReadOnly {
		return nil
	}
	r.Incarnation++
	q.incarnation, q.counter = r.Incarnation, 0
	return put(q.db, key, &r, pebble.Sync)
}

func (q *Queue) loadMessages() error {
	receives := map[uint64]uint32{}
	err := q.scan(kindReceives, func(key, data []byte) error {
		var r receivesRecord
		err := decode(key, data, &r)
		receives[keySeq(key)] = r.Receives
		return err
	})
	if err != nil {
		return err
	}
	err = q.scan(kindMessage, func(key, data []byte) error {
		var r messageRecord
		if err := decode(key, data, &r); err != nil {
			return err
		}
		seq := keySeq(key)
		e := q.index.add(seq, q.hash(r.Group))
		e.receives = receives[seq]
		delete(receives, seq)
		q.admit(e, r.Due)
		if q.options.Merge != nil {
			d := q.delivery(&r, seq, 0)
			k := q.keep(&d)
			k.entry = e
			q.merged.add(k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if q.options.ReadOnly {
		return nil
	}
	// Delete receive counts without a message: the message's delete was written before a late
	// count.
	batch := q.db.NewBatch()
	defer batch.Close()
	for seq := range receives {
		if err := batch.Delete(q.key(kindReceives, seq), nil); err != nil {
			return err
		}
	}
	return batch.Commit(pebble.NoSync)
}

// scan calls visit with the records of one kind, in order.
func (q *Queue) scan(kind byte, visit func(key, data []byte) error) (err error) {
	prefix := keyPrefix(q.name, kind)
	it, err := q.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: append(prefix[:len(prefix)-1:len(prefix)-1], kind+1)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.First(); it.Valid(); it.Next() {
		data, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("read record %q: %w", it.Key(), err)
		}
		if err := visit(it.Key(), data); err != nil {
			return fmt.Errorf("decode record %q: %w", it.Key(), err)
		}
	}
	return it.Error()
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Largest returns [queue.MaxLarge], see [queue.Largest].
func (q *Queue) Largest() int { return queue.MaxLarge }

// Close wakes all waiting receivers, and waits for calls that use the database. The database stays
// open.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closed = true
	q.waiters.close()
	q.announce()
	q.mu.Unlock()
	q.busy.Wait()
	return nil
}

// enter counts a call; the caller calls q.busy.Done at the end.
func (q *Queue) enter() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.busy.Add(1)
	return nil
}

func (q *Queue) hash(group string) uint64 {
	if !q.index.fifo {
		return 0
	}
	return maphash.String(q.seed, group)
}

// next returns the next sequence number. The caller holds the lock.
func (q *Queue) next() uint64 {
	q.counter++
	return q.incarnation<<counterBits | q.counter
}

// admit makes a written message ready, or delayed until due. The caller holds the lock.
func (q *Queue) admit(e *entry, due int64) {
	if due > q.options.Now().UnixNano() {
		q.index.delay(e, due)
		return
	}
	q.index.show(e)
}

// stir wakes a waiting receiver if a message is ready, and sets the alarm for the next hidden one.
// It wakes those who wait for a change. The caller holds the lock, and has changed the index.
func (q *Queue) stir() {
	q.announce()
	if len(q.waiters.waiting) == 0 {
		return
	}
	if q.index.hasReady() {
		q.waiters.wake()
	}
	if len(q.index.timers) > 0 {
		q.waiters.alarm(q.index.timers[0].due, q.options.Now().UnixNano())
	}
}

// ring is called when a hidden message may have become visible.
func (q *Queue) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters.rung()
	q.index.expire(q.options.Now().UnixNano())
	q.stir()
}

// Stats counts messages.
type Stats struct {
	Ready    int // neither hidden nor delayed, including those blocked by their group
	InFlight int // received, and hidden
	Delayed  int
}

// Stats counts messages as of now.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index.expire(q.options.Now().UnixNano())
	q.stir()
	return Stats{Ready: q.index.counts[ready], InFlight: q.index.counts[inFlight], Delayed: q.index.counts[delayed]}
}

// Quiet reports whether no message is ready, received or being sent.
func (q *Queue) Quiet() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.index.counts[ready]+q.index.counts[inFlight]+q.index.counts[sending] == 0
}

// AwaitQuiet waits until no message is ready, received or being sent. It returns false if ctx ends
// before, if the queue is closed, or if a message pauses until its next try.
func (q *Queue) AwaitQuiet(ctx context.Context) bool {
	for {
		quiet, changed := q.quietOr()
		if changed == nil {
			return quiet
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// quietOr reports whether the queue is quiet. If it is not and may become so soon, quietOr returns
// a channel that is closed by the next change.
func (q *Queue) quietOr() (quiet bool, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if busy := q.index.counts[ready] + q.index.counts[inFlight] + q.index.counts[sending]; busy == 0 || q.closed || q.index.paused > 0 {
		return busy == 0, nil
	}
	return false, q.watch()
}

// announce wakes those who wait for a change of the index. The caller holds the lock.
func (q *Queue) announce() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// watch returns a channel that is closed by the next change of the index. The caller holds the
// lock.
func (q *Queue) watch() <-chan struct{} {
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return q.changed
}

// Len returns how many messages the queue holds.
func (q *Queue) Len() int {
	s := q.Stats()
	return s.Ready + s.InFlight + s.Delayed
}

var errEnough = errors.New("enough")

// Peek returns up to limit messages in any state, the oldest first, and changes nothing. Receipts
// are empty.
func (q *Queue) Peek(limit int) ([]queue.Delivery, error) {
	if err := q.enter(); err != nil {
		return nil, fmt.Errorf("peek: %w", err)
	}
	defer q.busy.Done()
	var out []queue.Delivery
	err := q.scan(kindMessage, func(key, data []byte) error {
		if len(out) >= limit {
			return errEnough
		}
		var r messageRecord
		if err := decode(key, data, &r); err != nil {
			return err
		}
		seq := binary.BigEndian.Uint64(key[len(key)-8:])
		receives, err := q.receives(seq)
		out = append(out, q.delivery(&r, seq, receives))
		return err
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("peek: %w", err)
	}
	return out, nil
}

// receives returns how often a message was received, also by an earlier process.
func (q *Queue) receives(seq uint64) (uint32, error) {
	q.mu.Lock()
	e := q.index.received[seq]
	if e != nil {
		defer q.mu.Unlock()
		return e.receives, nil
	}
	q.mu.Unlock()
	key := q.key(kindReceives, seq)
	data, closer, err := q.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var r receivesRecord
	err = decode(key, data, &r)
	return r.Receives, errors.Join(err, closer.Close())
}
