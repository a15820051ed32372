package pebblestore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/stored"
)

// A stored record is
//
//	format(1) expires(8) body checksum(4)
//
// with the expiry in microseconds of Unix time, 0 for never, where sweeps find it without decoding. The body of a group begins with incarnation(8)
// version(8), which conditions are on; all else is one object in CBOR. The checksum is CRC-32C of the key and of everything before it, so a record under the wrong key is
// found out too.
//
// Whatever changes the meaning of a record changes the format. That is why a field that this program does not know is corruption: to ignore it would be
// to drop it with the next commit.
const (
	format byte = 1

	headerSize   = 9
	identitySize = 16
	checksumSize = 4
)

// A checked value is a stored one whose checksum is right. It shares the value's memory.
type checked struct {
	expires int64
	body    []byte
}

// open checks a stored value.
func open(key, value []byte) (checked, error) {
	if len(value) < headerSize+checksumSize {
		return checked{}, fmt.Errorf("%w: %d bytes are too few", record.ErrCorrupt, len(value))
	}
	if value[0] != format {
		return checked{}, fmt.Errorf("%w: format %d, where this program knows %d", record.ErrCorrupt, value[0], format)
	}
	end := len(value) - checksumSize
	if checksum(key, value[:end]) != binary.BigEndian.Uint32(value[end:]) {
		return checked{}, fmt.Errorf("%w: wrong checksum", record.ErrCorrupt)
	}
	return checked{expires: expiry(value), body: value[headerSize:end]}, nil
}

// peek reads the expiry of a stored value without checking it.
func peek(value []byte) (checked, bool) {
	if len(value) < headerSize || value[0] != format {
		return checked{}, false
	}
	return checked{expires: expiry(value)}, true
}

func expiry(value []byte) int64 {
	return int64(binary.BigEndian.Uint64(value[1:])) //nolint:gosec // written from an int64
}

func checksum(key, content []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(key, table), table, content)
}

// expired tells whether a record with that expiry reads as absent.
func expired(at int64, now time.Time) bool { return at != 0 && !stored.FromMicros(at).After(now) }

// identity gives a group's incarnation and version.
func (r checked) identity() (incarnation, version uint64, err error) {
	if len(r.body) < identitySize {
		return 0, 0, fmt.Errorf("%w: a group of %d bytes", record.ErrCorrupt, len(r.body))
	}
	incarnation, version = binary.BigEndian.Uint64(r.body), binary.BigEndian.Uint64(r.body[8:])
	if version == 0 { // a record that is there must not read as one that is not
		return 0, 0, fmt.Errorf("%w: a group of version 0", record.ErrCorrupt)
	}
	return incarnation, version, nil
}

// buffers keep the memory that records are encoded in; a batch copies what is put into it.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{pool: sync.Pool{New: func() any { return &stored.Encoder{B: make([]byte, 0, 1<<10)} }}}
}

// largest is the capacity of a buffer above which it is not kept.
const largest = 64 << 10

// put writes a record into a batch; write appends it.
func (p *buffers) put(batch *pebble.Batch, key []byte, write func(e *stored.Encoder)) error {
	e := p.pool.Get().(*stored.Encoder)
	defer func() {
		if cap(e.B) <= largest {
			p.pool.Put(e)
		}
	}()
	e.B = e.B[:0]
	write(e)
	return batch.Set(key, seal(key, e.B), nil)
}

// begin starts a record.
func begin(e *stored.Encoder, expires time.Time) {
	e.B = append(e.B, format)
	e.B = binary.BigEndian.AppendUint64(e.B, uint64(stored.Micros(expires))) //nolint:gosec // read back as an int64
}

// seal ends a record.
func seal(key, content []byte) []byte {
	return binary.BigEndian.AppendUint32(content, checksum(key, content))
}

func encodeGroup(e *stored.Encoder, g *record.Group) {
	begin(e, g.Expires)
	e.B = binary.BigEndian.AppendUint64(e.B, g.Incarnation)
	e.B = binary.BigEndian.AppendUint64(e.B, g.Version)
	writeGroup(e, g)
}

func encodeHeld(e *stored.Encoder, h *record.Held) {
	begin(e, time.Time{})
	stored.WriteHeld(e, h)
}

func encodeToken(e *stored.Encoder, t *record.Token) {
	begin(e, t.Expires)
	writeToken(e, t)
}

func decodeGroup(r checked, key record.GroupKey) (record.Group, error) {
	g := record.Group{Key: key, Expires: stored.FromMicros(r.expires)}
	var err error
	if g.Incarnation, g.Version, err = r.identity(); err != nil {
		return record.Group{Key: key}, err
	}
	d := stored.NewDecoder(r.body[identitySize:])
	readGroup(d, &g)
	return g, d.End()
}

func decodeHeld(r checked) (record.Held, error) {
	var h record.Held
	d := stored.NewDecoder(r.body)
	stored.ReadHeld(d, &h)
	return h, d.End()
}

func decodeToken(r checked, key record.TokenKey) (record.Token, error) {
	t := record.Token{Key: key, Expires: stored.FromMicros(r.expires)}
	d := stored.NewDecoder(r.body)
	readToken(d, &t)
	return t, d.End()
}
