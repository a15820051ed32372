package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func commitCases() []testCase {
	return []testCase{
		{name: "a commit on any but the stored incarnation and version conflicts and changes nothing", run: testConditions},
		{name: "version 0 finds an expired record absent, and the version of that record conflicts", run: testCommitExpired},
		{name: "an expired record's versions do not come back with its successor's", run: testIncarnations},
		{name: "an entry that was cleared after the load stays cleared", run: testCommitAfterClear},
		{name: "a part that was marked as sent after the load stays marked, and a new entry comes with its marks", run: testCommitAfterSent},
		{name: "an entry that was loaded stays as it is stored, whatever the commit has in its place", run: testCommitKeeps},
		{name: "an entry that the commit leaves out is removed", run: testCommitRemoves},
		{name: "a commit that is repeated conflicts", run: testRepeatedCommit, when: func(h Harness) bool { return !h.RecognisesCommit }},
		{name: "a commit that is repeated is recognised until another one follows", run: testRecognisedCommit, when: func(h Harness) bool { return h.RecognisesCommit }},
	}
}

func testConditions(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.State = []byte("1") })
	g = s.commit(t, g, func(c *record.Commit) { c.Next.State = []byte("2") })
	for name, loaded := range map[string]record.Group{
		"an older version":                     {Key: groupA(), Incarnation: 1000, Version: 1},
		"a newer version":                      {Key: groupA(), Incarnation: 1000, Version: 3},
		"version 0 on an existing record":      {Key: groupA()},
		"version 0 of its incarnation":         {Key: groupA(), Incarnation: 1000},
		"the version of another incarnation":   {Key: groupA(), Incarnation: 999, Version: 2},
		"the version of no incarnation":        {Key: groupA(), Version: 2},
		"a version of a record that is absent": {Key: groupB(), Incarnation: 1000, Version: 1},
	} {
		c := following(loaded, func(c *record.Commit) { c.Next.State, c.Next.Incarnation = []byte("lost"), 1000 })
		if err := s.Commit(t.Context(), c); !errors.Is(err, record.ErrConflict) {
			t.Errorf("%s: got %v, want a conflict", name, err)
		}
	}
	same(t, "record after the conflicts", s.group(t, groupA()), g)
	same(t, "absent record after the conflicts", s.group(t, groupB()), record.Group{Key: groupB()})
}

func testCommitExpired(t *testing.T, s *suite) {
	old := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Expires = s.clock.In(time.Minute) })
	fresh := following(record.Group{Key: groupA()}, func(c *record.Commit) { c.Next.Incarnation = 2000 })

	s.clock.Advance(time.Minute - time.Millisecond)
	if err := s.Commit(t.Context(), fresh); !errors.Is(err, record.ErrConflict) {
		t.Errorf("version 0 just before the expiry: got %v, want a conflict", err)
	}
	s.clock.Advance(time.Millisecond)
	if err := s.Commit(t.Context(), following(old, nil)); !errors.Is(err, record.ErrConflict) {
		t.Errorf("the expired version: got %v, want a conflict", err)
	}
	if err := s.Commit(t.Context(), fresh); err != nil {
		t.Errorf("version 0 at the expiry: %v", err)
	}
	same(t, "record", s.group(t, groupA()), fresh.Next)
}

func testIncarnations(t *testing.T, s *suite) {
	old := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Expires = s.clock.In(time.Minute) })
	s.clock.Advance(time.Minute)
	now := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Incarnation = 2000 })
	if err := s.Commit(t.Context(), following(old, nil)); !errors.Is(err, record.ErrConflict) {
		t.Errorf("commit on version 1 of the expired incarnation: got %v, want a conflict", err)
	}
	same(t, "record", s.group(t, groupA()), now)
}

func testCommitAfterClear(t *testing.T, s *suite) {
	loaded := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1, 2, 3) })
	if err := s.Clear(t.Context(), record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1, 3}}); err != nil {
		t.Fatal(err)
	}
	s.commit(t, loaded, func(c *record.Commit) { c.Next.Pending = pending(1, 2, 3, 4) })
	same(t, "pending", numbers(s.group(t, groupA())), []uint64{2, 4})
}

func testCommitAfterSent(t *testing.T, s *suite) {
	loaded := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1) })
	sent := []record.Sent{{Effect: 0, To: "ledger"}}
	if err := s.Clear(t.Context(), record.Clear{Group: groupA(), Incarnation: 1000, Sent: map[uint64][]record.Sent{1: sent}}); err != nil {
		t.Fatal(err)
	}
	s.commit(t, loaded, func(c *record.Commit) {
		c.Next.Pending = pending(1, 2, 3)
		c.Next.Pending[2].Sent = sent
	})
	g := s.group(t, groupA())
	same(t, "pending", numbers(g), []uint64{1, 2, 3})
	for i, want := range [][]record.Sent{sent, nil, sent} {
		same(t, "sent", g.Pending[i].Sent, want)
	}
}

func testCommitKeeps(t *testing.T, s *suite) {
	loaded := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1, 2) })
	s.commit(t, loaded, func(c *record.Commit) {
		c.Next.Pending = []record.Pending{{Number: 1, Identity: "another", Attempt: "another"}, loaded.Pending[1], pending(3)[0]}
	})
	same(t, "pending", s.group(t, groupA()).Pending, pending(1, 2, 3))
}

func testCommitRemoves(t *testing.T, s *suite) {
	loaded := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1, 2) })
	s.commit(t, loaded, func(c *record.Commit) { c.Next.Pending = pending(2, 3) })
	same(t, "pending", numbers(s.group(t, groupA())), []uint64{2, 3})
}

func testRepeatedCommit(t *testing.T, s *suite) {
	c := following(s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1) })
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), c); !errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	same(t, "record", s.group(t, groupA()), c.Next)
}

func testRecognisedCommit(t *testing.T, s *suite) {
	c := following(s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1); c.Attempt = "mine" })
	for range 2 {
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "record", s.group(t, groupA()), c.Next)
	other := c
	other.Attempt = "another"
	if err := s.Commit(t.Context(), other); !errors.Is(err, record.ErrConflict) {
		t.Errorf("another attempt of the same content: got %v, want a conflict", err)
	}
	later, successor := c, c // an attempt may have more than one commit
	later.Loaded.Incarnation, later.Loaded.Version, later.Next.Version = c.Next.Incarnation, c.Next.Version+1, c.Next.Version+2
	successor.Next.Incarnation++
	for name, c := range map[string]record.Commit{"a later version": later, "another incarnation": successor} {
		if err := s.Commit(t.Context(), c); !errors.Is(err, record.ErrConflict) {
			t.Errorf("%s by the same attempt: got %v, want a conflict", name, err)
		}
	}
	s.commit(t, c.Next, func(c *record.Commit) { c.Attempt = "a third" })
	if err := s.Commit(t.Context(), c); !errors.Is(err, record.ErrConflict) {
		t.Errorf("repeated after another commit: got %v, want a conflict", err)
	}
}
