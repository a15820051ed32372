package session

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// The states are encoded as a format number and then their fields in order: numbers as uvarints,
// texts and lists behind their length.
const format = 1

// An encoder appends fields.
type encoder []byte

func (e *encoder) number(ns ...uint64) {
	for _, n := range ns {
		*e = binary.AppendUvarint(*e, n)
	}
}

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	*e = append(*e, s...)
}

func (e *encoder) flag(b bool) {
	n := uint64(0)
	if b {
		n = 1
	}
	e.number(n)
}

func (e *encoder) ranges(rs record.Ranges) {
	e.number(uint64(len(rs)))
	for _, r := range rs {
		e.number(r.First, r.Last-r.First)
	}
}

func (e *encoder) spans(list []span) {
	e.number(uint64(len(list)))
	for _, s := range list {
		e.number(s.Part, s.Incarnation, s.First, s.Last-s.First, s.Until)
	}
}

// A decoder takes fields. After a mistake it is bad, and returns zero values.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[size:]
	return n
}

// count takes the length of a list or text, whose items take at least one byte each.
func (d *decoder) count() int {
	n := d.number()
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return 0
	}
	return int(n) //nolint:gosec // not more than the length
}

func (d *decoder) text() string {
	n := d.count()
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) flag() bool { return d.number() != 0 }

func (d *decoder) ranges() record.Ranges {
	out := make(record.Ranges, 0, d.count())
	for range cap(out) {
		first := d.number()
		out = append(out, record.Range{First: first, Last: first + d.number()})
	}
	return slices.Clip(out)
}

func (d *decoder) spans() []span {
	n := d.count()
	out := make([]span, 0, n)
	for range n {
		s := span{Part: d.number(), Incarnation: d.number(), First: d.number()}
		s.Last, s.Until = s.First+d.number(), d.number()
		out = append(out, s)
	}
	return out
}

// done returns an error if the data does not have this format.
func (d *decoder) done(key record.GroupKey) error {
	if d.bad || len(d.b) > 0 {
		return fmt.Errorf("%w: the state of %s", record.ErrCorrupt, key)
	}
	return nil
}
