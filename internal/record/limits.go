package record

import (
	"maps"
	"slices"
	"time"
)

// Limits bound the parts of a group record besides its state and pending entries, so that one
// sender can't fill the record for all others. Zero fields take the defaults: 1000 sources, 1000
// targets, 32 KiB of names of each, 1000 ranges.
type Limits struct {
	// Sources is how many numbered senders a group remembers.
	Sources int
	// Targets is for how many groups of other streams a group can number its effects.
	Targets int
	// Names is the total size of the names in bytes, of the sources and again of the targets.
	Names int
	// Ranges is how many ranges of held numbers all sources may have together, and again how many
	// ranges of skipped numbers. Beyond it, every source may still have one range of each, and hold
	// its next number.
	Ranges int
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		field *int
		value int
	}{{&l.Sources, 1000}, {&l.Targets, 1000}, {&l.Names, 32 << 10}, {&l.Ranges, 1000}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return l
}

// DefaultLimits returns the limits of a stream that sets none.
func DefaultLimits() Limits { return Limits{}.withDefaults() }

func size[V any](m map[string]V) int {
	n := 0
	for name := range m {
		n += len(name)
	}
	return n
}

// MakeRoom reports whether the record can remember a new source. If the record is full, it forgets
// sources that have been idle since before, the longest idle first, because none of their messages
// can still be in flight. It keeps the sources for which keep returns true. While anything is held
// it forgets nothing, because a held message may depend on any source.
func (g *Group) MakeRoom(name string, l Limits, before time.Time, keep func(source string) bool) bool {
	fits := func() bool { return len(g.Sources) < l.Sources && size(g.Sources)+len(name) <= l.Names }
	if fits() || g.HasHeld() {
		return fits()
	}
	pending := map[string]bool{}
	for _, p := range g.Pending {
		if source, _, _, ok := ParseNumber(p.Identity); ok {
			pending[sourceKey(p.Principal, source)] = true
		}
	}
	idle := slices.SortedFunc(maps.Keys(g.Sources), func(a, b string) int { return g.Sources[a].GapSince.Compare(g.Sources[b].GapSince) })
	for _, source := range idle {
		if since := g.Sources[source].GapSince; !since.IsZero() && since.Before(before) && !pending[source] && !keep(source) && !fits() {
			delete(g.Sources, source)
		}
	}
	return fits()
}

// Succeed prepares g to be committed now as the successor of loaded: it sets the version, the times
// since which sources are idle, and the expiry after the retention, of which 0 is for ever.
func (g *Group) Succeed(loaded *Group, now time.Time, retention time.Duration) {
	g.Version = loaded.Version + 1
	if loaded.Version == 0 {
		g.Incarnation = uint64(max(1, now.UnixMilli()))
	}
	g.stamp(now)
	g.Retention, g.Expires = retention, time.Time{}
	if !g.HasEffects() && !g.HasHeld() {
		g.Expires = g.ExpiryAt(now)
	}
}

// stamp sets the time since which a source is idle, if the group has several sources. A single
// source needs no time: it is forgotten together with its group.
func (g *Group) stamp(now time.Time) {
	for name, s := range g.Sources {
		since := s.GapSince
		switch {
		case len(s.Held) > 0:
		case len(g.Sources) == 1:
			since = time.Time{}
		case since.IsZero():
			since = now
		}
		if since != s.GapSince {
			s.GapSince = since
			g.Sources[name] = s
		}
	}
}

// CanHold reports whether a source may have these held ranges.
func (g *Group) CanHold(source string, held Ranges, l Limits) bool {
	if len(held) <= max(1, len(g.Sources[source].Held)) {
		return true
	}
	n := len(held)
	for name, s := range g.Sources {
		if name != source {
			n += len(s.Held)
		}
	}
	return n <= l.Ranges
}

// FoldSkipped keeps the number of skipped ranges within the limit: it merges the two oldest ranges
// of the source with the most ranges into one that begins at 0, see [Source.Passed].
func (g *Group) FoldSkipped(l Limits) {
	for {
		n, most := 0, ""
		for name, s := range g.Sources {
			n += len(s.Skipped)
			if had := len(g.Sources[most].Skipped); len(s.Skipped) > had || len(s.Skipped) == had && name < most {
				most = name
			}
		}
		s := g.Sources[most]
		if n <= l.Ranges || len(s.Skipped) < 2 {
			return
		}
		s.Skipped = append(Ranges{{0, s.Skipped[1].Last}}, s.Skipped[2:]...)
		g.Sources[most] = s
	}
}

// Passed reports whether the number n, which is below Next, was skipped or processed. If forgotten
// is true, its range was folded and it is not known which.
func (s *Source) Passed(n uint64) (skipped, forgotten bool) {
	i := s.Skipped.search(n)
	if i == len(s.Skipped) || s.Skipped[i].First > n {
		return false, false
	}
	return s.Skipped[i].First > 0, s.Skipped[i].First == 0
}

// Chain sets the effect's numbers for its sequenced destinations, which expect 1, 2, 3 … without
// gaps.
func (g *Group) Chain(f *Effect, sequenced map[string]bool) {
	if f.Delayed() { // it has no order
		return
	}
	chain := map[string]uint64{}
	for _, to := range f.To {
		if !sequenced[to] {
			continue
		}
		if g.Chained == nil {
			g.Chained = map[string]uint64{}
		}
		target := f.chain(to, g.Key)
		g.Chained[target]++
		chain[to] = g.Chained[target]
	}
	if len(chain) > 0 {
		f.Chain = chain
	}
}

func (f *Effect) chain(to string, from GroupKey) string { return to + "/" + f.Target(from) }

// TakesTargets reports whether the record can number effects for their destinations. A target is
// never forgotten: its numbers would start at 1 again, and the target would drop them as
// duplicates.
func (g *Group) TakesTargets(effects []Effect, sequenced map[string]bool, l Limits) bool {
	added := map[string]bool{}
	for _, f := range effects {
		if f.Delayed() {
			continue
		}
		for _, to := range f.To {
			target := f.chain(to, g.Key)
			if _, known := g.Chained[target]; sequenced[to] && !known {
				added[target] = true
			}
		}
	}
	return len(added) == 0 || len(g.Chained)+len(added) <= l.Targets && size(g.Chained)+size(added) <= l.Names
}

// Concerns reports whether the message comes from a source, given as a [Message.SourceKey], or
// depends on it.
func (m *Message) Concerns(source string) bool {
	if m.SourceKey() == source {
		return true
	}
	for name := range m.DependsOn {
		if sourceKey(m.Principal, name) == source {
			return true
		}
	}
	return false
}
