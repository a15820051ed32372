package record

import (
	"maps"
	"slices"
	"time"
)

// A Group is the record of one group: the one item that a commit's condition is on.
type Group struct {
	Key GroupKey
	// Incarnation is set when the record is created, to Unix milliseconds. Together with Version it names one content of the record for ever, also
	// across an expiry after which the versions start again; and it is the epoch under which the group's effects are numbered downstream.
	Incarnation uint64
	// Version counts commits; 0 means that there is no record, or an expired one.
	Version uint64
	// State is the handler's, opaque here.
	State []byte
	// Pending holds what is committed and not yet published, in number order.
	Pending []Pending
	// Last is the last number given to an effect or a pending entry.
	Last uint64
	// Sources holds the numbered senders by [Message.SourceKey].
	Sources map[string]Source
	// Chained counts the effects sent to each sequenced target (destination/group), so that every target sees 1, 2, 3 … without gaps.
	Chained map[string]uint64
	// Retention is how long the record outlives its last message, as the worker knew it that committed last: publishers may know less.
	Retention time.Duration
	// Expires is when the record may be forgotten; zero while effects are pending or messages held.
	Expires time.Time
}

// A Source is what a group remembers of one numbered sender.
type Source struct {
	Epoch uint64
	Next  uint64
	Held  Ranges
	// Skipped are passed numbers that were not processed; of a range that begins at 0, it is not known which.
	Skipped Ranges
	// HeldBytes is the size of the held bodies and headers.
	HeldBytes int
	// GapSince is since when the number Next is waited for. While nothing is held, that is when the source last moved, or zero where that is not known: see [Group.MakeRoom].
	GapSince time.Time
}

// HasEffects reports whether anything waits to be published.
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

// PendingBytes is the size of what waits to be published.
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

// Clone copies what a commit changes: the lists and maps of the record, not what is in them.
func (g *Group) Clone() Group {
	c := *g
	c.Pending = slices.Clone(g.Pending)
	c.Sources = maps.Clone(g.Sources)
	c.Chained = maps.Clone(g.Chained)
	return c
}

// Ready reports whether everything that the message depends on has been processed in the group.
func (g *Group) Ready(m *Message) bool {
	for source, n := range m.DependsOn {
		if source == m.Source || n == 0 {
			continue // a vector clock names everybody: its own number, and those who have said nothing
		}
		if g.Sources[sourceKey(m.Principal, source)].Next <= n {
			return false
		}
	}
	return true
}

// Leftovers are the entries without effects: nobody publishes them.
func (g *Group) Leftovers() []Pending {
	return slices.DeleteFunc(slices.Clone(g.Pending), func(p Pending) bool { return len(p.Effects) > 0 })
}

// Endless reports whether an idle record has nothing that ends it: a commit that still saw an entry, and the clear of that entry, passed each other.
func (g *Group) Endless() bool {
	return g.Version > 0 && len(g.Pending) == 0 && !g.HasHeld() && g.Expires.IsZero()
}

// Blobs lists the staged objects of what is pending.
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
