package encoding

import (
	"github.com/effectively-once/once/internal/record"
)

func end(f *Fields, l *record.Log) {
	Uint(f, 1, &l.Last)
	Uint(f, 2, &l.Time)
	f.Bool(3, &l.Ended)
	f.Time(4, &l.Until)
}

// WriteLog appends the end of a log that has entries.
func WriteLog(e *Encoder, l *record.Log) {
	f := Writing(e)
	end(&f, l)
}

// ReadLog reads the end of a log written by WriteLog.
func ReadLog(d *Decoder, l *record.Log) {
	f := Reading(d)
	end(&f, l)
	f.End()
	if l.Last == 0 {
		d.Fail("a log without entries")
	}
}
