package record

import (
	"fmt"
	"time"
)

// restoreBits is how many numbers a group has between two restores, as a power of two. 8,191
// restores then fit into the integers that JSON readers keep exactly.
const restoreBits = 40

// MaxRestores is how many restores a system can have.
const MaxRestores = 1<<(53-restoreBits) - 1

// Restores are the times at which the records of a system were put back to an older copy, in their
// order.
//
// After a restore a group has forgotten which numbers it gave since the copy was made. Receivers
// have not: an effect under one of these numbers would be dropped as a copy of another one. So the
// numbers after the n-th restore begin at n × 2^40: no earlier one is that high. This needs no look
// at the records when they are restored, and holds for groups that the copy does not know at all.
type Restores []time.Time

// A RestoreError says that a record has numbers of a restore that the configuration does not know.
type RestoreError struct{ Restore int }

func (e *RestoreError) Error() string {
	return fmt.Sprintf("the group has numbers of restore %d, which the configuration does not list: restores must keep all entries", e.Restore)
}

// RestoreOf returns after how many restores a number was given.
func RestoreOf(number uint64) int { return int(number >> restoreBits) }

// LastMillis returns the time of the last restore in Unix milliseconds, 0 if there was none.
// Fences and lives of sessions begin with the time of the clock: after a restore they are not
// lower.
func (r Restores) LastMillis() uint64 {
	if len(r) == 0 {
		return 0
	}
	return millis(r[len(r)-1])
}

func millis(at time.Time) uint64 { return uint64(at.UnixMilli()) }

// Before returns how many restores there were before a time.
func (r Restores) Before(at time.Time) (n int) {
	for n < len(r) && r[n].Before(at) {
		n++
	}
	return n
}

// floor returns the number after which the next ones begin.
func (r Restores) floor() uint64 { return uint64(len(r)) << restoreBits }

// Apply makes a record that is about to be written continue with numbers that were never given
// before. Targets of its effects are numbered from 1 again, under the epoch that Epoch returns. If
// logged is true, the group has a log of its own, and its next entry gets such a number too: so a
// reader that is further than the copy is told.
func (r Restores) Apply(g *Group, logged bool) error {
	have := RestoreOf(g.Last)
	if have > len(r) {
		return &RestoreError{have}
	}
	// The log of a new record has a new incarnation.
	if logged && g.Version > 0 && RestoreOf(g.Log.Last) < len(r) {
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
	n := RestoreOf(number)
	if n > len(r) {
		return 0, &RestoreError{n}
	}
	if n == 0 {
		return incarnation, nil
	}
	return max(incarnation+uint64(n), millis(r[n-1])), nil //nolint:gosec // not negative
}

// Forgot reports whether messages of an issued epoch may have been acknowledged and lost since: the
// epoch is older than the last restore.
func (r Restores) Forgot(epoch uint64) bool {
	return len(r) > 0 && int64(epoch) <= r[len(r)-1].UnixMicro() //nolint:gosec // an issued epoch
}
