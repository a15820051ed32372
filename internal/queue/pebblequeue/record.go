package pebblequeue

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/fxamacker/cbor/v2"
	"github.com/google/uuid"

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

// counterBits is how many low bits of a sequence number count messages. The high bits are the
// queue's incarnation, which increases with every Open, so that no number is used twice, even if
// the newest messages were deleted before a restart.
const counterBits = 40

type messageRecord struct {
	ID         uuid.UUID         `cbor:"1,keyasint"`
	Body       string            `cbor:"2,keyasint"`
	Attributes map[string]string `cbor:"3,keyasint,omitempty"`
	Group      string            `cbor:"4,keyasint,omitempty"`
	DedupID    string            `cbor:"5,keyasint,omitempty"`
	Sender     string            `cbor:"6,keyasint,omitempty"`
	Sent       int64             `cbor:"7,keyasint"`           // Unix nanoseconds
	Due        int64             `cbor:"8,keyasint,omitempty"` // end of the delay, Unix nanoseconds
}

type receivesRecord struct {
	Receives uint32 `cbor:"1,keyasint"`
}

type dedupRecord struct {
	DedupID string    `cbor:"1,keyasint"`
	ID      uuid.UUID `cbor:"2,keyasint"`
	Expires int64     `cbor:"3,keyasint"` // Unix nanoseconds
}

type incarnationRecord struct {
	Incarnation uint64 `cbor:"1,keyasint"`
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

func sequenceNumber(seq uint64) string { return fmt.Sprintf("%020d", seq) }

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

// encode returns a record that is not sealed.
func encode(record any) ([]byte, error) {
	body, err := cbor.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return append(append(make([]byte, 0, len(body)+5), format), body...), nil
}

// put writes a record.
func put(w pebble.Writer, key []byte, record any, o *pebble.WriteOptions) error {
	data, err := encode(record)
	if err != nil {
		return err
	}
	return w.Set(key, pebbledb.Seal(key, data), o)
}

func decode(key, data []byte, record any) error {
	body, err := pebbledb.Unseal(format, key, data)
	if err != nil {
		return err
	}
	return cbor.Unmarshal(body, record)
}
