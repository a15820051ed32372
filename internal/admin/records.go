package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// Tally returns the counts of the named streams and all others in the store, sorted by name, and of
// decorators. It reads the whole store. It leaves out corrupt records and calls passed with their
// errors.
func Tally(ctx context.Context, l record.Lister, streams []string, now time.Time, passed func(error)) (Stats, error) {
	var stats Stats
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
	kept := map[record.TokenKey]bool{}
	err := record.EachGroup(ctx, l, "", passed, func(g *record.Group) error {
		of(g.Key.Stream).addGroup(g, now)
		for _, p := range g.Pending {
			if p.Kept() {
				kept[p.Token] = true
			}
		}
		return nil
	})
	if err == nil {
		err = record.EachToken(ctx, l, passed, func(t *record.Token) error {
			if t.Stream == "" {
				if stats.Decorators == nil {
					stats.Decorators = &TokenStats{}
				}
				stats.Decorators.add(t, now)
				return nil
			}
			if !kept[t.Key] || t.State != record.Issued { // otherwise its message is done
				of(t.Stream).add(t, now)
			}
			return nil
		})
	}
	if err != nil {
		return Stats{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(byStream)) {
		stats.Streams = append(stats.Streams, *byStream[name])
	}
	return stats, nil
}

func (st *StreamStats) addGroup(g *record.Group, now time.Time) {
	st.Groups++
	st.Held += heldCount(g)
	for _, p := range g.Pending {
		switch {
		case len(p.Effects) > 0:
			st.Pending++
		case p.Kept() && !p.Forgotten(now):
			st.Done++
		}
	}
}

func (st *TokenStats) add(t *record.Token, now time.Time) {
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

// ListGroups lists groups of a stream, in the store's order. If records are corrupt, it returns the
// others and calls passed with the error.
func ListGroups(ctx context.Context, l record.Lister, o GroupsOptions, passed func(error)) ([]GroupInfo, error) {
	groups, err := l.Groups(ctx, o.Stream, record.GroupKey{Stream: o.Stream, Group: o.After}, cmp.Or(o.Limit, DefaultLimit))
	switch {
	case errors.Is(err, record.ErrCorrupt):
		passed(err)
	case err != nil:
		return nil, err
	}
	out := make([]GroupInfo, len(groups))
	for i := range groups {
		out[i] = infoOf(&groups[i])
	}
	return out, nil
}

// ReadGroup returns one group, and for what it waits, or [ErrNotFound]. failing is what the process
// that runs the system has registered for the group, nil if there is none. stream returns the
// configured streams: it lets the error say why there is no such group.
func ReadGroup(ctx context.Context, store record.Store, key record.GroupKey, stream func(string) (record.Stream, bool), failing []system.Wait) (GroupInfo, error) {
	groups, _, err := store.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return GroupInfo{}, err
	}
	if groups[0].Version == 0 && len(failing) == 0 {
		s, known := stream(key.Stream)
		return GroupInfo{}, noGroup(key, s, known)
	}
	info := infoOf(&groups[0])
	next, err := waitsOfNext(ctx, store, &groups[0])
	if err != nil {
		return GroupInfo{}, err
	}
	info.Waiting = append(waits(&groups[0], failing), next...)
	for i := range info.Pending {
		info.Pending[i].Sends = sendsOf(&groups[0], info.Pending[i].Number)
	}
	return info, nil
}

func noGroup(key record.GroupKey, s record.Stream, known bool) error {
	err := fmt.Errorf("group %s: %w", key.Path(), ErrNotFound)
	switch {
	case !known:
		return fmt.Errorf("stream %s: %w", key.Stream, ErrNotFound)
	case !s.Stateless || s.Admission == record.BySequence:
		return err
	case s.Unordered:
		return fmt.Errorf("%w: stream %s keeps no groups, because it has neither order nor state; look at a message of it with --id", err, s.Name)
	}
	return fmt.Errorf("%w: stream %s has no state, so it keeps a group only for messages that name one; look at the others with --id", err, s.Name)
}

// sendsOf returns the deliveries of the entry with a number.
func sendsOf(g *record.Group, number uint64) []Send {
	at := slices.IndexFunc(g.Pending, func(p record.Pending) bool { return p.Number == number && !p.Kept() })
	if at < 0 {
		return nil
	}
	var out []Send
	p := &g.Pending[at]
	for i, f := range p.Effects {
		n := number + uint64(i)
		for _, to := range f.To {
			sent := slices.Contains(p.Sent, record.Sent{Effect: i, To: to})
			out = append(out, Send{ID: g.Key.Path() + "/" + strconv.FormatUint(n, 10), Number: n, To: to, Sent: sent})
		}
	}
	return out
}

// infoOf describes a group's record.
func infoOf(g *record.Group) GroupInfo {
	info := GroupInfo{Stream: g.Key.Stream, Group: g.Key.Group, Version: g.Version, LastNumber: g.Last, Held: heldCount(g), Pending: []Pending{}, Sources: []SourceInfo{}}
	for _, p := range g.Pending {
		if p.Kept() {
			continue
		}
		info.Pending = append(info.Pending, Pending{Number: p.Number, ID: p.Identity, Attempt: p.Attempt, Effects: len(p.Effects), Sent: len(p.Sent)})
	}
	for _, key := range slices.Sorted(maps.Keys(g.Sources)) {
		info.Sources = append(info.Sources, sourceInfo(key, g.Sources[key]))
	}
	for name, timer := range g.Timers {
		info.Timers = append(info.Timers, TimerInfo{name, timer.Due})
	}
	slices.SortFunc(info.Timers, func(a, b TimerInfo) int { return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Name, b.Name)) })
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
