package encoding

import (
	"github.com/effectively-once/once/internal/record"
)

func end(f *Fields, l *record.Log) {
	f.Uint(1, &l.Last)
	f.Uint(2, (*uint64)(&l.Time))
	f.Bool(3, &l.Ended)
	f.Time(4, &l.Until)
}

// Log is a field with the end of a log; a log without entries is left out.
func (f *Fields) Log(number uint64, l *record.Log) {
	switch {
	case !f.begin(number, l.Last != 0):
	case f.e != nil:
		WriteLog(f.e, l)
	default:
		ReadLog(f.d, l)
	}
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
