package encoding

import "github.com/effectively-once/once/internal/record"

// Timers is a field with timers by name.
//
//go:noinline
func (f *Fields) Timers(number uint64, m *map[string]record.Timer) {
	entries(f, number, m, WriteTimer, ReadTimer)
}

// WriteTimer appends a timer.
func WriteTimer(e *Encoder, t record.Timer) {
	e.head(array, 2)
	e.Uint(t.Number)
	e.Int(Micros(t.Due))
}

// ReadTimer reads a timer written by WriteTimer.
func ReadTimer(d *Decoder) record.Timer {
	d.Pair()
	return record.Timer{Number: d.Uint(), Due: d.Time()}
}
