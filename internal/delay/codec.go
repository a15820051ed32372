package delay

import (
	"math"
	"time"

	"github.com/effectively-once/once/internal/dedup/encoding"
)

// content names the fields of the queue and the message of the item. They are numbered as in
// package encoding.
func (i *Item) content(f *encoding.Fields) {
	m := &i.Message
	f.Text(1, &i.Queue)
	f.Text(2, &m.Body)
	f.TextMap(3, &m.Attributes)
	f.Text(4, &m.Group)
	f.Text(5, &m.DedupID)
	f.Text(6, &m.Sender)
}

// AppendContent appends the queue and the message of the item.
func (i *Item) AppendContent(b []byte) []byte {
	e := encoding.Encoder{B: b}
	f := encoding.Writing(&e)
	i.content(&f)
	return e.B
}

// ReadContent reads what [Item.AppendContent] has written. The error wraps record.ErrCorrupt.
func (i *Item) ReadContent(b []byte) error {
	d := encoding.NewDecoder(b)
	f := encoding.Reading(d)
	i.content(&f)
	f.End()
	return d.End()
}

const signBit = 1 << 63

// Ordinal returns a number for a time. Numbers are ordered as the times are. Times before the year
// 1679 and after 2261 have the least and the greatest number.
func Ordinal(t time.Time) uint64 {
	nanos := t.UnixNano()
	switch y := t.Year(); {
	case y < 1679:
		nanos = math.MinInt64
	case y > 2261:
		nanos = math.MaxInt64
	}
	return uint64(nanos) ^ signBit //nolint:gosec // turned back by OfOrdinal
}

// OfOrdinal returns the time that has the number.
func OfOrdinal(n uint64) time.Time {
	return time.Unix(0, int64(n^signBit)).UTC() //nolint:gosec // turned by Ordinal
}
