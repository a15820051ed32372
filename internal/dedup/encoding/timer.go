package encoding

import "github.com/effectively-once/once/internal/record"

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
