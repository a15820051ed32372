package encoding

import (
	"github.com/effectively-once/once/internal/record"
)

// WriteSource appends a source.
func WriteSource(e *Encoder, s record.Source) {
	at := e.Object()
	e.UintField(at, 1, s.Epoch)
	e.UintField(at, 2, s.Next)
	ListField(e, at, 3, s.Held, writeRange)
	ListField(e, at, 4, s.Skipped, writeRange)
	e.IntField(at, 5, int64(s.HeldBytes))
	e.IntField(at, 6, Micros(s.GapSince))
}

// ReadSource reads a source written by WriteSource.
func ReadSource(d *Decoder) (s record.Source) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			s.Epoch = d.Uint()
		case 2:
			s.Next = d.Uint()
		case 3:
			s.Held = readRanges(d)
		case 4:
			s.Skipped = readRanges(d)
		case 5:
			s.HeldBytes = int(d.Int())
		case 6:
			s.GapSince = d.Time()
		default:
			return false
		}
		return true
	})
	return s
}

func writeRange(e *Encoder, r *record.Range) {
	e.head(array, 2)
	e.head(unsigned, r.First)
	e.head(unsigned, r.Last)
}

// readRanges reads a set of numbers. Ranges that are reversed, unsorted or adjacent are an error,
// because a binary search in them would return wrong results.
func readRanges(d *Decoder) record.Ranges {
	ranges := record.Ranges(ListOf(d, readRange))
	for i, r := range ranges {
		if r.Last < r.First || i > 0 && (r.First <= ranges[i-1].Last || r.First-ranges[i-1].Last == 1) {
			d.Fail("numbers %d to %d out of order", r.First, r.Last)
		}
	}
	return ranges
}

func readRange(d *Decoder, r *record.Range) {
	d.Pair()
	r.First = d.Uint()
	r.Last = d.Uint()
}
