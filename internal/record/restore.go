package record

import (
	"fmt"
	"slices"
	"time"
)

// restoreBits is how many numbers a group has between two restores that are counted, as a power of
// two.
const restoreBits = 40

// millisBits is how many numbers a group has for each millisecond between two restores of which the
// second is stamped, as a power of two: two million a second. Unix times until 2109 then fit into
// the integers that JSON readers keep exactly.
const millisBits = 11

// MaxRestores is how many restores a configuration can list. The numbers after them are below those
// of every stamp.
const MaxRestores = 1000

// A Restore says that the records of a system were put back to an older copy.
type Restore struct {
	// At is when the system began to work with the copy, or a moment before.
	At time.Time `json:"at"`
	// Stamped says that the data folder recorded it at the first start on the copy. Others are
	// listed in the configuration.
	Stamped bool `json:"stamped,omitempty"`
}

// Restores are the restores of a system, in their order.
//
// After a restore a group has forgotten which numbers it gave since the copy was made. Receivers
// have not: an effect under one of these numbers would be dropped as a copy of another one. So the
// numbers after a restore begin above all earlier ones. This needs no look at the records when they
// are restored, and holds for groups that the copy does not know at all.
//
// A configuration knows all restores: the numbers after the n-th begin at n × 2^40. A data folder
// does not: if one copy is put back twice, the second time it has no stamp of the first. So from
// the first stamp on the numbers begin at the Unix milliseconds of the restore × 2^11.
type Restores []Restore

// Listed returns the restores that a configuration lists.
func Listed(times []time.Time) Restores { return Restores(nil).With(times) }

// With returns the restores and those that a configuration lists. A time that is there already is
// the same restore.
func (r Restores) With(times []time.Time) Restores {
	out := slices.Clone(r)
	for _, at := range times {
		i, found := slices.BinarySearchFunc(out, at, func(x Restore, at time.Time) int { return x.At.Compare(at) })
		if !found {
			out = slices.Insert(out, i, Restore{At: at.UTC()})
		}
	}
	return out
}

// A RestoreError says that a record has numbers of a restore that the system does not know.
type RestoreError struct{ Restore int }

func (e *RestoreError) Error() string {
	if e.Restore > MaxRestores {
		return "the group has numbers of a stamp that the data folder lacks: its file restored.json is missing or of another folder"
	}
	return fmt.Sprintf("the group has numbers of restore %d, which the configuration does not list: restores must keep all entries", e.Restore)
}

// RestoreOf returns after how many restores a number was given, if none of them is stamped.
func RestoreOf(number uint64) int { return int(number >> restoreBits) }

// Jumps reports whether there was a restore between two numbers of a log. It does not notice a
// second stamp within 33 seconds, which is nearer than 67 million entries.
func Jumps(from, to uint64) bool {
	if RestoreOf(from) > MaxRestores { // given after a stamp
		return to > from && to-from > 1<<26
	}
	return RestoreOf(to) > RestoreOf(from)
}

// LastMillis returns the time of the last restore in Unix milliseconds, 0 if there was none.
// Fences and lives of sessions begin with the time of the clock: after a restore they are not
// lower.
func (r Restores) LastMillis() uint64 {
	if len(r) == 0 {
		return 0
	}
	return millis(r.Last())
}

// Last returns the time of the last restore, the zero time if there was none.
func (r Restores) Last() time.Time {
	if len(r) == 0 {
		return time.Time{}
	}
	return r[len(r)-1].At
}

func millis(at time.Time) uint64 { return uint64(at.UnixMilli()) }

// Before names the last restore before a time: by its Unix milliseconds from the first stamp on, and
// otherwise by how many there were. It is 0 if there was none.
func (r Restores) Before(at time.Time) uint64 {
	n := 0
	for n < len(r) && r[n].At.Before(at) {
		n++
	}
	if n > r.counted() {
		return millis(r[n-1].At)
	}
	return uint64(n)
}

// Stamped reports whether one of the restores is stamped.
func (r Restores) Stamped() bool { return r.counted() < len(r) }

// counted returns how many restores there were before the first stamp.
func (r Restores) counted() int {
	if i := slices.IndexFunc(r, func(x Restore) bool { return x.Stamped }); i >= 0 {
		return i
	}
	return len(r)
}

// floor returns the number after which the next ones begin.
func (r Restores) floor() uint64 {
	if r.Stamped() {
		return millis(r.Last()) << millisBits
	}
	return uint64(len(r)) << restoreBits
}

// of returns after how many restores a number was given.
func (r Restores) of(number uint64) (int, error) {
	for n := len(r); n > r.counted(); n-- {
		if number >= r[:n].floor() {
			return n, nil
		}
	}
	if n := RestoreOf(number); n > r.counted() {
		return 0, &RestoreError{n}
	}
	return RestoreOf(number), nil
}

// Apply makes a record that is about to be written continue with numbers that were never given
// before. Targets of its effects are numbered from 1 again, under the epoch that Epoch returns. If
// logged is true, the group has a log of its own, and its next entry gets such a number too: so a
// reader that is further than the copy is told.
func (r Restores) Apply(g *Group, logged bool) error {
	have, err := r.of(g.Last)
	if err != nil {
		return err
	}
	// The log of a new record has a new incarnation.
	if logged && g.Version > 0 && g.Log.Last < r.floor() {
		g.Log.Last = r.floor()
	}
	if have == len(r) {
		return nil
	}
	g.Last, g.Chained = r.floor(), nil
	return nil
}

// Epoch returns the epoch under which an effect is numbered at its targets: the incarnation of the
// group, and after the n-th restore the time of that restore, or n after the incarnation if that is
// later. So it rises with each restore, even if the listed time is before the incarnation. Pending
// effects keep the epoch that they had before a restore, because they may have been sent already.
func (r Restores) Epoch(incarnation, number uint64) (uint64, error) {
	n, err := r.of(number)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return incarnation, nil
	}
	return max(incarnation+uint64(n), millis(r[n-1].At)), nil //nolint:gosec // not negative
}

// Forgot reports whether messages of an issued epoch may have been acknowledged and lost since: the
// epoch is older than the last restore.
func (r Restores) Forgot(epoch uint64) bool {
	return len(r) > 0 && int64(epoch) <= r.Last().UnixMicro() //nolint:gosec // an issued epoch
}
