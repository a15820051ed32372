package log

import (
	"encoding/binary"
	"fmt"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// The data of a chunk is, for each entry
//
//	size(uvarint) principal size(uvarint) entry
//
// The entry is a CBOR map with the names that readers see. It lacks number, offset and principal,
// which the reader adds: numbers follow from that of the chunk, and a principal is shown only to
// itself. A map has less than 24 fields with those three, so that its first byte is its count.

// Chunks returns the entries of a commit in chunks. The entries must have consecutive numbers. A
// chunk takes no further entry when it has reached [record.MaxChunk].
func Chunks(next *record.Group, entries []record.Entry) []record.Chunk {
	var chunks []record.Chunk
	var e, one encoding.Encoder
	flush := func(last uint64) {
		c := record.Chunk{Group: next.Key, Incarnation: next.Incarnation, First: 1, Last: last, Expires: next.Log.Until, Data: e.B}
		if n := len(chunks); n > 0 {
			c.First = chunks[n-1].Last + 1
		} else if len(entries) > 0 {
			c.First = entries[0].Number
		}
		chunks, e = append(chunks, c), encoding.Encoder{}
	}
	for i := range entries {
		if len(e.B) == 0 {
			e.B = make([]byte, 0, room(entries[i:]))
		}
		one.B = one.B[:0]
		writeEntry(&one, &entries[i])
		e.B = appendSized(e.B, entries[i].Principal)
		e.B = appendSized(e.B, one.B)
		if len(e.B) >= record.MaxChunk {
			flush(entries[i].Number)
		}
	}
	if len(e.B) > 0 {
		flush(entries[len(entries)-1].Number)
	}
	return chunks
}

// room returns about how many bytes the first chunk of entries takes.
func room(entries []record.Entry) int {
	n := 0
	for i := range entries {
		if n += entries[i].Size(); n >= record.MaxChunk {
			break
		}
	}
	return n
}

func appendSized[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func writeEntry(e *encoding.Encoder, x *record.Entry) {
	at := e.Object()
	text := func(name, value string) {
		if value != "" {
			e.Name(at, name)
			e.Text(value)
		}
	}
	number := func(name string, n uint64) {
		if n != 0 {
			e.Name(at, name)
			e.Uint(n)
		}
	}
	text("kind", string(x.Kind))
	text("id", x.ID)
	text("source", x.Source)
	number("epoch", x.Epoch)
	number("sequence", x.Sequence)
	number("from", x.From)
	number("to", x.To)
	if len(x.Parents) > 0 {
		e.Name(at, "parents")
		encoding.List(e, x.Parents, func(e *encoding.Encoder, n *uint64) { e.Uint(*n) })
	}
	if x.Late {
		e.Name(at, "late")
		e.Bool(true)
	}
	text("time", x.Time.String())
	text("content_type", x.ContentType)
	if len(x.Headers) > 0 {
		e.Name(at, "headers")
		encoding.Map(e, x.Headers, (*encoding.Encoder).Text)
	}
	if len(x.Body) > 0 {
		e.Name(at, "body")
		e.Bytes(x.Body)
	}
}

// An Encoded is one entry of a chunk: its number, its principal and its CBOR map. It shares the
// memory of the chunk.
type Encoded struct {
	Number    uint64
	Principal string
	fields    []byte
}

// Split returns the entries of a chunk that are after a number. The error wraps
// [record.ErrCorrupt].
func Split(c record.Chunk, after uint64) ([]Encoded, error) {
	return appendEntries(nil, c, after, c.Last)
}

// appendEntries appends the entries of a chunk that are after a number, up to another one.
func appendEntries(out []Encoded, c record.Chunk, after, upTo uint64) ([]Encoded, error) {
	rest, last := c.Data, ""
	for number := c.First; number <= c.Last; number++ {
		if number > upTo {
			return out, nil
		}
		principal, r, ok := sized(rest)
		fields, r, ok2 := sized(r)
		if !ok || !ok2 || len(fields) == 0 || fields[0]>>5 != 5 || fields[0]&31 > 20 {
			return nil, fmt.Errorf("%w: entry %d of the log of %s", record.ErrCorrupt, number, c.Group)
		}
		if rest = r; number > after {
			if string(principal) != last {
				last = string(principal)
			}
			out = append(out, Encoded{Number: number, Principal: last, fields: fields})
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%w: the log of %s has more data than entries", record.ErrCorrupt, c.Group)
	}
	return out, nil
}

// sized cuts off a part that begins with its size.
func sized(b []byte) (part, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) { //nolint:gosec // not negative: size is a part of the length
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true //nolint:gosec // not more than the length
}

// AppendCBOR appends the entry as a CBOR map for a reader, who sees the principal if it is its own.
func (x *Encoded) AppendCBOR(b []byte, incarnation uint64, reader string) []byte {
	at := len(b)
	e := encoding.Encoder{B: append(b, x.fields...)}
	e.Name(at, "number")
	e.Uint(x.Number)
	e.Name(at, "offset")
	var offset [incarnationDigits + 1 + numberDigits + 8]byte
	e.TextBytes(Offset{Incarnation: incarnation, Number: x.Number}.Append(offset[:0]))
	if x.Principal != "" && x.Principal == reader {
		e.Name(at, "principal")
		e.Text(x.Principal)
	}
	return e.B
}

// Size returns about how many bytes AppendCBOR appends.
func (x *Encoded) Size() int { return len(x.fields) + 64 }
