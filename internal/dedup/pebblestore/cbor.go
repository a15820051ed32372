package pebblestore

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Records are CBOR (RFC 8949, core deterministic encoding), read and written by hand: decoding and encoding by reflection cost as much processor
// time as all the rest of a load and a commit. Tests read what is written here with a CBOR library.

// The major types of CBOR, where they stand in an item's first byte.
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

// An encoder appends items. Those with a field number are fields of the object whose position they name; a field that is zero is left out.
type encoder struct{ b []byte }

func (e *encoder) head(major byte, n uint64) {
	switch {
	case n < 24:
		e.b = append(e.b, major|byte(n))
	case n <= math.MaxUint8:
		e.b = append(e.b, major|24, byte(n))
	case n <= math.MaxUint16:
		e.b = binary.BigEndian.AppendUint16(append(e.b, major|25), uint16(n))
	case n <= math.MaxUint32:
		e.b = binary.BigEndian.AppendUint32(append(e.b, major|26), uint32(n))
	default:
		e.b = binary.BigEndian.AppendUint64(append(e.b, major|27), n)
	}
}

// object begins an object of at most 23 fields and gives its position; each field counts itself there.
func (e *encoder) object() int {
	e.b = append(e.b, object)
	return len(e.b) - 1
}

func (e *encoder) field(at int, number uint64) {
	e.b[at]++
	e.head(unsigned, number)
}

func (e *encoder) text(s string) {
	e.head(text, uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) textField(at int, number uint64, s string) {
	if s != "" {
		e.field(at, number)
		e.text(s)
	}
}

func (e *encoder) bytesField(at int, number uint64, b []byte) {
	if len(b) > 0 {
		e.field(at, number)
		e.head(byteText, uint64(len(b)))
		e.b = append(e.b, b...)
	}
}

// hashField leaves out a hash of zeros.
func (e *encoder) hashField(at int, number uint64, hash *[32]byte) {
	if *hash != [32]byte{} {
		e.bytesField(at, number, hash[:])
	}
}

func (e *encoder) uintField(at int, number, n uint64) {
	if n != 0 {
		e.field(at, number)
		e.head(unsigned, n)
	}
}

func (e *encoder) intField(at int, number uint64, n int64) {
	if n != 0 {
		e.field(at, number)
		e.int(n)
	}
}

func (e *encoder) int(n int64) {
	if n < 0 {
		e.head(negative, uint64(-1-n))
		return
	}
	e.head(unsigned, uint64(n))
}

func (e *encoder) boolField(at int, number uint64, b bool) {
	if b {
		e.field(at, number)
		e.b = append(e.b, yes)
	}
}

// listField appends a list; item appends one element.
func listField[T any](e *encoder, at int, number uint64, list []T, item func(e *encoder, x *T)) {
	if len(list) == 0 {
		return
	}
	e.field(at, number)
	e.head(array, uint64(len(list)))
	for i := range list {
		item(e, &list[i])
	}
}

// mapField appends a map in the order that makes it deterministic: shorter names first.
func mapField[T any](e *encoder, at int, number uint64, m map[string]T, item func(e *encoder, x T)) {
	if len(m) == 0 {
		return
	}
	e.field(at, number)
	e.head(object, uint64(len(m)))
	var few [16]string
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		e.text(name)
		item(e, m[name])
	}
}

// A decoder reads items. The first error stays; what is read after it is zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", record.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	d.b = nil
}

// end gives the error of the whole record; bytes that are left over are one.
func (d *decoder) end() error {
	if len(d.b) > 0 {
		d.fail("%d bytes too many", len(d.b))
	}
	return d.err
}

// head reads the head of an item of a major type.
func (d *decoder) head(major byte) uint64 {
	if len(d.b) == 0 || d.b[0]&0xe0 != major {
		d.fail("not of type %d, with %d bytes left", major>>5, len(d.b))
		return 0
	}
	short := d.b[0] & 0x1f
	if short < 24 {
		d.b = d.b[1:]
		return uint64(short)
	}
	size := 1 << (short - 24)
	if short > 27 || len(d.b) < 1+size {
		d.fail("a number that ends early")
		return 0
	}
	n := uint64(0)
	for _, x := range d.b[1 : 1+size] {
		n = n<<8 | uint64(x)
	}
	d.b = d.b[1+size:]
	return n
}

// count reads the head of something whose parts take a byte each at least.
func (d *decoder) count(major byte) int {
	n := d.head(major)
	if n > uint64(len(d.b)) {
		d.fail("%d parts in %d bytes", n, len(d.b))
		return 0
	}
	return int(n) //nolint:gosec // at most the length of a slice
}

func (d *decoder) take(major byte) []byte {
	n := d.count(major)
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) text() string    { return string(d.take(text)) }
func (d *decoder) uint() uint64    { return d.head(unsigned) }
func (d *decoder) bytes() []byte   { return append([]byte(nil), d.take(byteText)...) }
func (d *decoder) time() time.Time { return fromMicros(d.int()) }

func (d *decoder) int() int64 {
	major := unsigned
	if len(d.b) > 0 && d.b[0]&0xe0 == negative {
		major = negative
	}
	n := d.head(major)
	if n > math.MaxInt64 {
		d.fail("a number that is too large")
		return 0
	}
	if major == negative {
		return -1 - int64(n)
	}
	return int64(n)
}

func (d *decoder) bool() bool {
	if len(d.b) == 0 || d.b[0] != yes && d.b[0] != no {
		d.fail("not a yes or no")
		return false
	}
	b := d.b[0] == yes
	d.b = d.b[1:]
	return b
}

func (d *decoder) hash(into *[32]byte) {
	b := d.take(byteText)
	if d.err == nil && len(b) != len(into) {
		d.fail("a hash of %d bytes", len(b))
		return
	}
	copy(into[:], b)
}

// fields reads an object; field reads one, and reports whether it knows the number.
func (d *decoder) fields(field func(number uint64) bool) {
	next := uint64(0)
	for range d.count(object) {
		number := d.uint()
		if d.err == nil && (number < next || !field(number)) {
			d.fail("field %d is not known, or out of order", number)
		}
		if d.err != nil {
			return
		}
		next = number + 1
	}
}

// listOf reads a list.
func listOf[T any](d *decoder, item func(d *decoder, into *T)) []T {
	n := d.count(array)
	if n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		if item(d, &list[i]); d.err != nil {
			return nil
		}
	}
	return list
}

// mapOf reads a map.
func mapOf[T any](d *decoder, item func(d *decoder) T) map[string]T {
	n := d.count(object)
	if n == 0 {
		return nil
	}
	m := make(map[string]T, n)
	for range n {
		name := d.text()
		m[name] = item(d)
		if d.err != nil {
			return nil
		}
	}
	if len(m) != n {
		d.fail("a name is there twice")
	}
	return m
}

// pair reads the head of a list of two.
func (d *decoder) pair() {
	if n := d.count(array); n != 2 && d.err == nil {
		d.fail("%d parts, where two belong", n)
	}
}
