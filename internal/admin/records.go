package admin

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Tally returns the counts of the named streams and all others in the store, sorted by name. It
// reads the whole store. It leaves out corrupt records and calls passed with their errors.
func Tally(ctx context.Context, l record.Lister, streams []string, now time.Time, passed func(error)) ([]StreamStats, error) {
	byStream := map[string]*StreamStats{}
	of := func(name string) *StreamStats {
		if byStream[name] == nil {
			byStream[name] = &StreamStats{Stream: name}
		}
		return byStream[name]
	}
	for _, name := range streams {
		of(name)
	}
	err := record.EachGroup(ctx, l, "", passed, func(g *record.Group) error {
		of(g.Key.Stream).addGroup(g)
		return nil
	})
	if err == nil {
		err = record.EachToken(ctx, l, passed, func(t *record.Token) error {
			of(t.Stream).addToken(t, now)
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	var out []StreamStats
	for _, name := range slices.Sorted(maps.Keys(byStream)) {
		out = append(out, *byStream[name])
	}
	return out, nil
}

func (st *StreamStats) addGroup(g *record.Group) {
	st.Groups++
	st.Held += heldCount(g)
	for _, p := range g.Pending {
		if len(p.Effects) > 0 {
			st.Pending++
		}
	}
}

func (st *StreamStats) addToken(t *record.Token, now time.Time) {
	switch t.State {
	case record.Issued:
		st.Issued++
	case record.Leased:
		if t.Lease.After(now) {
			st.Leased++
		}
	case record.Done:
		st.Done++
	case record.Absent:
	}
}

// InfoOf describes a group's record.
func InfoOf(g *record.Group) GroupInfo {
	info := GroupInfo{Stream: g.Key.Stream, Group: g.Key.Group, Version: g.Version, LastNumber: g.Last, Held: heldCount(g), Pending: []Pending{}, Sources: []SourceInfo{}}
	for _, p := range g.Pending {
		info.Pending = append(info.Pending, Pending{Number: p.Number, ID: p.Identity, Attempt: p.Attempt, Effects: len(p.Effects), Sent: len(p.Sent)})
	}
	for _, key := range slices.Sorted(maps.Keys(g.Sources)) {
		info.Sources = append(info.Sources, sourceInfo(key, g.Sources[key]))
	}
	info.SetState(g.State)
	if !g.Expires.IsZero() {
		info.Expires = &g.Expires
	}
	return info
}

func sourceInfo(key string, src record.Source) SourceInfo {
	source := record.PlainSource(key)
	info := SourceInfo{
		Principal: strings.TrimSuffix(strings.TrimSuffix(key, source), "\x1f"), Source: source, Epoch: src.Epoch, Next: src.Next,
		Held: ranges(src.Held), Skipped: ranges(src.Skipped),
	}
	// if nothing is held, it is when the source last moved
	if !src.GapSince.IsZero() && len(src.Held) > 0 {
		info.GapSince = &src.GapSince
	}
	return info
}

func ranges(r record.Ranges) []Range {
	out := make([]Range, len(r))
	for i, x := range r {
		out[i] = Range(x)
	}
	return out
}

func heldCount(g *record.Group) int {
	n := 0
	for _, src := range g.Sources {
		n += src.Held.Len()
	}
	return n
}
