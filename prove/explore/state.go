package explore

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// A state is the complete situation between two steps.
type state struct {
	view
	left [spends]uint8
	runs []*run  // sorted by number: workers of one kind are interchangeable
	late []*call // writes that were reported as failed and are still in flight, sorted by number
}

// A spend is a kind of fault or event with a limited number.
type spend uint8

const (
	failures spend = iota
	deaths
	lates
	lapses
	redrives
	retriggers
	sweepings
	closings
	collections
	skippings
	readings
	ticks
	expiries
	copies
	restores
	spends
)

func (b Budget) numbers() [spends]int {
	return [spends]int{b.Failures, b.Deaths, b.Late, b.Lapses, b.Redrives, b.Triggers, b.Sweeps, b.Gaps, b.Blobs, b.Skips, b.Reads, b.Ticks, b.Expiries, b.Copies, b.Restores}
}

func (b Budget) left() (out [spends]uint8) {
	for i, n := range b.numbers() {
		out[i] = uint8(n) //nolint:gosec // small numbers, as check demands
	}
	return out
}

// encode appends bytes that identify the state.
func (s *state) encode(b []byte) []byte {
	for _, id := range []int32{s.store.id, s.sends.id, s.queues.id, s.blobs.id, s.past.id, s.backup.id} {
		b = binary.LittleEndian.AppendUint32(b, uint32(id)) //nolint:gosec // any bits will do
	}
	b = append(append(b, s.clock), s.left[:]...)
	b = append(b, byte(len(s.runs))) //nolint:gosec // few workers
	for _, r := range s.runs {
		b = binary.LittleEndian.AppendUint32(b, uint32(r.id)) //nolint:gosec // any bits will do
	}
	for _, c := range s.late {
		b = binary.LittleEndian.AppendUint32(b, uint32(c.id)) //nolint:gosec // any bits will do
	}
	return b
}

// with returns the state in which a run is replaced by another one, or removed.
func (s *state) with(old, next *run) *state {
	c := *s
	c.runs = slices.Clone(s.runs)
	if old != nil {
		i := slices.Index(c.runs, old)
		c.runs = slices.Delete(c.runs, i, i+1)
	}
	if next != nil {
		i, _ := slices.BinarySearchFunc(c.runs, next, func(a, b *run) int { return cmp.Compare(a.id, b.id) })
		c.runs = slices.Insert(c.runs, i, next)
	}
	return &c
}

// spend uses up one fault or event.
func (s *state) spend(what spend) *state {
	s.left[what]--
	return s
}

// working returns the number of workers of a kind.
func (s *state) working(k kind) int {
	n := 0
	for _, r := range s.runs {
		if r.kind == k {
			n++
		}
	}
	return n
}

// idle reports whether nothing is left to do.
func (s *state) idle() bool {
	q := s.queues
	return len(s.runs)+len(s.late)+len(q.messages)+len(q.triggers)+len(q.requests)+len(q.guarded)+len(q.waiting)+len(q.due) == 0
}
