package pebblestore

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// The keys. Each name ends with a zero byte, because names hold no control characters but the 0x1f
// in a source:
//
//	group  g stream 0 group
//	held   h stream 0 group 0 source 0 epoch(8) number(8)
//	chunk  c stream 0 group 0 incarnation(8) number(8)
//	token  t hash(32)
//
// Numbers are big-endian, so that keys sort by number. The number of a chunk is that of its last
// entry: the first key that is not before a number is the chunk with the entry of that number, so a
// reader finds it by one seek and reads forward.

// fewKeys is how many keys most calls have at most. Their places need no memory of the heap.
const fewKeys = 2

// A keyMemory encodes keys. The first ones share its own memory, so that a call with a few short
// keys needs no memory of the heap.
type keyMemory struct {
	own  [160]byte
	used int
}

// group returns the key of a group.
func (m *keyMemory) group(k record.GroupKey) []byte {
	return m.keep(appendGroup(m.free(), pebbledb.Groups, k))
}

// token returns the key of a token.
func (m *keyMemory) token(k record.TokenKey) []byte {
	return m.keep(append(append(m.free(), pebbledb.Tokens), k[:]...))
}

func (m *keyMemory) free() []byte { return m.own[m.used:m.used] }

// keep keeps the memory of a key that begins where free does, unless it did not fit.
func (m *keyMemory) keep(key []byte) []byte {
	if m.used+len(key) <= len(m.own) {
		m.used += len(key)
	}
	return slices.Clip(key)
}

func groupKey(k record.GroupKey) []byte {
	return appendGroup(make([]byte, 0, 2+len(k.Stream)+len(k.Group)), pebbledb.Groups, k)
}

func appendGroup(b []byte, prefix byte, k record.GroupKey) []byte {
	b = append(b, prefix)
	b = append(b, k.Stream...)
	b = append(b, 0)
	return append(b, k.Group...)
}

// parseGroupKey parses a group's key.
func parseGroupKey(key []byte) (record.GroupKey, bool) {
	stream, group, ok := bytes.Cut(key[1:], []byte{0})
	return record.GroupKey{Stream: string(stream), Group: string(group)}, ok
}

// streamBounds returns the range of keys of a stream's groups: from its zero byte to the next byte.
func streamBounds(stream string) bounds {
	lower := groupKey(record.GroupKey{Stream: stream})
	upper := bytes.Clone(lower)
	upper[len(upper)-1]++
	return bounds{lower: lower, upper: upper}
}

func heldKey(k record.HeldKey) []byte {
	b := make([]byte, 0, 19+len(k.Group.Stream)+len(k.Group.Group)+len(k.Source))
	b = appendGroup(b, pebbledb.Helds, k.Group)
	b = append(b, 0)
	b = append(b, k.Source...)
	b = append(b, 0)
	b = binary.BigEndian.AppendUint64(b, k.Epoch)
	return binary.BigEndian.AppendUint64(b, k.Sequence)
}

// heldBounds returns the range of keys of a source and epoch from a number on. The upper bound is
// exclusive, so it is the last number's key plus a byte.
func heldBounds(from record.HeldKey) bounds {
	last := from
	last.Sequence = math.MaxUint64
	return bounds{lower: heldKey(from), upper: append(heldKey(last), 0)}
}

// sequenceOf returns the number in a held message's key.
func sequenceOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

func chunkKey(group record.GroupKey, incarnation, last uint64) []byte {
	b := make([]byte, 0, 20+len(group.Stream)+len(group.Group))
	b = append(appendGroup(b, pebbledb.Chunks, group), 0)
	b = binary.BigEndian.AppendUint64(b, incarnation)
	return binary.BigEndian.AppendUint64(b, last)
}

// chunkNumbers returns the incarnation and the last number in a chunk's key.
func chunkNumbers(key []byte) (incarnation, last uint64) {
	n := len(key)
	return binary.BigEndian.Uint64(key[n-16:]), binary.BigEndian.Uint64(key[n-8:])
}

// chunkBounds returns the range of keys of the chunks of a range, which is not empty.
func chunkBounds(r record.LogRange) bounds {
	return bounds{lower: chunkKey(r.Group, r.Incarnation, r.After+1), upper: append(chunkKey(r.Group, r.Incarnation, r.Last), 0)}
}

// keyOf returns the key of a held message.
func keyOf(m *record.Message) record.HeldKey {
	return record.HeldKey{Group: m.GroupKey(), Source: m.SourceKey(), Epoch: m.Epoch, Sequence: m.Sequence}
}

func tokenKey(k record.TokenKey) []byte {
	return append([]byte{pebbledb.Tokens}, k[:]...)
}

// parseTokenKey parses a token's key.
func parseTokenKey(key []byte) (record.TokenKey, bool) {
	var k record.TokenKey
	if len(key) != 1+len(k) {
		return k, false
	}
	return record.TokenKey(key[1:]), true
}
