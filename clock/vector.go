package clock

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
)

const (
	// MaxMembers is how many members a vector can have.
	MaxMembers = 10_000
	// MaxName is how many bytes the name of a member can have.
	MaxName = 255
)

// An Order is how one event relates to another.
type Order int

const (
	// Equal means that both are the same event, or that both have seen the same events.
	Equal Order = iota
	// Before means that the first event happened before the second.
	Before
	// After means that the second event happened before the first.
	After
	// Concurrent means that neither event knew the other.
	Concurrent
)

// String returns the name of the order, in lower case.
func (o Order) String() string {
	switch o {
	case Equal:
		return "equal"
	case Before:
		return "before"
	case After:
		return "after"
	case Concurrent:
		return "concurrent"
	default:
		return fmt.Sprintf("order %d", int(o))
	}
}

// A Vector is a vector clock: for each member the number of its events that are known. A member
// that is not in the vector has number 0. The zero value knows no event. Vectors are immutable, so
// copies may share memory.
//
// Source: C. Fidge, Timestamps in Message-Passing Systems That Preserve the Partial Ordering, 1988;
// F. Mattern, Virtual Time and Global States of Distributed Systems, 1989.
type Vector struct {
	entries []entry // sorted by member, without zeros
}

type entry struct {
	member string
	n      uint64
}

// NewVector returns a vector with the given numbers. Members with number 0 are left out. It returns
// an error if there are more than MaxMembers members, or if a name is empty or too long.
func NewVector(numbers map[string]uint64) (Vector, error) {
	v := Vector{make([]entry, 0, len(numbers))}
	for member, n := range numbers {
		if err := checkName(member); err != nil {
			return Vector{}, err
		}
		if n > 0 {
			v.entries = append(v.entries, entry{member, n})
		}
	}
	if len(v.entries) > MaxMembers {
		return Vector{}, fmt.Errorf("vector of %d members: at most %d", len(v.entries), MaxMembers)
	}
	slices.SortFunc(v.entries, func(a, b entry) int { return cmp.Compare(a.member, b.member) })
	return v, nil
}

func checkName(member string) error {
	if len(member) == 0 || len(member) > MaxName {
		return fmt.Errorf("name of a member of %d bytes: 1 to %d", len(member), MaxName)
	}
	return nil
}

// Len returns how many members have a number above 0.
func (v Vector) Len() int { return len(v.entries) }

// At returns the number of a member, or 0 if no event of it is known.
func (v Vector) At(member string) uint64 {
	if i, ok := v.find(member); ok {
		return v.entries[i].n
	}
	return 0
}

// All returns the members and their numbers, sorted by member.
func (v Vector) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for _, e := range v.entries {
			if !yield(e.member, e.n) {
				return
			}
		}
	}
}

func (v Vector) find(member string) (int, bool) {
	return slices.BinarySearchFunc(v.entries, member, func(e entry, name string) int { return strings.Compare(e.member, name) })
}

// Tick returns the clock after an event of a member. It returns ErrOverflow if the member's number
// can't grow, and an error if the member is new and its name is empty or too long, or the vector is
// full.
func (v Vector) Tick(member string) (Vector, error) {
	i, ok := v.find(member)
	if ok {
		if v.entries[i].n == math.MaxUint64 {
			return v, ErrOverflow
		}
		next := slices.Clone(v.entries)
		next[i].n++
		return Vector{next}, nil
	}
	if err := checkName(member); err != nil {
		return v, err
	}
	if len(v.entries) == MaxMembers {
		return v, fmt.Errorf("vector of %d members: at most %d", len(v.entries)+1, MaxMembers)
	}
	next := make([]entry, 0, len(v.entries)+1)
	next = append(append(append(next, v.entries[:i]...), entry{member, 1}), v.entries[i:]...)
	return Vector{next}, nil
}

// Merge returns the vector that knows all events that v or w know: the higher number of each
// member. It returns an error if together they have more than MaxMembers members. A process that
// receives a message merges the message's vector into its own, and then ticks.
func (v Vector) Merge(w Vector) (Vector, error) {
	switch v.Compare(w) {
	case Equal, After:
		return v, nil
	case Before:
		return w, nil
	case Concurrent:
	}
	all := make([]entry, 0, len(v.entries)+len(w.entries))
	a, b := v.entries, w.entries
	for len(a) > 0 && len(b) > 0 {
		switch c := strings.Compare(a[0].member, b[0].member); {
		case c < 0:
			all, a = append(all, a[0]), a[1:]
		case c > 0:
			all, b = append(all, b[0]), b[1:]
		default:
			all = append(all, entry{a[0].member, max(a[0].n, b[0].n)})
			a, b = a[1:], b[1:]
		}
	}
	all = append(append(all, a...), b...)
	if len(all) > MaxMembers {
		return v, fmt.Errorf("vector of %d members: at most %d", len(all), MaxMembers)
	}
	return Vector{slices.Clip(all)}, nil
}

// Compare returns how the event with clock v relates to the event with clock w. It allocates
// nothing and takes time proportional to the members of both.
func (v Vector) Compare(w Vector) Order {
	less, more := false, false // v has a lower number than w somewhere, or a higher one
	a, b := v.entries, w.entries
	for len(a) > 0 && len(b) > 0 && (!less || !more) {
		switch c := strings.Compare(a[0].member, b[0].member); {
		case c < 0:
			more, a = true, a[1:]
		case c > 0:
			less, b = true, b[1:]
		default:
			less, more = less || a[0].n < b[0].n, more || a[0].n > b[0].n
			a, b = a[1:], b[1:]
		}
	}
	switch less, more = less || len(b) > 0, more || len(a) > 0; {
	case less && more:
		return Concurrent
	case less:
		return Before
	case more:
		return After
	default:
		return Equal
	}
}

// An UnstableError says that a member that left can't be pruned yet.
type UnstableError struct {
	Member string // the member that left
	Last   uint64 // its last number
	Known  uint64 // what one of the live vectors knows of it
}

func (e *UnstableError) Error() string {
	return fmt.Sprintf("prune %q: a member knows its number %d only, the last is %d", e.Member, e.Known, e.Last)
}

// Prune returns v without the members that left. It takes their last numbers, and the newest vector
// that was received from each remaining member; the result is an [*UnstableError] if one of these,
// or v, does not know all events of a member that left.
//
// The condition makes Prune safe if messages between two members arrive in the order in which they
// were sent: every message that is still to come was sent by a member that already knew all events
// of those that left, so their numbers can't decide a comparison any more. From then on, every
// vector that arrives must be pruned by the same members before it is compared or merged; otherwise
// it brings the removed numbers back. A member that left must not come back under its old name.
func (v Vector) Prune(left Vector, live ...Vector) (Vector, error) {
	for _, gone := range left.entries {
		for _, known := range append([]Vector{v}, live...) {
			if n := known.At(gone.member); n < gone.n {
				return v, &UnstableError{Member: gone.member, Last: gone.n, Known: n}
			}
		}
	}
	return v.Without(left), nil
}

// Without returns v without the members of left, whatever their numbers are. It is for vectors that
// arrive after [Vector.Prune] removed the same members.
func (v Vector) Without(left Vector) Vector {
	kept := make([]entry, 0, len(v.entries))
	for _, e := range v.entries {
		if _, gone := left.find(e.member); !gone {
			kept = append(kept, e)
		}
	}
	return Vector{slices.Clip(kept)}
}
