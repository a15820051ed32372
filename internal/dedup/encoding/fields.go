package encoding

import "time"

// Fields writes or reads the fields of one object: a function that calls its methods describes a
// record in both directions. The calls are in the order of the numbers, from 1 on. A zero value is
// left out.
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
func (f *Fields) Bytes(number uint64, b *[]byte) {
	field(f, number, b, len(*b) > 0, (*Encoder).Bytes, (*Decoder).Bytes)
}

// Bool is a field with a boolean.
func (f *Fields) Bool(number uint64, b *bool) {
	field(f, number, b, *b, (*Encoder).Bool, (*Decoder).Bool)
}

// Time is a field with a time in microseconds.
func (f *Fields) Time(number uint64, t *time.Time) {
	field(f, number, t, Micros(*t) != 0, func(e *Encoder, t time.Time) { e.Int(Micros(t)) }, (*Decoder).Time)
}

// Seconds is a field with a time in whole seconds.
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

// Texts is a field with a list of texts.
func (f *Fields) Texts(number uint64, list *[]string) { Items(f, number, list, writeTextAt, readText) }

// TextMap is a field with texts by name.
func (f *Fields) TextMap(number uint64, m *map[string]string) {
	Entries(f, number, m, (*Encoder).Text, (*Decoder).Text)
}

// UintMap is a field with numbers by name.
func (f *Fields) UintMap(number uint64, m *map[string]uint64) {
	Entries(f, number, m, WriteUint, (*Decoder).Uint)
}

// Uint is a field with a number that is not negative.
func Uint[T ~uint8 | ~uint32 | ~uint64](f *Fields, number uint64, n *T) {
	field(f, number, n, *n != 0, func(e *Encoder, n T) { e.Uint(uint64(n)) }, readUint)
}

func readUint[T ~uint8 | ~uint32 | ~uint64](d *Decoder) T {
	n := d.Uint()
	if uint64(T(n)) != n {
		d.Fail("the number %d is too large", n)
	}
	return T(n)
}

// Int is a field with a number.
func Int[T ~int | ~int64](f *Fields, number uint64, n *T) {
	field(f, number, n, *n != 0, func(e *Encoder, n T) { e.Int(int64(n)) }, func(d *Decoder) T { return T(d.Int()) })
}

// Items is a field with a list.
func Items[T any](f *Fields, number uint64, list *[]T, write func(*Encoder, *T), read func(*Decoder, *T)) {
	switch {
	case !f.begin(number, len(*list) > 0):
	case f.e != nil:
		List(f.e, *list, write)
	default:
		*list = ListOf(f.d, read)
	}
}

// Entries is a field with a map.
func Entries[T any](f *Fields, number uint64, m *map[string]T, write func(*Encoder, T), read func(*Decoder) T) {
	switch {
	case !f.begin(number, len(*m) > 0):
	case f.e != nil:
		Map(f.e, *m, write)
	default:
		*m = MapOf(f.d, read)
	}
}

// Part is a field with a record; nil is left out.
func Part[T any](f *Fields, number uint64, x **T, write func(*Encoder, *T), read func(*Decoder, *T)) {
	switch {
	case !f.begin(number, *x != nil):
	case f.e != nil:
		write(f.e, *x)
	default:
		*x = new(T)
		read(f.d, *x)
	}
}

// Embedded is a field with a record, written if it is there.
func Embedded[T any](f *Fields, number uint64, x *T, there bool, write func(*Encoder, *T), read func(*Decoder, *T)) {
	switch {
	case !f.begin(number, there):
	case f.e != nil:
		write(f.e, x)
	default:
		read(f.d, x)
	}
}
