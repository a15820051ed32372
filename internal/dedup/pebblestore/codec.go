package pebblestore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/fxamacker/cbor/v2"
)

// A stored record is
//
//	format(1) expires(8) body checksum(4)
//
// with the expiry in microseconds of Unix time, 0 for never, where sweeps find it without decoding. The body of a group begins with incarnation(8)
// version(8), which conditions are on; all else is CBOR. The checksum is CRC-32C of the key and of everything before it, so a record under the wrong key is
// found out too.
//
// Whatever changes the meaning of a record changes the format. That is why a field that this program does not know is corruption: to ignore it would be
// to drop it with the next commit.
const (
	format       byte = 1
	headerSize        = 9
	identitySize      = 16
	checksumSize      = 4
)

// A codec encodes and decodes records.
type codec struct {
	enc     cbor.UserBufferEncMode
	dec     cbor.DecMode
	buffers sync.Pool
}

func newCodec() *codec {
	encOptions := cbor.CoreDetEncOptions()
	encOptions.TagsMd = cbor.TagsForbidden
	enc, encErr := encOptions.UserBufferEncMode()
	dec, decErr := cbor.DecOptions{
		DupMapKey:   cbor.DupMapKeyEnforcedAPF,
		IndefLength: cbor.IndefLengthForbidden,
		TagsMd:      cbor.TagsForbidden,
		// What a handler put into a header need not be UTF-8.
		UTF8:              cbor.UTF8DecodeInvalid,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		// What could be written must be readable; the checksum keeps absurd sizes out.
		MaxArrayElements: math.MaxInt32,
		MaxMapPairs:      math.MaxInt32,
	}.DecMode()
	if encErr != nil || decErr != nil {
		panic(fmt.Sprint("options of the record codec: ", encErr, decErr))
	}
	return &codec{enc: enc, dec: dec, buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }}}
}

// A record is a stored value whose checksum is right. It shares the value's memory.
type record struct {
	expires int64
	body    []byte
}

// open checks a stored value.
func open(key, value []byte) (record, error) {
	if len(value) < headerSize+checksumSize {
		return record{}, fmt.Errorf("%w: %d bytes are too few", dedup.ErrCorrupt, len(value))
	}
	if value[0] != format {
		return record{}, fmt.Errorf("%w: format %d, where this program knows %d", dedup.ErrCorrupt, value[0], format)
	}
	end := len(value) - checksumSize
	if checksum(key, value[:end]) != binary.BigEndian.Uint32(value[end:]) {
		return record{}, fmt.Errorf("%w: wrong checksum", dedup.ErrCorrupt)
	}
	return record{expires: int64(binary.BigEndian.Uint64(value[1:])), body: value[headerSize:end]}, nil
}

// peek reads the expiry of a stored value without checking it.
func peek(value []byte) (record, bool) {
	if len(value) < headerSize || value[0] != format {
		return record{}, false
	}
	return record{expires: int64(binary.BigEndian.Uint64(value[1:]))}, true
}

func checksum(key, content []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(key, table), table, content)
}

// expired tells whether a record with that expiry reads as absent.
func expired(at int64, now time.Time) bool { return at != 0 && !fromMicros(at).After(now) }

// identity gives a group's incarnation and version.
func (r record) identity() (incarnation, version uint64, err error) {
	if len(r.body) < identitySize {
		return 0, 0, fmt.Errorf("%w: a group of %d bytes", dedup.ErrCorrupt, len(r.body))
	}
	return binary.BigEndian.Uint64(r.body), binary.BigEndian.Uint64(r.body[8:]), nil
}

// micros is a time as it is stored.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// put writes a record: its head as it is, the rest as CBOR.
func (c *codec) put(batch *pebble.Batch, key []byte, expires time.Time, head []byte, rest any) error {
	buffer := c.buffers.Get().(*bytes.Buffer)
	defer c.buffers.Put(buffer)
	buffer.Reset()
	var start [headerSize]byte
	start[0] = format
	binary.BigEndian.PutUint64(start[1:], uint64(micros(expires)))
	buffer.Write(start[:])
	buffer.Write(head)
	if err := c.enc.MarshalToBuffer(rest, buffer); err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	var end [checksumSize]byte
	binary.BigEndian.PutUint32(end[:], checksum(key, buffer.Bytes()))
	buffer.Write(end[:])
	return batch.Set(key, buffer.Bytes(), nil)
}

func (c *codec) putGroup(batch *pebble.Batch, key []byte, g *dedup.Group) error {
	var head [identitySize]byte
	binary.BigEndian.PutUint64(head[:], g.Incarnation)
	binary.BigEndian.PutUint64(head[8:], g.Version)
	return c.put(batch, key, g.Expires, head[:], toGroup(g))
}

func (c *codec) putHeld(batch *pebble.Batch, key []byte, h *dedup.Held) error {
	return c.put(batch, key, time.Time{}, nil, toHeld(h))
}

func (c *codec) putToken(batch *pebble.Batch, key []byte, t *dedup.Token) error {
	return c.put(batch, key, t.Expires, nil, toToken(t))
}

// group decodes into g, which has its key.
func (c *codec) group(r record, g *dedup.Group) error {
	incarnation, version, err := r.identity()
	if err != nil {
		return err
	}
	var stored groupRecord
	if err := c.decode(r.body[identitySize:], &stored); err != nil {
		return err
	}
	decoded, err := stored.group()
	if err != nil {
		return err
	}
	decoded.Key, decoded.Incarnation, decoded.Version, decoded.Expires = g.Key, incarnation, version, fromMicros(r.expires)
	*g = decoded
	return nil
}

// held decodes a stored value.
func (c *codec) held(key, value []byte) (dedup.Held, error) {
	r, err := open(key, value)
	if err != nil {
		return dedup.Held{}, err
	}
	var stored heldRecord
	if err := c.decode(r.body, &stored); err != nil {
		return dedup.Held{}, err
	}
	return stored.held(), nil
}

// token decodes into t, which has its key.
func (c *codec) token(r record, t *dedup.Token) error {
	var stored tokenRecord
	if err := c.decode(r.body, &stored); err != nil {
		return err
	}
	decoded, err := stored.token()
	if err != nil {
		return err
	}
	decoded.Key, decoded.Expires = t.Key, fromMicros(r.expires)
	*t = decoded
	return nil
}

func (c *codec) decode(body []byte, into any) error {
	if err := c.dec.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: %w", dedup.ErrCorrupt, err)
	}
	return nil
}
