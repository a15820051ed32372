package storetest

import (
	"cmp"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func clearCases() []testCase {
	return []testCase{
		{name: "a clear removes its numbers and leaves all else, the version too", run: testClear},
		{name: "numbers, records and incarnations that are not there are fine", run: testClearMissing},
		{name: "a clear that leaves nothing sets the expiry, once", run: testClearExpires},
		{name: "a clear sets no expiry while messages are held", run: testClearHeld},
		{name: "a clear sets no expiry before the retention after the last timer", run: testClearTimers},
		{name: "a clear of no numbers sets the expiry of an idle record", run: testClearIdle},
		{name: "a clear sets no expiry before the entries that are kept, of this clear and of others", run: testClearLatest},
		{name: "a clear sets no expiry of a record that is kept for ever", run: testClearForever},
		{name: "a clear keeps a record for its stored retention, not for that which its caller has read", run: testClearRetention},
		{name: "a clear marks what was sent, and repeating it changes nothing", run: testClearSent},
		{name: "a mark of a number that is not there marks nothing, nor what comes under that number", run: testClearSentMissing},
		{name: "an expired record is not cleared", run: testClearExpired},
		{name: "a clear replaces an entry by its kept form, which the next clear leaves alone", run: testClearKeeps},
		{name: "a kept form replaces nothing if its entry is gone", run: testClearKeepsMissing},
		{name: "a clear that leaves kept entries only sets the expiry", run: testClearKeepsExpires},
		{name: "a clear removes a kept entry", run: testClearKept},
		{name: "a commit adds, carries and removes kept entries, also many at once", run: testCommitKept},
	}
}

// clear clears for a caller that has read a record with a retention of an hour, unless c says
// another one.
func (s *suite) clear(t *testing.T, c record.Clear) {
	t.Helper()
	c.Retention = cmp.Or(c.Retention, time.Hour)
	if err := s.Clear(t.Context(), c); err != nil {
		t.Fatalf("clear: %v", err)
	}
}

func testClear(t *testing.T, s *suite) {
	want := s.commit(t, s.group(t, groupA()), func(c *record.Commit) {
		c.Next = fullGroup(groupA())
		c.Next.Pending = pending(1, 3, 5)
	})
	for range 2 {
		s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{5, 1}, Now: s.clock.Now()})
		want.Pending = pending(3)
		same(t, "record", s.group(t, groupA()), want)
	}
	s.commit(t, want, nil)
}

func testClearMissing(t *testing.T, s *suite) {
	for _, incarnation := range []uint64{1000, 0} { // a missing record has incarnation 0
		s.clear(t, record.Clear{Group: groupA(), Incarnation: incarnation, Numbers: []uint64{1}, Now: s.clock.Now()})
		same(t, "missing record", s.group(t, groupA()), record.Group{Key: groupA()})
	}

	want := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1) })
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{2, 3}, Sent: map[uint64][]record.Sent{2: {{To: "x"}}}, Now: s.clock.Now()})
	// as many as are pending
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{2}, Now: s.clock.Now()})
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 999, Numbers: []uint64{1}, Sent: map[uint64][]record.Sent{1: {{To: "x"}}}, Now: s.clock.Now()})
	same(t, "record", s.group(t, groupA()), want)
}

func testClearExpires(t *testing.T, s *suite) {
	s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1, 2) })
	first := record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1}, Now: s.clock.Now()}
	s.clear(t, first)
	if g := s.group(t, groupA()); !g.Expires.IsZero() {
		t.Errorf("expires %s while an entry is pending", g.Expires)
	}
	// 1 is gone already
	last := record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1, 2}, Now: s.clock.In(time.Hour)}
	s.clear(t, last)
	want := s.clock.In(2 * time.Hour)
	last.Now = s.clock.In(2 * time.Hour)
	s.clear(t, last)
	if g := s.group(t, groupA()); !g.Expires.Equal(want) {
		t.Errorf("expires %s, want %s as from the clear that emptied it", g.Expires, want)
	}
	s.clock.Advance(2 * time.Hour)
	same(t, "record after its expiry", s.group(t, groupA()), record.Group{Key: groupA()})
}

func testClearHeld(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) {
		c.Next.Pending = pending(1)
		c.Next.Sources = map[string]record.Source{"s": {Next: 2, Held: record.Ranges{{First: 5, Last: 5}}}}
	})
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1}, Now: s.clock.Now()})
	g.Pending = nil
	same(t, "record", s.group(t, groupA()), g)
}

func testClearTimers(t *testing.T, s *suite) {
	due := s.clock.In(90 * 24 * time.Hour).UTC().Truncate(time.Millisecond)
	timers := map[string]record.Timer{"late": {Number: 3, Due: due}, "early": {Number: 2, Due: s.clock.In(time.Minute).UTC().Truncate(time.Millisecond)}}
	for _, c := range []struct {
		clear, want time.Time
	}{{s.clock.Now(), due.Add(time.Hour)}, {due.Add(time.Hour), due.Add(2 * time.Hour)}} {
		key := record.GroupKey{Stream: groupA().Stream, Group: "timers " + c.clear.String()}
		s.commit(t, s.group(t, key), func(x *record.Commit) {
			x.Next.Pending, x.Next.Retention, x.Next.Timers = pending(1), time.Hour, timers
		})
		s.clear(t, record.Clear{Group: key, Incarnation: 1000, Numbers: []uint64{1}, Now: c.clear})
		g := s.group(t, key)
		if g.Expires.Sub(c.want).Abs() > time.Second {
			t.Errorf("clear at %s: the record expires %s, want %s", c.clear, g.Expires, c.want)
		}
		same(t, "timers", g.Timers, timers)
		s.commit(t, g, func(x *record.Commit) { x.Next.Timers = map[string]record.Timer{"early": timers["early"]} })
		same(t, "timers after one is gone", s.group(t, key).Timers, map[string]record.Timer{"early": timers["early"]})
		s.commit(t, s.group(t, key), func(x *record.Commit) { x.Next.Timers = nil })
		same(t, "timers after all are gone", len(s.group(t, key).Timers), 0)
	}
}

func testClearIdle(t *testing.T, s *suite) {
	want := s.commit(t, s.group(t, groupA()), nil)
	want.Expires = s.clock.In(time.Hour)
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000})
	if g := s.group(t, groupA()); !g.Expires.IsZero() {
		t.Errorf("expires %s by a clear without a time", g.Expires)
	}
	// the second one is too late
	for _, now := range []time.Time{s.clock.Now(), s.clock.In(time.Hour)} {
		s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Retention: time.Hour, Now: now})
		same(t, "record", s.group(t, groupA()), want)
	}
}

func testClearLatest(t *testing.T, s *suite) {
	late := s.clock.In(5 * time.Hour)
	clears := func(g record.Group) map[string]record.Clear {
		done, of := kept(g.Pending[0], late), record.Clear{Group: g.Key, Incarnation: g.Incarnation, Now: s.clock.Now()}
		alone, all, other := of, of, of
		alone.Done, alone.Numbers = []record.Pending{done}, []uint64{2}
		all.Done = []record.Pending{done, kept(g.Pending[1], s.clock.In(time.Minute))}
		other.Numbers = []uint64{2} // the entry 1 is kept already, in which this clear takes no part
		return map[string]record.Clear{"one kept and one removed": alone, "both kept": all, "another one kept before": other}
	}
	for name := range clears(record.Group{Pending: pending(1, 2)}) {
		key := record.GroupKey{Stream: groupA().Stream, Group: name}
		g := s.commit(t, s.group(t, key), func(c *record.Commit) { c.Next.Pending = pending(1, 2) })
		c := clears(g)[name]
		if len(c.Done) == 0 {
			s.clear(t, record.Clear{Group: key, Incarnation: 1000, Done: []record.Pending{kept(g.Pending[0], late)}})
		}
		s.clear(t, c)
		if at := s.group(t, key).Expires; !at.Equal(late) {
			t.Errorf("%s: the record expires %s, want %s as its entry", name, at, late)
		}
	}
	// an entry that the clear removes, and one that it would keep but is kept already, count for
	// nothing
	g := s.commit(t, s.group(t, groupB()), func(c *record.Commit) {
		c.Next.Pending = []record.Pending{kept(pending(1)[0], late), kept(pending(2)[0], s.clock.In(time.Minute))}
	})
	want := s.clock.In(time.Hour)
	s.clear(t, record.Clear{Group: groupB(), Incarnation: 1000, Numbers: []uint64{1}, Done: []record.Pending{kept(g.Pending[1], late)}, Now: s.clock.Now()})
	if at := s.group(t, groupB()).Expires; !at.Equal(want) {
		t.Errorf("the record expires %s, want %s as from the clear on", at, want)
	}
}

func testClearForever(t *testing.T, s *suite) {
	forever := func(c *record.Commit) { c.Next.Pending, c.Next.Retention = pending(1), 0 }
	g := s.commit(t, s.group(t, groupA()), forever)
	// a publisher may have seen the record when it had no state
	c := record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1}, Now: s.clock.Now()}
	g.Pending = nil
	for range 2 {
		s.clear(t, c)
		same(t, "record", s.group(t, groupA()), g)
	}
	kept := s.commit(t, s.group(t, groupB()), forever)
	s.clear(t, record.Clear{Group: groupB(), Incarnation: 1000, Done: []record.Pending{kept.Pending[0].Keep(s.clock.Now())}, Now: c.Now, Retention: time.Hour})
	s.clock.Advance(24 * 365 * time.Hour)
	if at := s.group(t, groupB()); at.Version == 0 || !at.Expires.IsZero() {
		t.Errorf("record %v after a year", at)
	}
	same(t, "record after a year", s.group(t, groupA()), g)

	// a record whose state is deleted has an expiry again
	g = s.commit(t, g, func(c *record.Commit) { c.Next.Pending, c.Next.Retention = pending(2), time.Hour })
	g.Pending, g.Expires = nil, s.clock.In(time.Hour)
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{2}, Now: s.clock.Now()})
	same(t, "record without state", s.group(t, groupA()), g)
}

func testClearRetention(t *testing.T, s *suite) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name       string
		seen, kept time.Duration // by the caller, and by the commit that came then; 0 is for ever
	}{
		{"no other commit", day, day},
		{"a state was written", day, 90 * day},
		{"a state was written that is kept for ever", day, 0},
		{"a state was deleted", 90 * day, day},
		{"a state that was kept for ever was deleted", 0, day},
	} {
		for way, settle := range map[string]func(c *record.Clear, p record.Pending){
			"removed": func(c *record.Clear, p record.Pending) { c.Numbers = []uint64{p.Number} },
			"kept":    func(c *record.Clear, p record.Pending) { c.Done = []record.Pending{kept(p, s.clock.In(time.Hour))} },
			"gone":    func(*record.Clear, record.Pending) {},
		} {
			key := record.GroupKey{Stream: groupA().Stream, Group: c.name + " " + way}
			view := s.commit(t, s.group(t, key), func(x *record.Commit) {
				x.Next.Retention = c.seen
				if way != "gone" {
					x.Next.Pending = pending(1)
				}
			})
			clear := record.NewClear(&view, s.clock.Now())
			if way != "gone" {
				settle(&clear, view.Pending[0])
			}
			s.commit(t, s.group(t, key), func(x *record.Commit) { x.Next.Retention = c.kept })
			for range 2 {
				if err := s.Clear(t.Context(), clear); err != nil {
					t.Fatal(err)
				}
			}
			var want time.Time
			if c.kept > 0 {
				want = s.clock.In(c.kept)
			}
			// a clear that has nothing to remove is for a record of which its caller knows that it expires
			if g := s.group(t, key); !g.Expires.Equal(want) && (way != "gone" || c.seen > 0) {
				t.Errorf("%s, entry %s: the record expires %v, want %v", c.name, way, g.Expires, want)
			}
		}
	}
}

func testClearSent(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1, 2) })
	sent := []record.Sent{{Effect: 0, To: "ledger"}, {Effect: 1, To: "shop"}}
	for _, part := range [][]record.Sent{sent[:1], sent[:1], sent[1:], sent} {
		s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Sent: map[uint64][]record.Sent{2: part}, Now: s.clock.Now()})
	}
	g.Pending[1].Sent = sent
	same(t, "record", s.group(t, groupA()), g)

	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{2}, Sent: map[uint64][]record.Sent{2: {{Effect: 9}}, 1: sent[1:]}})
	g.Pending = g.Pending[:1]
	g.Pending[0].Sent = sent[1:]
	same(t, "record after a clear and a mark in one", s.group(t, groupA()), g)
}

func testClearSentMissing(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1) })
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Sent: map[uint64][]record.Sent{2: {{To: "ledger"}}}})
	same(t, "record", s.group(t, groupA()), g)
	g = s.commit(t, g, func(c *record.Commit) { c.Next.Pending = pending(1, 2) })
	same(t, "record after a commit under that number", s.group(t, groupA()), g)
}

func testClearExpired(t *testing.T, s *suite) {
	// An engine never lets a record with pending entries expire; a store must still not revive one.
	s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending, c.Next.Expires = pending(1), s.clock.In(time.Minute) })
	s.clock.Advance(time.Minute)
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1}, Now: s.clock.Now()})
	same(t, "record", s.group(t, groupA()), record.Group{Key: groupA()})
}

func testClearKeeps(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1, 2) })
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Sent: map[uint64][]record.Sent{1: {{To: "ledger"}}}})
	done := kept(g.Pending[0], s.clock.In(time.Hour))
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Done: []record.Pending{done}, Sent: map[uint64][]record.Sent{2: {{To: "shop"}}}, Now: s.clock.In(time.Hour)})
	g.Pending[0], g.Pending[1].Sent = done, []record.Sent{{To: "shop"}}
	same(t, "record", s.group(t, groupA()), g)

	later := kept(done, s.clock.In(3*time.Hour))
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Done: []record.Pending{later}, Now: s.clock.In(time.Hour)})
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Done: []record.Pending{later}})
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Sent: map[uint64][]record.Sent{1: {{To: "shop"}}}})
	same(t, "record after another clear", s.group(t, groupA()), g)
	s.commit(t, g, nil)
	g.Version++
	same(t, "record after a commit", s.group(t, groupA()), g)
}

func testClearKeepsMissing(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1) })
	gone := kept(pending(2)[0], s.clock.In(time.Hour))
	for _, c := range []record.Clear{
		{Group: groupA(), Incarnation: 1000, Done: []record.Pending{gone}, Now: s.clock.Now()},
		{Group: groupA(), Incarnation: 1000, Done: []record.Pending{gone}},
		{Group: groupA(), Incarnation: 999, Done: []record.Pending{kept(g.Pending[0], s.clock.In(time.Hour))}},
	} {
		s.clear(t, c)
		same(t, "record", s.group(t, groupA()), g)
	}
	s.clear(t, record.Clear{Group: groupB(), Done: []record.Pending{gone}, Now: s.clock.Now()})
	same(t, "missing record", s.group(t, groupB()), record.Group{Key: groupB()})
}

func testClearKeepsExpires(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1, 2) })
	first, second := kept(g.Pending[0], s.clock.In(time.Hour)), kept(g.Pending[1], s.clock.In(time.Hour))
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Done: []record.Pending{first}, Now: s.clock.In(time.Hour)})
	if at := s.group(t, groupA()).Expires; !at.IsZero() {
		t.Errorf("expires %s while an entry is pending", at)
	}
	// the entries of this clear are not all of the record
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Done: []record.Pending{second}, Now: s.clock.In(2 * time.Hour)})
	g.Pending, g.Expires = []record.Pending{first, second}, s.clock.In(3*time.Hour)
	same(t, "record", s.group(t, groupA()), g)
	s.clock.Advance(3 * time.Hour)
	same(t, "record after its expiry", s.group(t, groupA()), record.Group{Key: groupA()})
}

func testClearKept(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) {
		c.Next.Pending = []record.Pending{kept(pending(1)[0], s.clock.In(time.Hour)), kept(pending(2)[0], s.clock.In(time.Hour))}
	})
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1}, Now: s.clock.Now()})
	g.Pending, g.Expires = g.Pending[1:], s.clock.In(time.Hour)
	same(t, "record", s.group(t, groupA()), g)
}

func testCommitKept(t *testing.T, s *suite) {
	many := make([]record.Pending, 60)
	for i := range many {
		p := pending(uint64(i + 1))[0]
		p.Effects, p.Reply = nil, nil
		many[i] = kept(p, s.clock.In(time.Hour))
	}
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending, c.Next.Last = many[:2], 2 })
	same(t, "record", s.group(t, groupA()), g)
	g = s.commit(t, g, func(c *record.Commit) { c.Next.Pending, c.Next.Last = many[1:], 60 })
	same(t, "record after a commit of many", s.group(t, groupA()), g)
	g = s.commit(t, g, func(c *record.Commit) { c.Next.Pending = many[58:] })
	same(t, "record after a commit that removed many", s.group(t, groupA()), g)
}
