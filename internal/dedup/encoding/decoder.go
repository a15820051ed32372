package encoding

import (
	"fmt"
	"math"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A Decoder reads items. It keeps the first error; every read after it returns zero.
type Decoder struct {
	b   []byte
	err error
}

// NewDecoder returns a decoder of b. Its results share no memory with b.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Fail records an error in the record; the error wraps [record.ErrCorrupt].
func (d *Decoder) Fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", record.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	d.b = nil
}

// End returns the error of the whole record. Bytes left over are an error.
func (d *Decoder) End() error {
	if len(d.b) > 0 {
		d.Fail("%d bytes too many", len(d.b))
	}
	return d.err
}

// head reads the head of an item, which must have the given major type.
func (d *Decoder) head(major byte) uint64 {
	if len(d.b) == 0 || d.b[0]&0xe0 != major {
		d.Fail("not of type %d, with %d bytes left", major>>5, len(d.b))
		return 0
	}
	short := d.b[0] & 0x1f
	if short < 24 {
		d.b = d.b[1:]
		return uint64(short)
	}
	size := 1 << (short - 24)
	if short > 27 || len(d.b) < 1+size {
		d.Fail("a number that ends early")
		return 0
	}
	n := uint64(0)
	for _, x := range d.b[1 : 1+size] {
		n = n<<8 | uint64(x)
	}
	d.b = d.b[1+size:]
	return n
}

// count reads the head of an item whose parts take at least one byte each.
func (d *Decoder) count(major byte) int {
	n := d.head(major)
	if n > uint64(len(d.b)) {
		d.Fail("%d parts in %d bytes", n, len(d.b))
		return 0
	}
	return int(n) //nolint:gosec // at most the length of a slice
}

func (d *Decoder) take(major byte) []byte {
	n := d.count(major)
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// Text reads a text string.
func (d *Decoder) Text() string { return string(d.take(text)) }

// Uint reads a number.
func (d *Decoder) Uint() uint64 { return d.head(unsigned) }

// Bytes reads bytes.
func (d *Decoder) Bytes() []byte { return append([]byte(nil), d.take(byteText)...) }

// Time reads a time written as [Micros].
func (d *Decoder) Time() time.Time { return FromMicros(d.Int()) }

// Int reads a number.
func (d *Decoder) Int() int64 {
	major := unsigned
	if len(d.b) > 0 && d.b[0]&0xe0 == negative {
		major = negative
	}
	n := d.head(major)
	if n > math.MaxInt64 {
		d.Fail("a number that is too large")
		return 0
	}
	if major == negative {
		return -1 - int64(n)
	}
	return int64(n)
}

// Bool reads a boolean.
func (d *Decoder) Bool() bool {
	if len(d.b) == 0 || d.b[0] != yes && d.b[0] != no {
		d.Fail("not a yes or no")
		return false
	}
	b := d.b[0] == yes
	d.b = d.b[1:]
	return b
}

// Hash reads a hash.
func (d *Decoder) Hash(into *[32]byte) {
	b := d.take(byteText)
	if d.err == nil && len(b) != len(into) {
		d.Fail("a hash of %d bytes", len(b))
		return
	}
	copy(into[:], b)
}

// Fields reads an object. field reads one value, and reports whether it knows the number.
func (d *Decoder) Fields(field func(number uint64) bool) {
	next := uint64(0)
	for range d.count(object) {
		number := d.Uint()
		if d.err == nil && (number < next || !field(number)) {
			d.Fail("field %d is not known, or out of order", number)
		}
		if d.err != nil {
			return
		}
		next = number + 1
	}
}

// ListOf reads a list.
func ListOf[T any](d *Decoder, item func(d *Decoder, into *T)) []T {
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

// MapOf reads a map.
func MapOf[T any](d *Decoder, item func(d *Decoder) T) map[string]T {
	n := d.count(object)
	if n == 0 {
		return nil
	}
	m := make(map[string]T, n)
	for range n {
		name := d.Text()
		m[name] = item(d)
		if d.err != nil {
			return nil
		}
	}
	if len(m) != n {
		d.Fail("a name is there twice")
	}
	return m
}

// Pair reads the head of a list of two.
func (d *Decoder) Pair() {
	if n := d.count(array); n != 2 && d.err == nil {
		d.Fail("%d parts, where two belong", n)
	}
}
