package encoding

import (
	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/record"
)

// WriteLog appends the end of a log that has entries.
func WriteLog(e *Encoder, l *record.Log) {
	at := e.Object()
	e.UintField(at, 1, l.Last)
	e.UintField(at, 2, uint64(l.Time))
	if l.Ended {
		e.Field(at, 3)
		e.Bool(true)
	}
	e.IntField(at, 4, Micros(l.Until))
}

// ReadLog reads the end of a log written by WriteLog.
func ReadLog(d *Decoder, l *record.Log) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			l.Last = d.Uint()
		case 2:
			l.Time = clock.Hybrid(d.Uint())
		case 3:
			l.Ended = d.Bool()
		case 4:
			l.Until = d.Time()
		default:
			return false
		}
		return true
	})
	if l.Last == 0 {
		d.Fail("a log without entries")
	}
}
