package faultproxy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// wrong returns the differences from the expected state, after all work has ended.
func (w *world) wrong(ctx context.Context) (problems []string) {
	note := func(format string, values ...any) { problems = append(problems, fmt.Sprintf(format, values...)) }
	for _, key := range w.groups() {
		groups, _, err := w.store.Load(ctx, []record.GroupKey{key}, nil)
		if err != nil {
			note("load %s: %v", key, err)
			continue
		}
		w.wrongGroup(ctx, &groups[0], note)
	}
	w.wrongTokens(ctx, note)
	w.wrongOrder(note)
	if n := w.dead.len() + w.deadPublish.len(); n > 0 {
		note("%d dead letters", n)
	}
	return problems
}

func (w *world) groups() []record.GroupKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []record.GroupKey
	for _, m := range w.messages {
		if key := m.GroupKey(); !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// wrongGroup compares a group's record with the sent messages: each is counted once, numbered ones
// in order, and no work is left.
func (w *world) wrongGroup(ctx context.Context, g *record.Group, note func(string, ...any)) {
	var want []string
	for _, m := range w.messages {
		if m.GroupKey() == g.Key {
			want = append(want, m.Identity())
		}
	}
	got := strings.FieldsFunc(string(g.State), func(r rune) bool { return r == ',' })
	ordered := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return !strings.HasPrefix(id, w.name+"p/") })
	if !slices.IsSorted(ordered) { // numbers of one digit sort as text
		note("%s: processed in the order %v", g.Key, ordered)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		note("%s: state counts %v, want %v", g.Key, got, want)
	}
	if g.HasEffects() || g.HasHeld() {
		note("%s: %d pending, held: %v", g.Key, len(g.Pending), g.HasHeld())
	}
	for _, source := range g.Sources {
		left, err := w.store.Held(ctx, record.HeldKey{Group: g.Key, Source: w.name + "p", Epoch: source.Epoch, Sequence: 1}, 100)
		if err != nil || len(left) > 0 {
			note("%s: %d held messages are left, %v", g.Key, len(left), err)
		}
	}
}

// wrongTokens checks that every message has a done token with its reply. A numbered message without
// a reply has no token: only its group remembers it.
func (w *world) wrongTokens(ctx context.Context, note func(string, ...any)) {
	for _, m := range w.messages {
		arrival := admission.Arrival{Message: m, ByNumber: m.Stream == "numbered"}
		_, tokens, err := w.store.Load(ctx, nil, []record.TokenKey{arrival.Token()})
		if err != nil {
			note("load token: %v", err)
			continue
		}
		state := record.Done
		if arrival.ByNumber && reply(&m) == "" {
			state = record.Absent
		}
		if t := tokens[0]; t.State != state || text(t.Reply) != reply(&m) {
			note("%s: token %s with reply %q, want %s with %q", m.Identity(), t.State, text(t.Reply), state, reply(&m))
		}
	}
}

// wrongOrder checks the effects: at least one copy of each, under one identity, and first copies in
// the order of their numbers.
func (w *world) wrongOrder(note func(string, ...any)) {
	identity, content, last := map[string]string{}, map[string]string{}, map[record.GroupKey]uint64{}
	for _, d := range w.sent {
		message := d.Stream + " " + d.Group + " " + string(d.Effect.Body)
		if before, ok := content[d.Identity]; ok && before != message {
			note("%s stands for %s and for %s", d.Identity, before, message)
		}
		content[d.Identity] = message
		if before, ok := identity[message]; ok {
			if before != d.Identity {
				note("effect of %s has two identities: %s, %s", message, before, d.Identity)
			}
			continue
		}
		identity[message] = d.Identity
		key := record.GroupKey{Stream: d.Stream, Group: d.Group}
		if d.Number <= last[key] {
			note("first copy of %s after number %d", d.Identity, last[key])
		}
		last[key] = d.Number
	}
	for _, m := range w.messages {
		if sent := identity[m.Stream+" "+m.GroupName()+" "+m.Identity()] != ""; sent != sends(&m) {
			note("effect of %s: %v", m.Identity(), sent)
		}
	}
}
