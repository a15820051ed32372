package explore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// An entry has the fields of a log entry that the rules compare.
type entry struct {
	Kind     record.EntryKind `cbor:"kind"`
	Body     []byte           `cbor:"body"`
	Parents  []uint64         `cbor:"parents"`
	Missing  bool             `cbor:"parents_missing"`
	From, To uint64
	Time     string `cbor:"time"`
}

// logged returns an error if the log of a group is not that of its commits: an entry for each
// applied message in the order of the state, and one for each range of skipped numbers, numbered
// from 1 without holes, with rising times, each after its parents unless the gap policy ended the
// wait, and nothing after the end.
func (w *world) logged(g *record.Group, chunks []record.Chunk, now time.Time) error {
	if !w.scenario.Stream.Log {
		return nil
	}
	var bodies []string
	next, last, skipped, cut, ended := uint64(1), clock.Hybrid(0), uint64(0), false, false
	for _, c := range chunks {
		if c.Group != g.Key || c.Incarnation != g.Incarnation {
			continue
		}
		if next == 1 && c.First > 1 && w.scenario.Budget.Expiries > 0 {
			next, cut = c.First, true
		}
		if next > 1 && beginsRestore(next-1, c.First) {
			next = c.First
		}
		if c.First != next {
			return fmt.Errorf("the log has entries from %d where %d follows", c.First, next)
		}
		entries, err := log.Split(c, 0)
		if err != nil {
			return err
		}
		for _, e := range entries {
			var x entry
			if err := cbor.Unmarshal(e.AppendCBOR(nil, c.Incarnation, ""), &x); err != nil {
				return fmt.Errorf("read entry %d: %w", e.Number, err)
			}
			at, err := clock.ParseHybrid(x.Time)
			switch {
			case err != nil:
				return err
			case ended:
				return fmt.Errorf("entry %d is behind the end of the log", e.Number)
			case at <= last:
				return fmt.Errorf("entry %d has time %s after %s", e.Number, at, last)
			case slices.ContainsFunc(x.Parents, func(n uint64) bool { return n >= e.Number }) != x.Missing:
				return fmt.Errorf("entry %d is before its parents %d", e.Number, x.Parents)
			case x.Missing && (w.scenario.Stream.Gap != record.GapSkip || now.Before(start().Add(time.Duration(w.scenario.Stream.After)))):
				return fmt.Errorf("the wait of entry %d for its parents ended too early", e.Number)
			case x.Kind == record.EntryEnd:
				ended = true
			case x.Kind == record.EntryGap:
				skipped += x.To - x.From + 1
			default:
				bodies = append(bodies, string(x.Body))
			}
			last = at
		}
		next = c.Last + 1
	}
	switch {
	case g.Log.Last != next-1 && next > 1:
		return fmt.Errorf("the record counts %d entries, and the log has %d", g.Log.Last, next-1)
	case g.Log.Ended != ended && next > 1:
		return fmt.Errorf("the record says ended: %t; there is an end entry: %t", g.Log.Ended, ended)
	case cut || next == 1 && w.scenario.Budget.Expiries > 0: // the first entries are deleted
	case !slices.Equal(bodies, lines(g.State)):
		return fmt.Errorf("the log is %q, and the commits are %q", bodies, lines(g.State))
	case skipped != skippedIn(g):
		return errors.New("the log does not have all skipped numbers")
	}
	return nil
}

// skippedIn returns how many numbers the sources of a group have skipped.
func skippedIn(g *record.Group) (n uint64) {
	for _, s := range g.Sources {
		n += uint64(s.Skipped.Len()) //nolint:gosec // not negative
	}
	return n
}
