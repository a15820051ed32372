package record_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestASourceIsForgottenToMakeRoomTheLongestIdleFirst(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(g *record.Group)
		limits record.Limits
		keep   string
		left   []string // nil if there is no room
	}{
		{name: "there is room", limits: record.Limits{Sources: 4, Names: 100}, left: []string{"a", "b", "c"}},
		{name: "for one", limits: record.Limits{Sources: 3, Names: 100}, left: []string{"b", "c"}},
		{name: "for a name", limits: record.Limits{Sources: 9, Names: 4}, left: []string{"c"}},
		{name: "for a name that is longer than all may be", limits: record.Limits{Sources: 9, Names: 2}},
		{name: "one that is needed", limits: record.Limits{Sources: 3, Names: 100}, keep: "a", left: []string{"a", "c"}},
		{name: "one that is not idle for long", limits: record.Limits{Sources: 1, Names: 100}},
		{name: "one that is pending", change: func(g *record.Group) {
			g.Pending = []record.Pending{{Identity: "a/0/7"}}
		}, limits: record.Limits{Sources: 3, Names: 100}, left: []string{"a", "c"}},
		{name: "while a message is held", change: func(g *record.Group) {
			g.Sources["c"] = record.Source{Next: 1, Held: record.Ranges{{First: 3, Last: 3}}, GapSince: noon}
		}, limits: record.Limits{Sources: 3, Names: 100}},
		{name: "one that nobody knows to be idle", change: func(g *record.Group) {
			g.Sources["a"] = record.Source{Next: 2}
		}, limits: record.Limits{Sources: 3, Names: 100}, left: []string{"a", "c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := record.Group{Sources: map[string]record.Source{
				"a": {Next: 2, GapSince: noon.Add(-3)}, "b": {Next: 2, GapSince: noon.Add(-2)}, "c": {Next: 2, GapSince: noon},
			}}
			if c.change != nil {
				c.change(&g)
			}
			ok := g.MakeRoom("new", c.limits, noon, func(source string) bool { return source == c.keep })
			if ok != (c.left != nil) {
				t.Errorf("room: %v", ok)
			}
			if left := slices.Sorted(maps.Keys(g.Sources)); ok && !slices.Equal(left, c.left) {
				t.Errorf("left %q", left)
			}
		})
	}
}

func TestSourcesGetAnIdleTimeOnceThereAreSeveral(t *testing.T) {
	g := record.Group{Sources: map[string]record.Source{"a": {Next: 2, GapSince: noon}}}
	g.Succeed(&record.Group{}, noon, time.Hour)
	if since := g.Sources["a"].GapSince; !since.IsZero() {
		t.Errorf("alone: %s", since)
	}
	held := record.Source{Next: 2, Held: record.Ranges{{First: 4, Last: 4}}, GapSince: noon.Add(-time.Hour)}
	g.Sources["b"], g.Sources["c"] = record.Source{Next: 2, GapSince: noon}, held
	g.Succeed(&g, noon.Add(time.Minute), time.Hour)
	for name, want := range map[string]time.Time{"a": noon.Add(time.Minute), "b": noon, "c": held.GapSince} {
		if since := g.Sources[name].GapSince; !since.Equal(want) {
			t.Errorf("%s is idle since %s", name, since)
		}
	}
}

// With any number of gaps, a skipped number is never reported as processed.
func TestFoldingNeverReportsASkippedNumberAsProcessed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		g := record.Group{Sources: map[string]record.Source{}}
		limits := record.Limits{Ranges: rnd.IntN(6) + 1}
		truth := map[string]map[uint64]bool{"a": {}, "b": {}, "c": {}}
		for range 40 {
			name := []string{"a", "b", "c"}[rnd.IntN(3)]
			s := g.Sources[name]
			first := s.Next + rnd.Uint64N(3) + 1
			last := first + rnd.Uint64N(3)
			for n := first; n <= last; n++ {
				truth[name][n] = true
			}
			s.Skipped, s.Next = s.Skipped.Add(first, last), last+1
			g.Sources[name] = s
			g.FoldSkipped(limits)
		}
		ranges := 0
		for name, s := range g.Sources {
			ranges += len(s.Skipped)
			for n := uint64(1); n < s.Next; n++ {
				skipped, forgotten := s.Passed(n)
				if truth[name][n] && !skipped && !forgotten || !truth[name][n] && skipped {
					t.Fatalf("number %d of %s: skipped %v, forgotten %v: %v", n, name, skipped, forgotten, s.Skipped)
				}
			}
		}
		if ranges > max(limits.Ranges, len(g.Sources)) {
			t.Errorf("%d ranges of %d", ranges, limits.Ranges)
		}
	}
}

func TestEverySourceMayHoldOneRange(t *testing.T) {
	g := record.Group{Sources: map[string]record.Source{"a": {Held: record.Ranges{{First: 3, Last: 3}, {First: 5, Last: 5}}}, "b": {}}}
	limits := record.Limits{Ranges: 2}
	for _, c := range []struct {
		source string
		ranges int
		want   bool
	}{{"a", 1, true}, {"a", 2, true}, {"a", 3, false}, {"b", 1, true}, {"b", 2, false}, {"c", 1, true}} {
		if got := g.CanHold(c.source, make(record.Ranges, c.ranges), limits); got != c.want {
			t.Errorf("%s with %d ranges: %v", c.source, c.ranges, got)
		}
	}
}

func TestEachTargetIsNumberedWithoutGapsAndNewOnesAreBounded(t *testing.T) {
	g := record.Group{Key: record.GroupKey{Stream: "s", Group: "g"}}
	sequenced := map[string]bool{"next": true, "then": true}
	send := func(group string, to ...string) record.Effect { return record.Effect{Group: group, To: to} }
	for i, f := range []record.Effect{send("", "next", "out"), send("x", "next", "then"), send("", "next", "then")} {
		g.Chain(&f, sequenced)
		want := []map[string]uint64{{"next": 1}, {"next": 1, "then": 1}, {"next": 2, "then": 1}}[i]
		if !maps.Equal(f.Chain, want) {
			t.Errorf("effect %d is numbered %v", i, f.Chain)
		}
	}
	names := fmt.Sprint(slices.Sorted(maps.Keys(g.Chained)))
	if names != "[next/g next/x then/g then/x]" {
		t.Errorf("targets %s", names)
	}
	for _, c := range []struct {
		name    string
		limits  record.Limits
		effects []record.Effect
		want    bool
	}{
		{"known ones", record.Limits{Targets: 1, Names: 1}, []record.Effect{send("", "next"), send("x", "then")}, true},
		{"those without numbers", record.Limits{Targets: 1, Names: 1}, []record.Effect{send("y", "out")}, true},
		{"one more", record.Limits{Targets: 5, Names: 30}, []record.Effect{send("y", "next"), send("y", "next", "out")}, true},
		{"two more", record.Limits{Targets: 5, Names: 99}, []record.Effect{send("y", "next", "then")}, false},
		{"a long name", record.Limits{Targets: 5, Names: 30}, []record.Effect{send("yy", "next")}, false},
	} {
		if got := g.TakesTargets(c.effects, sequenced, c.limits); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestAMessageConcernsItsSourceAndItsDependencies(t *testing.T) {
	m := record.Message{Principal: "alice", Source: "p", DependsOn: map[string]uint64{"q": 1}}
	other := record.Message{Principal: "bob", Source: "q"}
	mine := record.Message{Principal: "alice", Source: "q"}
	if !m.Concerns(m.SourceKey()) || !m.Concerns(mine.SourceKey()) || m.Concerns(other.SourceKey()) || m.Concerns("p") {
		t.Error("the sources of one principal are not those of another")
	}
}

func TestTheTokenOfANumberedMessageExpiresNoLaterThanItsGroup(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for name, c := range map[string]struct {
		s    record.Stream
		m    record.Message
		want time.Duration
	}{
		"of the stream, by key":      {record.Stream{Retention: 2 * month, GroupRetention: month}, record.Message{}, 2 * month},
		"by default":                 {record.Stream{GroupRetention: month}, record.Message{}, record.DefaultRetention},
		"of the stream, by number":   {record.Stream{Admission: record.BySequence, Retention: time.Hour, GroupRetention: month}, record.Message{}, time.Hour},
		"longer than its group":      {record.Stream{Admission: record.BySequence, Retention: 2 * month, GroupRetention: month}, record.Message{}, month},
		"a request, which has a key": {record.Stream{Admission: record.BySequence, Retention: 2 * month, GroupRetention: month}, record.Message{Route: "PUT /a"}, 2 * month},
	} {
		if got := c.s.RetentionOf(&c.m); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
