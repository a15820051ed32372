package client

import (
	"bytes"
	"encoding/binary"

	"github.com/effectively-once/once/clock"
)

// The entries of a log are CBOR maps (RFC 8949) of a known shape. This is a decoder of that shape,
// so that the package needs no other. It skips fields that it does not know.

// The major types of CBOR.
const (
	cborUnsigned = 0
	cborBytes    = 2
	cborText     = 3
	cborArray    = 4
	cborMap      = 5
	cborTag      = 6
	cborSimple   = 7
)

// maxNesting bounds the nesting of values that are skipped.
const maxNesting = 16

// readEntries reads a sequence of entries. ok is false if it is not whole.
func readEntries(b []byte) (list []Entry, ok bool) {
	var last Entry
	for len(b) > 0 {
		e, rest, ok := readEntry(b, &last)
		if !ok {
			return nil, false
		}
		if list == nil {
			list = make([]Entry, 0, min(len(b)/(len(b)-len(rest))+1, 1000)) // if all are about as long as the first one
		}
		list, last, b = append(list, e), e, rest
	}
	return list, true
}

// readEntry reads one entry and returns what follows it. It shares texts with the entry before.
func readEntry(b []byte, before *Entry) (e Entry, rest []byte, ok bool) {
	d := cborReader{b: b, before: before}
	for range d.count(cborMap) {
		d.field(&e)
		if d.bad {
			break
		}
	}
	return e, d.b, !d.bad && e.Number > 0 && (e.Offset != "" || e.Kind == "end")
}

// A cborReader reads items. After a mistake it is bad, and returns zero values.
type cborReader struct {
	b      []byte
	bad    bool
	before *Entry
}

func (d *cborReader) field(e *Entry) {
	switch name := d.take(cborText); string(name) {
	case "number":
		e.Number = d.head(cborUnsigned)
	case "offset":
		e.Offset = d.text()
	case "group":
		e.Group = d.textLike(d.before.Group)
	case "kind":
		e.Kind = d.textLike(d.before.Kind)
	case "id":
		e.ID = d.text()
	case "redelivery_of":
		e.RedeliveryOf = d.text()
	case "principal":
		e.Principal = d.textLike(d.before.Principal)
	case "source":
		e.Source = d.textLike(d.before.Source)
	case "epoch":
		e.Epoch = d.head(cborUnsigned)
	case "sequence":
		e.Sequence = d.head(cborUnsigned)
	case "from":
		e.From = d.head(cborUnsigned)
	case "to":
		e.To = d.head(cborUnsigned)
	case "parents":
		for range d.count(cborArray) {
			e.Parents = append(e.Parents, d.head(cborUnsigned))
		}
	case "parents_missing":
		e.ParentsMissing = d.truth()
	case "via":
		for range d.count(cborArray) {
			e.Via = append(e.Via, d.text())
		}
	case "late":
		e.Late = d.truth()
	case "time":
		var err error
		e.Time, err = clock.ParseHybrid(string(d.take(cborText)))
		d.bad = d.bad || err != nil
	case "content_type":
		e.ContentType = d.textLike(d.before.ContentType)
	case "headers":
		d.headers(e)
	case "body":
		e.Body = bytes.Clone(d.take(cborBytes))
	default:
		d.skip(maxNesting)
	}
}

func (d *cborReader) headers(e *Entry) {
	n := d.count(cborMap)
	e.Headers = make(map[string]string, n)
	for range n {
		name := d.text()
		e.Headers[name] = d.text()
	}
}

func (d *cborReader) fail() uint64 {
	d.b, d.bad = nil, true
	return 0
}

// peek returns the major type of the next item.
func (d *cborReader) peek() int {
	if len(d.b) == 0 {
		d.fail()
		return -1
	}
	return int(d.b[0] >> 5)
}

// head reads the head of an item of a major type. Items of indefinite length are refused.
func (d *cborReader) head(major int) uint64 {
	if d.peek() != major || d.bad {
		return d.fail()
	}
	short := d.b[0] & 31
	d.b = d.b[1:]
	if short < 24 {
		return uint64(short)
	}
	if short > 27 || len(d.b) < 1<<(short-24) {
		return d.fail()
	}
	size := 1 << (short - 24)
	var n [8]byte
	copy(n[8-size:], d.b[:size])
	d.b = d.b[size:]
	return binary.BigEndian.Uint64(n[:])
}

// count reads the head of a list or map. Each part takes at least a byte.
func (d *cborReader) count(major int) int {
	n := d.head(major)
	if n > uint64(len(d.b)) {
		return int(d.fail()) //nolint:gosec // 0
	}
	return int(n) //nolint:gosec // at most the length of a slice
}

func (d *cborReader) take(major int) []byte {
	n := d.count(major)
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *cborReader) text() string { return string(d.take(cborText)) }

// textLike reads a text that is probably the same as another one, and then shares its memory.
func (d *cborReader) textLike(other string) string {
	if b := d.take(cborText); string(b) != other {
		return string(b)
	}
	return other
}

func (d *cborReader) truth() bool {
	n := d.head(cborSimple)
	if n != 20 && n != 21 {
		d.fail()
	}
	return n == 21
}

// skip reads any item.
func (d *cborReader) skip(nesting int) {
	if nesting == 0 {
		d.fail()
		return
	}
	switch major := d.peek(); major {
	case cborBytes, cborText:
		d.take(major)
	case cborArray:
		for range d.count(major) {
			d.skip(nesting - 1)
		}
	case cborMap:
		for range d.count(major) {
			d.skip(nesting - 1)
			d.skip(nesting - 1)
		}
	case cborTag:
		d.head(major)
		d.skip(nesting - 1)
	default: // numbers and simple values
		d.head(major)
	}
}
