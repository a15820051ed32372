package encoding

import (
	"github.com/effectively-once/once/internal/record"
)

func source(f *Fields, s *record.Source) {
	f.Uint(1, &s.Epoch)
	f.Uint(2, &s.Next)
	items(f, 3, (*[]record.Range)(&s.Held), writeRange, readRange)
	items(f, 4, (*[]record.Range)(&s.Skipped), writeRange, readRange)
	f.Number(5, &s.HeldBytes)
	f.Time(6, &s.GapSince)
}

// Sources is a field with sources by name.
//
//go:noinline
func (f *Fields) Sources(number uint64, m *map[string]record.Source) {
	entries(f, number, m, WriteSource, ReadSource)
}

// WriteSource appends a source.
func WriteSource(e *Encoder, s record.Source) {
	f := Writing(e)
	source(&f, &s)
}

// ReadSource reads a source written by WriteSource.
func ReadSource(d *Decoder) (s record.Source) {
	f := Reading(d)
	source(&f, &s)
	f.End()
	checkRanges(d, s.Held)
	checkRanges(d, s.Skipped)
	return s
}

// checkRanges checks a set of numbers. Ranges that are reversed, unsorted or adjacent are an error,
// because a binary search in them would return wrong results.
func checkRanges(d *Decoder, ranges record.Ranges) {
	for i, r := range ranges {
		if r.Last < r.First || i > 0 && (r.First <= ranges[i-1].Last || r.First-ranges[i-1].Last == 1) {
			d.Fail("numbers %d to %d out of order", r.First, r.Last)
		}
	}
}

func writeRange(e *Encoder, r *record.Range) {
	e.head(array, 2)
	e.head(unsigned, r.First)
	e.head(unsigned, r.Last)
}

func readRange(d *Decoder, r *record.Range) {
	d.Pair()
	r.First = d.Uint()
	r.Last = d.Uint()
}
