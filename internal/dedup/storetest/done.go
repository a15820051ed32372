package storetest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func doneCases() []testCase {
	return []testCase{
		{name: "the store reports whether it marks tokens done in a commit", run: testCommitsDone},
		{name: "a commit with done tokens is refused and changes nothing", run: testDoneRefused, when: commitsNoDone},
		{name: "a commit marks its tokens done, whatever they were", run: testDone, when: commitsDone},
		{name: "a commit that conflicts marks no token done", run: testDoneConflict, when: commitsDone},
		{name: "a commit that is repeated marks no token done again", run: testDoneRepeated, when: commitsDone},
		{name: "of many commits on one version only the winner's tokens are done", run: testDoneRace, when: commitsDone},
		{name: "whoever reads a committed group finds its tokens done", run: testDoneAfterGroup, when: commitsDone},
		{name: "tokens that a commit marked are done after a restart", run: testDoneRestart, when: func(h Harness) bool { return h.CommitsDone && h.Reopen != nil }},
	}
}

func commitsDone(h Harness) bool   { return h.CommitsDone }
func commitsNoDone(h Harness) bool { return !h.CommitsDone }

func testCommitsDone(t *testing.T, s *suite) {
	same(t, "capability", record.CommitsDone(s.Store), s.harness.CommitsDone)
}

// marking makes a commit mark tokens done.
func marking(done ...record.Token) func(c *record.Commit) {
	return func(c *record.Commit) { c.Done = done }
}

func testDoneRefused(t *testing.T, s *suite) {
	err := s.Commit(t.Context(), following(s.group(t, groupA()), marking(fullToken(tokenKey(1), record.Done))))
	if err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want an error that is no conflict", err)
	}
	same(t, "group", s.group(t, groupA()), record.Group{Key: groupA()})
	same(t, "token", s.token(t, tokenKey(1)), record.Token{Key: tokenKey(1)})
}

func testDone(t *testing.T, s *suite) {
	s.swap(t, record.Token{Key: tokenKey(2)}, fullToken(tokenKey(2), record.Issued))
	large := record.Token{Key: tokenKey(3), State: record.Done, Reply: &record.Reply{Status: 200, Body: bytes.Repeat([]byte("x"), 300<<10)}}
	want := []record.Token{fullToken(tokenKey(1), record.Done), fullToken(tokenKey(2), record.Done), large}
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) {
		c.Next, c.Hold, c.Done = fullGroup(groupA()), []record.Held{fullHeld(2)}, want
	})
	same(t, "group", s.group(t, groupA()), g)
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 10), []record.Held{fullHeld(2)})
	for _, token := range want {
		same(t, "token", s.token(t, token.Key), token)
	}
	want[0].Reply.Body[0]++
	same(t, "a reply that the caller changed later", s.token(t, tokenKey(1)), fullToken(tokenKey(1), record.Done))
}

func testDoneConflict(t *testing.T, s *suite) {
	issued := s.swap(t, record.Token{Key: tokenKey(2)}, fullToken(tokenKey(2), record.Issued))
	old := s.group(t, groupA())
	s.commit(t, old, nil)
	c := following(old, marking(fullToken(tokenKey(1), record.Done), fullToken(tokenKey(2), record.Done)))
	if err := s.Commit(t.Context(), c); !errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	same(t, "absent token", s.token(t, tokenKey(1)), record.Token{Key: tokenKey(1)})
	same(t, "issued token", s.token(t, tokenKey(2)), issued)
}

// A DELETE may replace the done token by a tombstone before the caller repeats its commit.
func testDoneRepeated(t *testing.T, s *suite) {
	done := fullToken(tokenKey(1), record.Done)
	c := following(s.group(t, groupA()), marking(done))
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	tombstone := done
	tombstone.Owner, tombstone.Reply, tombstone.Reason = "delete", nil, record.ReasonDeleted
	s.swap(t, done, tombstone)
	if err := s.Commit(t.Context(), c); err != nil && !errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v", err)
	}
	same(t, "token", s.token(t, done.Key), tombstone)
}

func testDoneRace(t *testing.T, s *suite) {
	const callers = 8
	g := s.group(t, groupA())
	for range 20 {
		won := race(t, callers, func(i int) error {
			done := record.Token{Key: tokenKey(int(g.Version)*callers + i), State: record.Done}
			return s.Commit(t.Context(), following(g, func(c *record.Commit) { c.Next.State, c.Done = []byte{byte(i)}, []record.Token{done} }))
		})
		next := s.group(t, groupA())
		for i := range callers {
			want := record.Absent
			if i == int(next.State[0]) {
				want = record.Done
			}
			if got := s.token(t, tokenKey(int(g.Version)*callers+i)).State; won != 1 || got != want {
				t.Fatalf("version %d: %d commits won, token %d is %v, want %v", next.Version, won, i, got, want)
			}
		}
		g = next
	}
}

func testDoneAfterGroup(t *testing.T, s *suite) {
	const last = 200
	race(t, 2, func(i int) error {
		g := record.Group{Key: groupA()}
		if i == 0 {
			for n := 1; n <= last; n++ {
				c := following(g, marking(record.Token{Key: tokenKey(n), State: record.Done}))
				if err := s.Commit(t.Context(), c); err != nil {
					return err
				}
				g = c.Next
			}
			return nil
		}
		for g.Version < last {
			next := tokenKey(int(g.Version) + 1)
			groups, tokens, err := s.Load(t.Context(), []record.GroupKey{groupA()}, []record.TokenKey{next})
			if err != nil {
				return err
			}
			if groups[0].Version > g.Version && tokens[0].State != record.Done {
				t.Errorf("version %d, and token %d is %v", groups[0].Version, g.Version+1, tokens[0].State)
			}
			g = groups[0]
		}
		return nil
	})
}

func testDoneRestart(t *testing.T, s *suite) {
	done := fullToken(tokenKey(1), record.Done)
	g := s.commit(t, s.group(t, groupA()), marking(done))
	s.Store = s.harness.Reopen(t, s.Store)
	same(t, "group", s.group(t, groupA()), g)
	same(t, "token", s.token(t, done.Key), done)
}
