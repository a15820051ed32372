package pebbledelay

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// format is the format of all records of the store.
const format byte = 1

// A key is
//
//	prefix(1) due(8) name
//
// where due is in Unix nanoseconds, with the sign bit turned, so that keys are ordered by time.
const nameAt = 1 + 8

const signBit = 1 << 63

func keyOf(k delay.Key) []byte {
	return append(timeKey(make([]byte, 0, nameAt+len(k.Name)), k.Due), k.Name...)
}

// timeKey appends the first key of a time.
func timeKey(b []byte, t time.Time) []byte {
	return binary.BigEndian.AppendUint64(append(b, pebbledb.Delays), uint64(nanos(t))^signBit) //nolint:gosec // turned back by parseKey
}

// nanos returns Unix nanoseconds, as close as they get for a time that they do not reach.
func nanos(t time.Time) int64 {
	switch y := t.Year(); {
	case y < 1679:
		return math.MinInt64
	case y > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

func parseKey(key []byte) (delay.Key, error) {
	if len(key) < nameAt || key[0] != pebbledb.Delays {
		return delay.Key{}, fmt.Errorf("key of %d bytes: %w", len(key), record.ErrCorrupt)
	}
	due := int64(binary.BigEndian.Uint64(key[1:nameAt]) ^ signBit) //nolint:gosec // turned by timeKey
	return delay.Key{Due: time.Unix(0, due).UTC(), Name: string(key[nameAt:])}, nil
}

// encode returns a sealed record. Its fields are numbered as in package encoding.
func encode(key []byte, item *delay.Item) []byte {
	m := &item.Message
	e := encoding.Encoder{B: append(make([]byte, 0, 64+m.Size()+len(m.Group)+len(m.DedupID)), format)}
	at := e.Object()
	e.TextField(at, 1, item.Queue)
	e.TextField(at, 2, m.Body)
	encoding.MapField(&e, at, 3, m.Attributes, (*encoding.Encoder).Text)
	e.TextField(at, 4, m.Group)
	e.TextField(at, 5, m.DedupID)
	e.TextField(at, 6, m.Sender)
	return pebbledb.Seal(key, e.B)
}

// decode reads a record. The error wraps [record.ErrCorrupt].
func decode(key, data []byte) (delay.Item, error) {
	var item delay.Item
	var err error
	if item.Key, err = parseKey(key); err != nil {
		return item, err
	}
	body, err := pebbledb.Unseal(format, key, data)
	if err != nil {
		return item, err
	}
	d := encoding.NewDecoder(body)
	d.Fields(func(number uint64) bool { return readField(d, number, &item) })
	return item, d.End()
}

func readField(d *encoding.Decoder, number uint64, item *delay.Item) bool {
	m := &item.Message
	switch number {
	case 1:
		item.Queue = d.Text()
	case 2:
		m.Body = d.Text()
	case 3:
		m.Attributes = encoding.MapOf(d, (*encoding.Decoder).Text)
	case 4:
		m.Group = d.Text()
	case 5:
		m.DedupID = d.Text()
	case 6:
		m.Sender = d.Text()
	default:
		return false
	}
	return true
}

// CheckRecord returns an error if a record of this package can't be read.
func CheckRecord(key, value []byte) error {
	_, err := decode(key, value)
	return err
}
