package log

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

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

// A Writer encodes the entries of a commit, each as soon as it is numbered, straight into the data
// of their chunk. The zero value is ready.
type Writer struct {
	full        []record.Chunk
	data        encoding.Encoder // of the chunk that takes the next entry
	first, last uint64           // its numbers
}

// Append encodes an entry. Its number is one more than that of the entry before. likely is how many
// entries like it the chunk may take, with this one; it only saves allocations.
//
// A chunk takes no further entry when it has reached [record.MaxChunk].
func (w *Writer) Append(x *record.Entry, likely int) {
	e, size := &w.data, x.Size()
	if len(e.B) == 0 {
		e.B, w.first = make([]byte, 0, min(max(likely, 1)*size, record.MaxChunk+size)), x.Number
	}
	w.last = x.Number
	e.B = appendSized(e.B, x.Principal)
	at := len(e.B)
	e.B = binary.AppendUvarint(e.B, uint64(size)) //nolint:gosec // not negative
	from := len(e.B)
	writeEntry(e, x)
	e.B = setSize(e.B, at, from)
	if len(e.B) >= record.MaxChunk {
		w.full, e.B = append(w.full, w.open()), nil
	}
}

// open returns the chunk that takes the next entry.
func (w *Writer) open() record.Chunk {
	return record.Chunk{First: w.first, Last: w.last, Data: w.data.B}
}

// setSize sets the size of a part that begins at from. It is at a position before the part, where a
// guess has taken about as many bytes.
func setSize(b []byte, at, from int) []byte {
	var memory [binary.MaxVarintLen64]byte
	size := binary.AppendUvarint(memory[:0], uint64(len(b)-from)) //nolint:gosec // not negative
	if len(size) != from-at {
		b = slices.Replace(b, at, from, size...)
	}
	copy(b[at:], size)
	return b
}

// Empty reports whether there is no entry.
func (w *Writer) Empty() bool { return w.last == 0 }

// Chunks returns the entries in chunks of the group record that is written with them.
func (w *Writer) Chunks(next *record.Group) []record.Chunk {
	chunks := slices.Clone(w.full)
	if len(w.data.B) > 0 {
		chunks = append(chunks, w.open())
	}
	for i := range chunks {
		c := &chunks[i]
		c.Group, c.Incarnation, c.Expires = next.Key, next.Incarnation, next.Log.Until
	}
	return chunks
}

// Chunks returns entries with consecutive numbers in chunks of the group record that is written
// with them.
func Chunks(next *record.Group, entries []record.Entry) []record.Chunk {
	var w Writer
	for i := range entries {
		w.Append(&entries[i], len(entries)-i)
	}
	return w.Chunks(next)
}

func appendSized[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func writeEntry(e *encoding.Encoder, x *record.Entry) {
	at := e.Object()
	textField(e, at, "kind", string(x.Kind))
	if x.Named() {
		textField(e, at, "id", x.ID)
	} else {
		var memory [128]byte
		e.Name(at, "id")
		e.TextBytes(record.AppendNumber(memory[:0], x.Source, x.Epoch, x.Sequence))
	}
	textField(e, at, "redelivery_of", x.RedeliveryOf)
	textField(e, at, "group", x.Group)
	textField(e, at, "source", x.Source)
	numberField(e, at, "epoch", x.Epoch)
	numberField(e, at, "sequence", x.Sequence)
	numberField(e, at, "from", x.From)
	numberField(e, at, "to", x.To)
	if len(x.Parents) > 0 {
		e.Name(at, "parents")
		encoding.List(e, x.Parents, func(e *encoding.Encoder, n *uint64) { e.Uint(*n) })
	}
	if x.ParentsMissing {
		e.Name(at, "parents_missing")
		e.Bool(true)
	}
	if len(x.Via) > 0 {
		e.Name(at, "via")
		encoding.WriteTexts(e, x.Via)
	}
	if x.Late {
		e.Name(at, "late")
		e.Bool(true)
	}
	var memory [32]byte
	time, _ := x.Time.AppendText(memory[:0]) // never fails
	e.Name(at, "time")
	e.TextBytes(time)
	textField(e, at, "content_type", x.ContentType)
	if len(x.Headers) > 0 {
		e.Name(at, "headers")
		encoding.Map(e, x.Headers, (*encoding.Encoder).Text)
	}
	if len(x.Body) > 0 {
		e.Name(at, "body")
		e.Bytes(x.Body)
	}
}

func textField(e *encoding.Encoder, at int, name, value string) {
	if value != "" {
		e.Name(at, name)
		e.Text(value)
	}
}

func numberField(e *encoding.Encoder, at int, name string, n uint64) {
	if n != 0 {
		e.Name(at, name)
		e.Uint(n)
	}
}

// An Encoded is one entry of a chunk: its number, its principal and its CBOR map. It shares the
// memory of the chunk.
type Encoded struct {
	Number    uint64
	Principal string
	fields    []byte
	place     uint64 // in the log, if Number is not that of the log
}

// Renumbered returns the entry with another number for readers. Its offset stays.
func (x Encoded) Renumbered(number uint64) Encoded {
	x.place, x.Number = x.offset(0).Number, number
	return x
}

// offset returns the position of the entry in a log.
func (x *Encoded) offset(incarnation uint64) Offset {
	return Offset{Incarnation: incarnation, Number: cmp.Or(x.place, x.Number)}
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
	e.TextBytes(x.offset(incarnation).Append(offset[:0]))
	if x.Principal != "" && x.Principal == reader {
		e.Name(at, "principal")
		e.Text(x.Principal)
	}
	return e.B
}

// Size returns about how many bytes AppendCBOR appends.
func (x *Encoded) Size() int { return len(x.fields) + 64 }
