package pebblestore

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// A stored record is sealed by package pebbledb. Before the seal, it is
//
//	format(1) expires(8) body
//
// The expiry is in microseconds of Unix time, 0 for never; a sweep can read it without decoding the
// record. The body of a group begins with incarnation(8) version(8), which conditions compare; the
// rest is one CBOR object.
//
// A change of the meaning of a record needs a new format number. For that reason a field that this
// program does not know is corruption: the next commit would drop it.
const (
	format byte = 1

	headerSize   = 9
	identitySize = 16
)

// A checked value is a stored value with a valid checksum. It shares the value's memory.
type checked struct {
	expires int64
	body    []byte
}

// open checks a stored value.
func open(key, value []byte) (checked, error) {
	content, err := pebbledb.Unseal(format, key, value)
	if err == nil && len(content) < headerSize-1 {
		err = fmt.Errorf("%w: %d bytes are too few", record.ErrCorrupt, len(value))
	}
	if err != nil {
		return checked{}, err
	}
	return checked{expires: expiry(value), body: content[headerSize-1:]}, nil
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
	return batch.Set(key, pebbledb.Seal(key, e.B), nil)
}

// begin starts a record.
func begin(e *encoding.Encoder, expires time.Time) {
	e.B = append(e.B, format)
	e.B = binary.BigEndian.AppendUint64(e.B, uint64(encoding.Micros(expires))) //nolint:gosec // read back as an int64
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

func encodeChunk(e *encoding.Encoder, c *record.Chunk) {
	begin(e, c.Expires)
	writeChunk(e, c)
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

// decodeChunk decodes a chunk; key is its database key.
func decodeChunk(r checked, group record.GroupKey, key []byte) (record.Chunk, error) {
	c := record.Chunk{Group: group, Expires: encoding.FromMicros(r.expires)}
	c.Incarnation, c.Last = chunkNumbers(key)
	d := encoding.NewDecoder(r.body)
	readChunk(d, &c)
	return c, d.End()
}

func decodeToken(r checked, key record.TokenKey) (record.Token, error) {
	t := record.Token{Key: key, Expires: encoding.FromMicros(r.expires)}
	d := encoding.NewDecoder(r.body)
	readToken(d, &t)
	return t, d.End()
}
