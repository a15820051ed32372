package pebbledelay

import (
	"encoding/binary"
	"fmt"

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
// where due is the [delay.Ordinal] of the time.
const nameAt = 1 + 8

func keyOf(k delay.Key) []byte {
	return append(timeKey(make([]byte, 0, nameAt+len(k.Name)), delay.Ordinal(k.Due)), k.Name...)
}

// timeKey appends the first key of a time.
func timeKey(b []byte, due uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, pebbledb.Delays), due)
}

func parseKey(key []byte) (delay.Key, error) {
	if len(key) < nameAt || key[0] != pebbledb.Delays {
		return delay.Key{}, fmt.Errorf("key of %d bytes: %w", len(key), record.ErrCorrupt)
	}
	return delay.Key{Due: delay.OfOrdinal(binary.BigEndian.Uint64(key[1:nameAt])), Name: string(key[nameAt:])}, nil
}

// encode returns a sealed record.
func encode(key []byte, item *delay.Item) []byte {
	m := &item.Message
	b := append(make([]byte, 0, 64+m.Size()+len(m.Group)+len(m.DedupID)), format)
	return pebbledb.Seal(key, item.AppendContent(b))
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
	return item, item.ReadContent(body)
}

// CheckRecord returns an error if a record of this package can't be read.
func CheckRecord(key, value []byte) error {
	_, err := decode(key, value)
	return err
}
