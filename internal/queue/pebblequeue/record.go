package pebblequeue

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
)

// The kinds of records of one queue.
const (
	kindDedup       byte = 'd'
	kindIncarnation byte = 'i'
	kindMessage     byte = 'm'
	kindReceives    byte = 'r'
)

// format is the format of all records of a queue.
const format byte = 2

// smallRecord is more than the size of a record of numbers, and of an id, in bytes.
const smallRecord = 48

// counterBits is how many low bits of a sequence number count messages. The high bits are the
// queue's incarnation, which increases with every Open, so that no number is used twice, even if
// the newest messages were deleted before a restart.
const counterBits = 40

// A stored is a record of the queue. Its fields are numbered as in package encoding.
type stored interface {
	write(e *encoding.Encoder)
	read(d *encoding.Decoder)
	// size is about the size of the encoded record, in bytes.
	size() int
}

type messageRecord struct {
	ID         uuid.UUID
	Body       string
	Attributes map[string]string
	Group      string
	DedupID    string
	Sender     string
	Sent       int64 // Unix nanoseconds
	Due        int64 // end of the delay, Unix nanoseconds
}

func (r *messageRecord) fields(f *encoding.Fields) {
	f.ID(1, (*[16]byte)(&r.ID))
	f.Text(2, &r.Body)
	f.TextMap(3, &r.Attributes)
	f.Text(4, &r.Group)
	f.Text(5, &r.DedupID)
	f.Text(6, &r.Sender)
	f.Int(7, &r.Sent)
	f.Int(8, &r.Due)
}

func (r *messageRecord) write(e *encoding.Encoder) {
	f := encoding.Writing(e)
	r.fields(&f)
}

func (r *messageRecord) read(d *encoding.Decoder) {
	f := encoding.Reading(d)
	r.fields(&f)
	f.End()
}

func (r *messageRecord) size() int {
	n := 64 + len(r.Body) + len(r.Group) + len(r.DedupID) + len(r.Sender)
	for name, value := range r.Attributes {
		n += 8 + len(name) + len(value)
	}
	return n
}

type receivesRecord struct{ Receives uint32 }

func (r *receivesRecord) write(e *encoding.Encoder) { writeNumber(e, uint64(r.Receives)) }

func (r *receivesRecord) read(d *encoding.Decoder) {
	var n uint64
	if readNumber(d, &n); n > math.MaxUint32 {
		d.Fail("%d receives", n)
	}
	r.Receives = uint32(n)
}

func (*receivesRecord) size() int { return smallRecord }

type dedupRecord struct {
	DedupID string
	ID      uuid.UUID
	Expires int64 // Unix nanoseconds
}

func (r *dedupRecord) fields(f *encoding.Fields) {
	f.Text(1, &r.DedupID)
	f.ID(2, (*[16]byte)(&r.ID))
	f.Int(3, &r.Expires)
}

func (r *dedupRecord) write(e *encoding.Encoder) {
	f := encoding.Writing(e)
	r.fields(&f)
}

func (r *dedupRecord) read(d *encoding.Decoder) {
	f := encoding.Reading(d)
	r.fields(&f)
	f.End()
}

func (r *dedupRecord) size() int { return smallRecord + len(r.DedupID) }

type incarnationRecord struct{ Incarnation uint64 }

func (r *incarnationRecord) write(e *encoding.Encoder) { writeNumber(e, r.Incarnation) }
func (r *incarnationRecord) read(d *encoding.Decoder)  { readNumber(d, &r.Incarnation) }
func (*incarnationRecord) size() int                   { return smallRecord }

// writeNumber writes a record that is one number.
func writeNumber(e *encoding.Encoder, n uint64) { e.UintField(e.Object(), 1, n) }

// readNumber reads what writeNumber wrote.
func readNumber(d *encoding.Decoder, n *uint64) {
	f := encoding.Reading(d)
	f.Uint(1, n)
	f.End()
}

func (r *messageRecord) message() queue.Message {
	return queue.Message{Body: r.Body, Attributes: r.Attributes, Group: r.Group, DedupID: r.DedupID, Sender: r.Sender}
}

func (q *Queue) delivery(r *messageRecord, seq uint64, receives uint32) queue.Delivery {
	d := queue.Delivery{Message: r.message(), Queue: q.name, ID: r.ID.String(), Receives: int(receives), Sent: time.Unix(0, r.Sent)}
	if q.index.fifo {
		d.SequenceNumber = sequenceNumber(seq)
	}
	return d
}

// sequenceNumber returns a number with leading zeros, 20 digits in all.
func sequenceNumber(seq uint64) string {
	var digits [20]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + seq%10)
		seq /= 10
	}
	return string(digits[:])
}

// keyPrefix returns the prefix of the keys of one kind of one queue. Names hold no zero byte, so
// the keys of two queues never overlap.
func keyPrefix(name string, kind byte) []byte {
	key := make([]byte, 0, len(name)+11)
	key = append(key, pebbledb.Queues)
	key = append(key, name...)
	return append(key, 0, kind)
}

func (q *Queue) key(kind byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(keyPrefix(q.name, kind), seq)
}

func keySeq(key []byte) uint64 {
	if len(key) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key[len(key)-8:])
}

// encode returns a record that is not sealed, with room for its seal.
func encode(r stored) []byte {
	e := encoding.Encoder{B: append(make([]byte, 0, r.size()), format)}
	r.write(&e)
	return e.B
}

// put writes a record.
func put(w pebble.Writer, key []byte, r stored, o *pebble.WriteOptions) error {
	return w.Set(key, pebbledb.Seal(key, encode(r)), o)
}

// decode reads a record. The error wraps [record.ErrCorrupt].
func decode(key, data []byte, r stored) error {
	body, err := pebbledb.Unseal(format, key, data)
	if err != nil {
		return err
	}
	d := encoding.NewDecoder(body)
	r.read(d)
	return d.End()
}
