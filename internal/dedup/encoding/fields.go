package encoding

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Fields writes or reads the fields of one object: a function that calls its methods describes a
// record in both directions. The calls are in the order of the numbers, from 1 on. A zero value is
// left out.
//
// Its methods that call generic functions are not inlined: in another package the compiler would
// then take the record and the Fields for escaping, and allocate both.
type Fields struct {
	e     *Encoder // nil if the object is read
	d     *Decoder
	at    int    // the position of the object that is written
	left  int    // fields whose numbers are not read yet
	next  uint64 // the number that was read last
	ahead bool   // the value of next is not read yet
}

// Writing returns the fields of an object that is appended to e.
func Writing(e *Encoder) Fields { return Fields{e: e, at: e.Object()} }

// Reading returns the fields of the next object. [Fields.End] must be called after the last one.
func Reading(d *Decoder) Fields { return Fields{d: d, left: d.count(object)} }

// End checks that all fields of an object were read.
func (f *Fields) End() {
	if f.begin(0, false) || f.ahead {
		f.d.Fail("field %d is not known, or out of order", f.next)
	}
}

// begin reports whether the value of a field is written or read next. It is written if it is there.
func (f *Fields) begin(number uint64, there bool) bool {
	if f.e != nil {
		if there {
			f.e.Field(f.at, number)
		}
		return there
	}
	if !f.ahead && f.left > 0 {
		f.next, f.ahead = f.d.Uint(), true
		f.left--
	}
	if !f.ahead || f.next != number {
		return false
	}
	f.ahead = false
	return true
}

func field[T any](f *Fields, number uint64, x *T, there bool, write func(*Encoder, T), read func(*Decoder) T) {
	switch {
	case !f.begin(number, there):
	case f.e != nil:
		write(f.e, *x)
	default:
		*x = read(f.d)
	}
}

// Text is a field with a text.
func (f *Fields) Text(number uint64, s *string) {
	switch {
	case !f.begin(number, *s != ""):
	case f.e != nil:
		f.e.Text(*s)
	default:
		*s = f.d.Text()
	}
}

// Bytes is a field with bytes.
//
//go:noinline
func (f *Fields) Bytes(number uint64, b *[]byte) {
	field(f, number, b, len(*b) > 0, (*Encoder).Bytes, (*Decoder).Bytes)
}

// Bool is a field with a boolean.
//
//go:noinline
func (f *Fields) Bool(number uint64, b *bool) {
	field(f, number, b, *b, (*Encoder).Bool, (*Decoder).Bool)
}

// Time is a field with a time in microseconds.
//
//go:noinline
func (f *Fields) Time(number uint64, t *time.Time) {
	field(f, number, t, Micros(*t) != 0, func(e *Encoder, t time.Time) { e.Int(Micros(t)) }, (*Decoder).Time)
}

// Seconds is a field with a time in whole seconds.
//
//go:noinline
func (f *Fields) Seconds(number uint64, t *time.Time) {
	field(f, number, t, Seconds(*t) != 0, func(e *Encoder, t time.Time) { e.Int(Seconds(t)) },
		func(d *Decoder) time.Time { return FromSeconds(d.Int()) })
}

// Hash is a field with a hash; a hash of zeros is left out.
func (f *Fields) Hash(number uint64, hash *[32]byte) {
	switch {
	case !f.begin(number, *hash != [32]byte{}):
	case f.e != nil:
		f.e.Bytes(hash[:])
	default:
		f.d.Hash(hash)
	}
}

// ID is a field with an id of 16 bytes. It is always there.
func (f *Fields) ID(number uint64, id *[16]byte) {
	switch {
	case !f.begin(number, true):
	case f.e != nil:
		f.e.Bytes(id[:])
	default:
		if n := copy(id[:], f.d.take(byteText)); n != len(id) {
			f.d.Fail("an id of %d bytes", n)
		}
	}
}

// Texts is a field with a list of texts.
//
//go:noinline
func (f *Fields) Texts(number uint64, list *[]string) { items(f, number, list, writeTextAt, readText) }

// TextMap is a field with texts by name.
//
//go:noinline
func (f *Fields) TextMap(number uint64, m *map[string]string) {
	entries(f, number, m, (*Encoder).Text, (*Decoder).Text)
}

// UintMap is a field with numbers by name.
//
//go:noinline
func (f *Fields) UintMap(number uint64, m *map[string]uint64) {
	entries(f, number, m, WriteUint, (*Decoder).Uint)
}

// Uint is a field with a number that is not negative.
//
//go:noinline
func (f *Fields) Uint(number uint64, n *uint64) {
	field(f, number, n, *n != 0, (*Encoder).Uint, (*Decoder).Uint)
}

// Int is a field with a number.
//
//go:noinline
func (f *Fields) Int(number uint64, n *int64) {
	field(f, number, n, *n != 0, (*Encoder).Int, (*Decoder).Int)
}

// Retention is a field with the retention of a group.
//
//go:noinline
func (f *Fields) Retention(number uint64, d *time.Duration) {
	field(f, number, d, true, writeRetention, readRetention)
}

func writeRetention(e *Encoder, d time.Duration) { e.Int(int64(record.StoredRetention(d))) }

func readRetention(d *Decoder) time.Duration { return record.ReadRetention(time.Duration(d.Int())) }

// Number is a field with a number that is counted in an int.
func (f *Fields) Number(number uint64, n *int) {
	switch {
	case !f.begin(number, *n != 0):
	case f.e != nil:
		f.e.Int(int64(*n))
	default:
		*n = int(f.d.Int())
	}
}

func items[T any](f *Fields, number uint64, list *[]T, write func(*Encoder, *T), read func(*Decoder, *T)) {
	switch {
	case !f.begin(number, len(*list) > 0):
	case f.e != nil:
		List(f.e, *list, write)
	default:
		*list = ListOf(f.d, read)
	}
}

func entries[T any](f *Fields, number uint64, m *map[string]T, write func(*Encoder, T), read func(*Decoder) T) {
	switch {
	case !f.begin(number, len(*m) > 0):
	case f.e != nil:
		Map(f.e, *m, write)
	default:
		*m = MapOf(f.d, read)
	}
}
