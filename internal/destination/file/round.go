package file

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

// keptBuffer is the largest buffer, in bytes, that is kept between rounds.
const keptBuffer = 4 << 20

// keptLines is the largest buffer of a request, in bytes, that is kept.
const keptLines = 256 << 10

// roundBytes is how much a round writes before it leaves the rest to the next one; a request is
// never split.
const roundBytes = 8 << 20

// A request is one Send in the writer's queue, or a part of Expire. It shares no memory with its
// caller, who may have stopped waiting.
type request struct {
	marks []mark
	lines []byte
	ends  []int // the end of each line
	errs  []error
	buf   *[]byte // of lines, from the pool of the sender
	done  chan struct{}

	expired [][]byte // keys of marks to delete, of an Expire
	deleted int
	forgot  error // of an Expire
}

func (s *Sender) newRequest(deliveries []record.Delivery) *request {
	r := &request{
		marks: make([]mark, len(deliveries)),
		ends:  make([]int, len(deliveries)),
		errs:  make([]error, len(deliveries)),
		done:  make(chan struct{}),
	}
	size := 0
	for i := range deliveries {
		size += len(deliveries[i].Effect.Body) + 256
	}
	r.buf = s.borrow(size)
	r.lines = *r.buf
	for i := range deliveries {
		r.marks[i] = s.mark(&deliveries[i])
		r.lines = appendLine(r.lines, &deliveries[i])
		r.ends[i] = len(r.lines)
	}
	return r
}

// borrow returns an empty buffer from the pool, with room for size bytes.
func (s *Sender) borrow(size int) *[]byte {
	buf, _ := s.buffers.Get().(*[]byte)
	if buf == nil || cap(*buf) < size {
		buf = &[]byte{}
		*buf = make([]byte, 0, size)
	}
	return buf
}

// giveBack returns the lines of a request to the pool. Only the writer calls it, because it alone
// knows when they were written.
func (s *Sender) giveBack(r *request) {
	if r.buf != nil && cap(r.lines) <= keptLines {
		*r.buf = r.lines[:0]
		s.buffers.Put(r.buf)
	}
	r.buf, r.lines = nil, nil
}

func (s *Sender) mark(d *record.Delivery) mark {
	if d.Redriven && d.Number > 0 { // the last number of the group may be greater already
		return mark{key: s.marks.identityKey(fmt.Sprintf("%s@%d", d.Identity, d.Incarnation)), keep: s.options.Retention}
	}
	if d.Number == 0 {
		// If it were kept longer, the mark would suppress a new message with a reused identity; if
		// shorter, it would repeat the line of a message that is redelivered after a crash.
		return mark{key: s.marks.identityKey(d.Identity), keep: cmp.Or(d.Retention, s.options.Retention)}
	}
	return mark{key: s.marks.groupKey(d), number: d.Number, keep: s.options.Retention}
}

func (r *request) line(i int) []byte {
	if i == 0 {
		return r.lines[:r.ends[0]]
	}
	return r.lines[r.ends[i-1]:r.ends[i]]
}

// write is the writer: it runs until Close, and then until no request is waiting.
func (s *Sender) write() {
	defer close(s.stopped)
	for range s.wake {
		runtime.Gosched() // callers that waited for the last round are running again: let them join
		requests, open := s.take()
		for len(requests) > 0 {
			n := fill(requests)
			s.round(requests[:n])
			requests = requests[n:]
		}
		if !open {
			return
		}
	}
}

// fill returns how many of the requests make a round.
func fill(requests []*request) int {
	size := 0
	for i, r := range requests {
		size += len(r.lines)
		if size > roundBytes && i > 0 {
			return i
		}
	}
	return len(requests)
}

// A plan is the content of a round.
type plan struct {
	batch *pebble.Batch
	// written holds the last number of each mark that this round writes.
	written map[string]uint64
	// depends lists the answers that depend on the result of the round.
	depends []*error
}

// round writes the lines of the requests and answers them.
func (s *Sender) round(requests []*request) {
	p := plan{batch: s.db.NewBatch(), written: map[string]uint64{}}
	defer p.batch.Close()
	s.buf = s.buf[:0]
	err := s.plan(&p, requests)
	if err == nil {
		err = s.carryOut(&p)
	}
	if err != nil {
		err = fmt.Errorf("append to file %s: %w", s.path, err)
	}
	for _, answer := range p.depends {
		*answer = err
	}
	for _, r := range requests {
		s.giveBack(r)
		close(r.done)
	}
	if cap(s.buf) > keptBuffer {
		s.buf = nil
	}
}

// plan collects the lines that are not marked. If it returns an error, the undecided answers are in
// p.depends.
func (s *Sender) plan(p *plan, requests []*request) error {
	now := s.options.Now()
	var failed error
	for _, r := range requests {
		if err := s.forget(p, r); err != nil {
			failed = err
		}
		for i := range r.marks {
			m := &r.marks[i]
			if last, ok := p.written[string(m.key)]; ok && last >= m.number {
				p.depends = append(p.depends, &r.errs[i])
				continue
			}
			marked, err := s.marks.covers(m, now)
			if err == nil && marked {
				continue
			}
			// it is unknown whether the line was written; other deliveries must not fail because of
			// it. Damage that the database itself detects fails them all.
			if errors.Is(err, record.ErrCorrupt) {
				r.errs[i] = fmt.Errorf("append to file %s: %w", s.path, err)
				continue
			}
			p.depends = append(p.depends, &r.errs[i])
			if err == nil {
				err = p.batch.Set(m.key, markValue(m.key, m.number, now.Add(m.keep)), nil)
			}
			if err != nil {
				failed = err
				continue
			}
			p.written[string(m.key)] = m.number
			s.buf = append(s.buf, r.line(i)...)
		}
	}
	return failed
}

// carryOut syncs the lines, then records them.
func (s *Sender) carryOut(p *plan) error {
	if len(s.buf) == 0 {
		return s.options.Presence.Commit(p.batch, pebble.NoSync) // only deletes expired marks, if there are any
	}
	err := s.append(s.buf)
	if errors.As(err, new(*replacedError)) {
		err = s.append(s.buf) // to the new file
	}
	if err == nil {
		key := s.marks.lengthKey()
		err = p.batch.Set(key, lengthValue(key, s.length+int64(len(s.buf))), nil)
	}
	now := s.options.Now()
	since := now.Sub(s.noted)
	due := since >= noteEvery || since < 0 // a clock may be set back
	if err == nil {
		err = s.options.Presence.Commit(p.batch, &pebble.WriteOptions{Sync: due})
	}
	if err != nil {
		s.restore()
		return err
	}
	s.length += int64(len(s.buf))
	if due {
		s.note()
		s.noted = now
	}
	return nil
}
