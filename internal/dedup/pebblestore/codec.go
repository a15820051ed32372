package pebblestore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// A stored record is
//
//	format(1) expires(8) body checksum(4)
//
// The expiry is in microseconds of Unix time, 0 for never; a sweep can read it without decoding the
// record. The body of a group begins with incarnation(8) version(8), which conditions compare; the
// rest is one CBOR object. The checksum is CRC-32C of the key and everything before the checksum,
// so a record under the wrong key is detected too.
//
// A change of the meaning of a record needs a new format number. For that reason a field that this
// program does not know is corruption: the next commit would drop it.
const (
	format byte = 1

	headerSize   = 9
	identitySize = 16
	checksumSize = 4
)

// A checked value is a stored value with a valid checksum. It shares the value's memory.
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

// expired reports whether a record with that expiry reads as absent.
func expired(at int64, now time.Time) bool { return at != 0 && !encoding.FromMicros(at).After(now) }

// identity returns a group's incarnation and version.
func (r checked) identity() (incarnation, version uint64, err error) {
	if len(r.body) < identitySize {
		return 0, 0, fmt.Errorf("%w: a group of %d bytes", record.ErrCorrupt, len(r.body))
	}
	incarnation, version = binary.BigEndian.Uint64(r.body), binary.BigEndian.Uint64(r.body[8:])
	if version == 0 { // version 0 would read as a missing record
		return 0, 0, fmt.Errorf("%w: a group of version 0", record.ErrCorrupt)
	}
	return incarnation, version, nil
}

// buffers is a pool of memory for encoding records. A batch copies the records, so a buffer can be
// reused.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{pool: sync.Pool{New: func() any { return &encoding.Encoder{B: make([]byte, 0, 1<<10)} }}}
}

// largest is the capacity above which a buffer is not put back into the pool.
const largest = 64 << 10

// put writes a record into a batch; write appends its content.
func (p *buffers) put(batch *pebble.Batch, key []byte, write func(e *encoding.Encoder)) error {
	e := p.pool.Get().(*encoding.Encoder)
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
func begin(e *encoding.Encoder, expires time.Time) {
	e.B = append(e.B, format)
	e.B = binary.BigEndian.AppendUint64(e.B, uint64(encoding.Micros(expires))) //nolint:gosec // read back as an int64
}

// seal ends a record.
func seal(key, content []byte) []byte {
	return binary.BigEndian.AppendUint32(content, checksum(key, content))
}

func encodeGroup(e *encoding.Encoder, g *record.Group) {
	begin(e, g.Expires)
	e.B = binary.BigEndian.AppendUint64(e.B, g.Incarnation)
	e.B = binary.BigEndian.AppendUint64(e.B, g.Version)
	writeGroup(e, g)
}

func encodeHeld(e *encoding.Encoder, h *record.Held) {
	begin(e, time.Time{})
	encoding.WriteHeld(e, h)
}

func encodeToken(e *encoding.Encoder, t *record.Token) {
	begin(e, t.Expires)
	writeToken(e, t)
}

func decodeGroup(r checked, key record.GroupKey) (record.Group, error) {
	g := record.Group{Key: key, Expires: encoding.FromMicros(r.expires)}
	var err error
	if g.Incarnation, g.Version, err = r.identity(); err != nil {
		return record.Group{Key: key}, err
	}
	d := encoding.NewDecoder(r.body[identitySize:])
	readGroup(d, &g)
	return g, d.End()
}

func decodeHeld(r checked) (record.Held, error) {
	var h record.Held
	d := encoding.NewDecoder(r.body)
	encoding.ReadHeld(d, &h)
	return h, d.End()
}

func decodeToken(r checked, key record.TokenKey) (record.Token, error) {
	t := record.Token{Key: key, Expires: encoding.FromMicros(r.expires)}
	d := encoding.NewDecoder(r.body)
	readToken(d, &t)
	return t, d.End()
}
