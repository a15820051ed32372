package delay

import (
	"math"
	"time"

	"github.com/effectively-once/once/internal/dedup/encoding"
)

// AppendContent appends the queue and the message of the item. Its fields are numbered as in
// package encoding.
func (i *Item) AppendContent(b []byte) []byte {
	m := &i.Message
	e := encoding.Encoder{B: b}
	at := e.Object()
	e.TextField(at, 1, i.Queue)
	e.TextField(at, 2, m.Body)
	encoding.MapField(&e, at, 3, m.Attributes, (*encoding.Encoder).Text)
	e.TextField(at, 4, m.Group)
	e.TextField(at, 5, m.DedupID)
	e.TextField(at, 6, m.Sender)
	return e.B
}

// ReadContent reads what [Item.AppendContent] has written. The error wraps record.ErrCorrupt.
func (i *Item) ReadContent(b []byte) error {
	d := encoding.NewDecoder(b)
	m := &i.Message
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			i.Queue = d.Text()
		case 2:
			m.Body = d.Text()
		case 3:
			m.Attributes = encoding.MapOf(d, (*encoding.Decoder).Text)
		case 4:
			m.Group = d.Text()
		case 5:
			m.DedupID = d.Text()
		case 6:
			m.Sender = d.Text()
		default:
			return false
		}
		return true
	})
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
