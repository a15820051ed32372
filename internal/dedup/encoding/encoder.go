package encoding

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// The major types of CBOR, as the high bits of an item's first byte.
const (
	unsigned byte = iota << 5
	negative
	byteText
	text
	array
	object
	_
	simple
)

const (
	no  = simple | 20
	yes = simple | 21
)

// An Encoder appends items to B. The methods named …Field append a field of the object at a
// position; they leave out a zero value.
type Encoder struct{ B []byte }

func (e *Encoder) head(major byte, n uint64) {
	switch {
	case n < 24:
		e.B = append(e.B, major|byte(n))
	case n <= math.MaxUint8:
		e.B = append(e.B, major|24, byte(n))
	case n <= math.MaxUint16:
		e.B = binary.BigEndian.AppendUint16(append(e.B, major|25), uint16(n))
	case n <= math.MaxUint32:
		e.B = binary.BigEndian.AppendUint32(append(e.B, major|26), uint32(n))
	default:
		e.B = binary.BigEndian.AppendUint64(append(e.B, major|27), n)
	}
}

// Object begins an object of at most 23 fields and returns its position, where each field
// increments the count.
func (e *Encoder) Object() int {
	e.B = append(e.B, object)
	return len(e.B) - 1
}

// Field begins a field; the caller appends the value next.
func (e *Encoder) Field(at int, number uint64) {
	e.B[at]++
	e.head(unsigned, number)
}

// Name begins a field that has a name instead of a number; the caller appends the value next.
func (e *Encoder) Name(at int, name string) {
	e.B[at]++
	e.Text(name)
}

// Text appends a text.
func (e *Encoder) Text(s string) {
	e.head(text, uint64(len(s)))
	e.B = append(e.B, s...)
}

// TextBytes appends a text that is in a byte slice.
func (e *Encoder) TextBytes(b []byte) {
	e.head(text, uint64(len(b)))
	e.B = append(e.B, b...)
}

// TextField appends a text as a field.
func (e *Encoder) TextField(at int, number uint64, s string) {
	if s != "" {
		e.Field(at, number)
		e.Text(s)
	}
}

// Bytes appends bytes.
func (e *Encoder) Bytes(b []byte) {
	e.head(byteText, uint64(len(b)))
	e.B = append(e.B, b...)
}

// BytesField appends bytes as a field.
func (e *Encoder) BytesField(at int, number uint64, b []byte) {
	if len(b) > 0 {
		e.Field(at, number)
		e.Bytes(b)
	}
}

// UintField appends a number as a field.
func (e *Encoder) UintField(at int, number, n uint64) {
	if n != 0 {
		e.Field(at, number)
		e.head(unsigned, n)
	}
}

// Uint appends a number.
func (e *Encoder) Uint(n uint64) { e.head(unsigned, n) }

// Bool appends true or false.
func (e *Encoder) Bool(b bool) {
	if b {
		e.B = append(e.B, yes)
	} else {
		e.B = append(e.B, no)
	}
}

// Int appends a number.
func (e *Encoder) Int(n int64) {
	if n < 0 {
		e.head(negative, uint64(-1-n))
		return
	}
	e.head(unsigned, uint64(n))
}

// BoolField appends true as a field; false is left out.
func (e *Encoder) BoolField(at int, number uint64, b bool) {
	if b {
		e.Field(at, number)
		e.B = append(e.B, yes)
	}
}

// ListField appends a list; item appends one element.
func ListField[T any](e *Encoder, at int, number uint64, list []T, item func(e *Encoder, x *T)) {
	if len(list) == 0 {
		return
	}
	e.Field(at, number)
	List(e, list, item)
}

// List begins a list of n elements; the caller appends them next.
func (e *Encoder) List(n int) { e.head(array, uint64(n)) } //nolint:gosec // a length

// List appends a list; item appends one element.
func List[T any](e *Encoder, list []T, item func(e *Encoder, x *T)) {
	e.List(len(list))
	for i := range list {
		item(e, &list[i])
	}
}

// Map appends a map in deterministic order: shorter names first.
func Map[T any](e *Encoder, m map[string]T, item func(e *Encoder, x T)) {
	e.head(object, uint64(len(m)))
	var few [16]string
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		e.Text(name)
		item(e, m[name])
	}
}
