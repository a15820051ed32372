package pebblestore

import (
	"cmp"
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// carries reports whether a commit keeps entries that were loaded.
func carries(c *record.Commit) bool {
	return slices.ContainsFunc(c.Next.Pending, func(p record.Pending) bool { return index(c.Loaded.Pending, p.Number) >= 0 })
}

// carry returns the pending entries to write. Loaded entries are taken in their stored form,
// because a Clear, which does not change the version, may have removed or marked them since.
func carry(c *record.Commit, stored []record.Pending) []record.Pending {
	out := make([]record.Pending, 0, len(c.Next.Pending))
	for _, p := range c.Next.Pending {
		if index(c.Loaded.Pending, p.Number) >= 0 {
			i := index(stored, p.Number)
			if i < 0 {
				continue
			}
			p = stored[i]
		}
		out = append(out, p)
	}
	return out
}

// index returns the index of an entry, or -1. Entries are sorted by number.
func index(pending []record.Pending, number uint64) int {
	i, ok := slices.BinarySearchFunc(pending, number, func(p record.Pending, n uint64) int { return cmp.Compare(p.Number, n) })
	if !ok {
		return -1
	}
	return i
}

// settle applies a clear to a record, and reports whether that changed it.
func settle(g *record.Group, c *record.Clear) bool {
	before := len(g.Pending)
	g.Pending = slices.DeleteFunc(g.Pending, func(p record.Pending) bool { return slices.Contains(c.Numbers, p.Number) })
	changed := len(g.Pending) != before
	for i := range c.Done {
		if at := index(g.Pending, c.Done[i].Number); at >= 0 && !g.Pending[at].Kept() {
			g.Pending[at] = c.Done[i]
			changed = true
		}
	}
	for number, sent := range c.Sent {
		i := index(g.Pending, number)
		if i < 0 || g.Pending[i].Kept() {
			continue
		}
		p := &g.Pending[i]
		for _, part := range sent {
			if !slices.Contains(p.Sent, part) {
				p.Sent = append(p.Sent, part)
				changed = true
			}
		}
	}
	return g.Expire(c.Now) || changed
}
