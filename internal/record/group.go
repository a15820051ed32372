package record

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A Group is the record of one group. Every commit is conditional on this one item.
type Group struct {
	Key GroupKey
	// Incarnation is set when the record is created, to Unix milliseconds. Incarnation and Version
	// together identify one content of the record, even if the record expires and its versions
	// start again, but not after a restore. Incarnation is also the epoch under which downstream
	// streams number the group's effects, until there is a restore.
	Incarnation uint64
	// Version counts commits. It is 0 if there is no record, or if the record has expired.
	Version uint64
	// State belongs to the handler; the engine does not interpret it.
	State []byte
	// Pending holds the committed messages that are not yet published, in number order.
	Pending []Pending
	// Last is the highest number assigned to an effect or a pending entry.
	Last uint64
	// Sources holds the numbered senders by [Message.SourceKey].
	Sources map[string]Source
	// Chained counts the effects sent to each sequenced target (destination/group), so that every
	// target sees 1, 2, 3 … without gaps.
	Chained map[string]uint64
	// Log is the end of the group's log.
	Log Log
	// Timers holds the timers that are set and have not fired, by name.
	Timers map[string]Timer
	// Retention is how long the record outlives its last message, as configured for the worker that
	// committed last: see [Stream.RecordRetention]. 0 is for ever. A publisher may not have that
	// configuration.
	Retention time.Duration
	// Expires is when the record may be deleted; zero while effects are pending or messages held,
	// and if Retention is 0. It is not before any DoneUntil of Pending, nor before Log.Until, nor
	// before [Group.KeptForTimers].
	Expires time.Time
}

// A Source is the group's memory of one numbered sender.
type Source struct {
	Epoch uint64
	Next  uint64
	Held  Ranges
	// Skipped are the numbers that were passed without being processed. In a range that begins at
	// 0, some numbers were processed, and it is not known which: see [Group.FoldSkipped].
	Skipped Ranges
	// HeldBytes is the size of the held bodies and headers.
	HeldBytes int
	// GapSince is when the source began to wait for the number Next. If nothing is held, it is when
	// the source last moved, or zero if that is not known: see [Group.MakeRoom].
	GapSince time.Time
}

// HasEffects reports whether any pending entry has effects to publish.
func (g *Group) HasEffects() bool {
	return slices.ContainsFunc(g.Pending, func(p Pending) bool { return len(p.Effects) > 0 })
}

// HasHeld reports whether any message is held.
func (g *Group) HasHeld() bool {
	for _, s := range g.Sources {
		if len(s.Held) > 0 {
			return true
		}
	}
	return false
}

// PendingBytes returns the size of the pending entries.
func (g *Group) PendingBytes() int {
	n := 0
	for _, p := range g.Pending {
		n += p.Size()
	}
	return n
}

func headerBytes(h map[string]string) int {
	n := 0
	for name, value := range h {
		n += len(name) + len(value)
	}
	return n
}

// Clone returns a copy whose lists and maps can be changed. Their elements are shared.
func (g *Group) Clone() Group {
	c := *g
	c.Pending = slices.Clone(g.Pending)
	c.Sources = maps.Clone(g.Sources)
	c.Chained = maps.Clone(g.Chained)
	c.Timers = maps.Clone(g.Timers)
	return c
}

// Ready reports whether every message on which m depends has been processed in the group, and every
// entry that it names as its parent is in the log. It costs time for these only, however many
// sources the group has.
func (g *Group) Ready(m *Message) bool { return g.MissingParent(m) == 0 && g.Follows(m) }

// MissingParent returns the first of m's parents that is not in the log, or 0 if all are there.
func (g *Group) MissingParent(m *Message) uint64 {
	for _, n := range m.Parents {
		if n > g.Log.Last {
			return n
		}
	}
	return 0
}

// Follows reports whether every message on which m depends has been processed in the group.
func (g *Group) Follows(m *Message) bool {
	for source, n := range m.DependsOn {
		if source == m.Source || n == 0 {
			// a vector clock lists every sender: the message's own, and those with no message yet
			continue
		}
		if g.Sources[sourceKey(m.Principal, source)].Next <= n {
			return false
		}
	}
	return true
}

// Settled returns the entries without effects. The publisher skips them.
func (g *Group) Settled() []Pending {
	return slices.DeleteFunc(slices.Clone(g.Pending), func(p Pending) bool { return len(p.Effects) > 0 })
}

// Leftovers returns the entries without effects whose tokens may not be marked done. Kept entries
// need no token, so they are not among them.
func (g *Group) Leftovers() []Pending {
	return slices.DeleteFunc(g.Settled(), func(p Pending) bool { return p.Kept() })
}

// Idle reports whether the record has nothing pending but kept entries, and nothing held.
func (g *Group) Idle() bool {
	return !g.HasHeld() && !slices.ContainsFunc(g.Pending, func(p Pending) bool { return !p.Kept() })
}

// MissingExpiry reports whether an idle record that is not kept for ever has no expiry. This
// happens when a commit and a Clear race: the commit still saw the entry, so neither of them set
// Expires.
func (g *Group) MissingExpiry() bool {
	return g.Version > 0 && g.Retention > 0 && g.Idle() && g.Expires.IsZero()
}

// ExpiryAt returns the expiry of the record if it becomes idle now, or zero if it is kept for ever.
// It is the end of the retention, and not before the last entry of the log expires, nor before
// [Group.NeededUntil].
func (g *Group) ExpiryAt(now time.Time) time.Time {
	if g.Retention == 0 {
		return time.Time{}
	}
	return latest(now.Add(g.Retention), latest(g.Log.Until, g.NeededUntil()))
}

// NeededUntil returns the earliest expiry that the kept entries and the timers of the record allow;
// zero if there are none.
func (g *Group) NeededUntil() time.Time {
	until := g.KeptForTimers()
	for i := range g.Pending {
		until = latest(until, g.Pending[i].DoneUntil)
	}
	return until
}

// Expire sets the expiry of a record that a clear has left idle, and reports whether it did: not if
// there is one, or the clear sets none, or the record is kept for ever. The record that is stored
// decides for how long: the caller of the clear may have seen an earlier content.
func (g *Group) Expire(now time.Time) bool {
	if now.IsZero() || !g.Idle() || !g.Expires.IsZero() {
		return false
	}
	g.Expires = g.ExpiryAt(now)
	return !g.Expires.IsZero()
}

// Forever is how a store writes a Retention of 0. Versions that take 0 for an unknown retention
// then give the record an expiry that is as far away.
const Forever = 100 * 365 * 24 * time.Hour

// StoredRetention returns a Retention as a store writes it, and ReadRetention one that it wrote.
func StoredRetention(d time.Duration) time.Duration { return cmp.Or(d, Forever) }

// ReadRetention is the reverse of [StoredRetention].
func ReadRetention(d time.Duration) time.Duration {
	if d >= Forever {
		return 0
	}
	return d
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Blobs returns the staged objects of the pending effects.
func (g *Group) Blobs() []Blob {
	var out []Blob
	for _, p := range g.Pending {
		for _, f := range p.Effects {
			if f.Blob != nil {
				out = append(out, *f.Blob)
			}
		}
	}
	return out
}

// Held is a message that arrived before its predecessors.
type Held struct {
	Message Message
	At      time.Time
}
