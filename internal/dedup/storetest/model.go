package storetest

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

func modelCases() []testCase {
	return []testCase{
		{name: "any history of calls gives the answers of the model", run: testModel},
	}
}

// testModel makes the same calls on the store and on memstore, and compares the results. Each
// history has its own groups and tokens.
func testModel(t *testing.T, s *suite) {
	model := &suite{Store: memstore.New(s.clock.Now), clock: s.clock}
	history := 0
	rapid.Check(t, func(rt *rapid.T) {
		history++
		m := &machine{t: t, stores: []*suite{s, model}, stream: fmt.Sprint("history-", history)}
		rt.Repeat(map[string]func(*rapid.T){
			"commit": m.commit,
			"clear":  m.clear,
			"swap":   m.swap,
			"mark":   m.mark,
			"list":   m.list,
			"advance": func(rt *rapid.T) {
				s.clock.Advance(time.Duration(rapid.IntRange(0, 3).Draw(rt, "minutes")) * time.Minute)
			},
			"": m.compare,
		})
	})
}

// A machine drives stores through one history.
type machine struct {
	t      *testing.T
	stores []*suite
	stream string
	// groups and tokens are the records seen so far, for conditions that hold or no longer hold.
	groups []record.Group
	tokens []record.Token
	last   uint64
}

func (m *machine) groupKeys() []record.GroupKey {
	return []record.GroupKey{{Stream: m.stream, Group: "a"}, {Stream: m.stream, Group: "b"}}
}

func (m *machine) tokenKeys() []record.TokenKey {
	return []record.TokenKey{record.NewTokenKey("", m.stream, "1"), record.NewTokenKey("", m.stream, "2")}
}

// compare loads all records from each store and compares them.
func (m *machine) compare(rt *rapid.T) {
	type view struct {
		Groups []record.Group
		Tokens []record.Token
		Held   [][]record.Held
	}
	var views []view
	for _, s := range m.stores {
		var v view
		var err error
		if v.Groups, v.Tokens, err = s.Load(m.t.Context(), m.groupKeys(), m.tokenKeys()); err != nil {
			rt.Fatal(err)
		}
		for _, key := range m.groupKeys() {
			v.Held = append(v.Held, s.held(m.t, record.HeldKey{Group: key, Source: "s", Epoch: 1}, 100))
		}
		views = append(views, v)
	}
	m.agree(rt, "view", views[0], views[1])
	m.groups, m.tokens = append(m.groups, views[0].Groups...), append(m.tokens, views[0].Tokens...)
}

// list compares listings, if the store is a record.Lister.
func (m *machine) list(rt *rapid.T) {
	var pages [][]record.Group
	for _, s := range m.stores {
		l, ok := s.Store.(record.Lister)
		if !ok {
			return
		}
		groups, err := l.Groups(m.t.Context(), m.stream, record.GroupKey{}, 100)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range groups {
			if m.keepsApart() {
				dropLarge(&groups[i])
			}
		}
		// a store may list in any order
		slices.SortFunc(groups, func(a, b record.Group) int { return cmp.Compare(a.Key.Group, b.Key.Group) })
		pages = append(pages, groups)
	}
	m.agree(rt, "list", pages[0], pages[1])
}

func (m *machine) keepsApart() bool {
	return slices.ContainsFunc(m.stores, func(s *suite) bool { return s.harness.KeepsApart })
}

// dropLarge removes the parts that a list may leave out.
func dropLarge(g *record.Group) {
	g.State = nil
	for i := range g.Pending {
		p := &g.Pending[i]
		p.Reply = nil
		for j := range p.Effects {
			p.Effects[j].Body, p.Effects[j].Headers = nil, nil
		}
	}
}

func (m *machine) agree(rt *rapid.T, what string, got, want any) {
	if d := diff(want, got); d != "" {
		rt.Fatalf("%s (-model +store):\n%s", what, d)
	}
}

// recent returns one of the records seen last: mostly the current one of a key, sometimes an older
// one.
func recent[T any](rt *rapid.T, seen []T) T {
	back := rapid.SampledFrom([]int{1, 2, 1, 2, 1, 2, 3, 4, 5, 6}).Draw(rt, "record seen")
	return seen[max(0, len(seen)-back)]
}

func (m *machine) expires(rt *rapid.T) time.Time {
	minutes := rapid.SampledFrom([]int{0, 0, 1, 2, 5}).Draw(rt, "expires in minutes")
	if minutes == 0 {
		return time.Time{}
	}
	return m.stores[0].clock.In(time.Duration(minutes) * time.Minute)
}

func (m *machine) commit(rt *rapid.T) {
	c := record.Commit{Loaded: recent(rt, m.groups), Attempt: rand.Text()}
	c.Next = c.Loaded
	c.Next.Version++
	if c.Loaded.Version == 0 {
		c.Next.Incarnation = uint64(m.stores[0].clock.Now().UnixMilli())
	}
	c.Next.State = rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(rt, "state")
	c.Next.Expires = m.expires(rt)
	c.Next.Retention, c.Next.Timers = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(rt, "retention"), m.timers(rt)
	c.Next.Pending = slices.DeleteFunc(slices.Clone(c.Next.Pending), func(record.Pending) bool { return rapid.IntRange(0, 3).Draw(rt, "drop") == 0 })
	for range rapid.IntRange(0, 2).Draw(rt, "entries") {
		m.last++
		c.Next.Pending = append(c.Next.Pending, record.Pending{Number: m.last, Identity: "m"})
		if rapid.Bool().Draw(rt, "kept") {
			last := &c.Next.Pending[len(c.Next.Pending)-1]
			*last = kept(*last, m.stores[0].clock.In(time.Minute))
		}
	}
	h := record.Held{Message: record.Message{Stream: m.stream, Group: c.Next.Key.Group, Source: "s", Epoch: 1, Sequence: rapid.Uint64Range(1, 9).Draw(rt, "sequence")}}
	switch rapid.SampledFrom([]string{"", "hold", "unhold"}).Draw(rt, "held") {
	case "hold":
		c.Hold = []record.Held{h}
		c.Next.Sources = map[string]record.Source{"s": {Epoch: 1, Held: record.Ranges{{First: h.Message.Sequence, Last: h.Message.Sequence}}}}
	case "unhold":
		c.Unhold = []record.HeldKey{keyOf(h)}
		c.Next.Sources = nil
	}
	if m.stores[0].harness.CommitsDone {
		c.Done = m.done(rt, 0)
	}
	m.agreeOnErrors(rt, func(s *suite) error { return s.Commit(m.t.Context(), c) })
}

// timers returns up to two timers.
func (m *machine) timers(rt *rapid.T) map[string]record.Timer {
	var out map[string]record.Timer
	for _, name := range []string{"a", "b"} {
		if minutes := rapid.IntRange(-2, 3).Draw(rt, "timer in minutes"); minutes > 0 {
			g := record.Group{Timers: out}
			g.SetTimer(name, record.Timer{Number: m.last + 1, Due: m.stores[0].clock.In(time.Duration(minutes) * time.Minute).UTC().Truncate(time.Millisecond)})
			out = g.Timers
		}
	}
	return out
}

func (m *machine) clear(rt *rapid.T) {
	g := recent(rt, m.groups)
	c := record.Clear{Group: g.Key, Incarnation: g.Incarnation, Now: m.expires(rt), Sent: map[uint64][]record.Sent{}}
	for _, p := range g.Pending {
		switch rapid.IntRange(0, 3).Draw(rt, "clear") {
		case 0:
			c.Numbers = append(c.Numbers, p.Number)
		case 1:
			c.Sent[p.Number] = []record.Sent{{Effect: rapid.IntRange(0, 2).Draw(rt, "effect"), To: "ledger"}}
		case 2:
			c.Done = append(c.Done, kept(p, m.stores[0].clock.In(time.Duration(rapid.IntRange(1, 3).Draw(rt, "kept minutes"))*time.Minute)))
		}
	}
	// a clear of nothing is for a record of which its caller knows that it expires
	if c.Retention = g.Retention; len(c.Numbers)+len(c.Done)+len(c.Sent) > 0 {
		c.Retention = rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(rt, "seen retention")
	}
	m.agreeOnErrors(rt, func(s *suite) error { return s.Clear(m.t.Context(), c) })
}

func (m *machine) swap(rt *rapid.T) {
	old := recent(rt, m.tokens)
	next := m.next(rt, old.Key)
	answers := make([]record.Token, len(m.stores))
	i := 0
	m.agreeOnErrors(rt, func(s *suite) (err error) {
		answers[i], err = s.SwapToken(m.t.Context(), old, next)
		i++
		return err
	})
	m.agree(rt, "answer of the swap", answers[0], answers[1])
}

func (m *machine) next(rt *rapid.T, key record.TokenKey) record.Token {
	next := record.Token{Key: key, State: rapid.SampledFrom([]record.TokenState{record.Absent, record.Issued, record.Leased, record.Done}).Draw(rt, "state")}
	if next.State != record.Absent {
		next.Owner, next.Epoch, next.Expires = rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "owner"), rapid.Uint64Range(0, 2).Draw(rt, "epoch"), m.expires(rt)
	}
	return next
}

func (m *machine) mark(rt *rapid.T) {
	done := m.done(rt, 1)
	m.agreeOnErrors(rt, func(s *suite) error { return s.MarkDone(m.t.Context(), done) })
}

// done returns done tokens, at least as many as least.
func (m *machine) done(rt *rapid.T, least int) (done []record.Token) {
	for _, key := range m.tokenKeys()[:rapid.IntRange(least, 2).Draw(rt, "tokens")] {
		done = append(done, record.Token{Key: key, State: record.Done, Expires: m.expires(rt)})
	}
	return done
}

// agreeOnErrors makes a call on each store, and compares the errors.
func (m *machine) agreeOnErrors(rt *rapid.T, call func(s *suite) error) {
	got, want := call(m.stores[0]), call(m.stores[1])
	if (got == nil) != (want == nil) || errors.Is(got, record.ErrConflict) != errors.Is(want, record.ErrConflict) {
		rt.Fatalf("the store says %v, the model %v", got, want)
	}
}
