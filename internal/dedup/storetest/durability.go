package storetest

import (
	"errors"
	"testing"

	"github.com/effectively-once/once/internal/dedup"
)

func durabilityCases() []testCase {
	return []testCase{
		{name: "what was written is there after a restart", run: testRestart, when: reopens},
		{name: "marks and clears before a commit are there after a restart", run: testRestartOrder, when: reopens},
		{name: "a corrupt group is an error, never absent", run: testCorruptGroup, when: corrupts},
		{name: "a corrupt token is an error, never absent", run: testCorruptToken, when: corrupts},
		{name: "a corrupt held message is an error, never absent", run: testCorruptHeld, when: corrupts},
	}
}

func reopens(h Harness) bool  { return h.Reopen != nil }
func corrupts(h Harness) bool { return h.Corrupt != nil }

func testRestart(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *dedup.Commit) { c.Next, c.Hold = fullGroup(groupA()), []dedup.Held{fullHeld(2)} })
	leased := s.swap(t, dedup.Token{Key: tokenKey(1)}, fullToken(tokenKey(1), dedup.Leased))
	asked := s.swap(t, dedup.Token{Key: tokenKey(2)}, fullToken(tokenKey(2), dedup.Issued))
	s.Store = s.harness.Reopen(t, s.Store)
	same(t, "group", s.group(t, groupA()), g)
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 10), []dedup.Held{fullHeld(2)})
	same(t, "leased token", s.token(t, leased.Key), leased)
	same(t, "stored request", s.token(t, asked.Key), asked)
}

func testRestartOrder(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *dedup.Commit) { c.Next.Pending = pending(1, 2) })
	issued := s.swap(t, dedup.Token{Key: tokenKey(1)}, dedup.Token{Key: tokenKey(1), State: dedup.Issued})
	done := fullToken(tokenKey(2), dedup.Done)
	if err := s.MarkDone(t.Context(), []dedup.Token{done}); err != nil {
		t.Fatal(err)
	}
	s.clear(t, dedup.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1}})
	s.commit(t, s.group(t, groupB()), nil)
	s.Store = s.harness.Reopen(t, s.Store)
	g.Pending = pending(2)
	same(t, "group", s.group(t, groupA()), g)
	same(t, "issued token", s.token(t, issued.Key), issued)
	same(t, "done token", s.token(t, done.Key), done)
}

func wantCorrupt(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, dedup.ErrCorrupt) {
		t.Errorf("%s: got %v, want %v", what, err, dedup.ErrCorrupt)
	}
}

func testCorruptGroup(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *dedup.Commit) { c.Next = fullGroup(groupA()) })
	s.commit(t, s.group(t, groupB()), nil)
	s.harness.Corrupt(t, s.Store, groupA())
	_, _, err := s.Load(t.Context(), []dedup.GroupKey{groupB(), groupA()}, nil)
	wantCorrupt(t, "load", err)
	wantCorrupt(t, "clear", s.Clear(t.Context(), dedup.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1}}))
	wantCorrupt(t, "commit", s.Commit(t.Context(), following(g, nil)))
	wantCorrupt(t, "commit of a new record", s.Commit(t.Context(), following(dedup.Group{Key: groupA()}, nil)))
	same(t, "the other group", s.group(t, groupB()).Version, uint64(1))
}

func testCorruptToken(t *testing.T, s *suite) {
	key := tokenKey(1)
	token := s.swap(t, dedup.Token{Key: key}, fullToken(key, dedup.Leased))
	s.harness.Corrupt(t, s.Store, key)
	_, _, err := s.Load(t.Context(), nil, []dedup.TokenKey{key})
	wantCorrupt(t, "load", err)
	_, err = s.SwapToken(t.Context(), token, fullToken(key, dedup.Done))
	wantCorrupt(t, "swap", err)
	_, err = s.SwapToken(t.Context(), dedup.Token{Key: key}, fullToken(key, dedup.Done))
	wantCorrupt(t, "swap from absent", err)
}

func testCorruptHeld(t *testing.T, s *suite) {
	s.commit(t, s.group(t, groupA()), hold(fullHeld(2), fullHeld(3)))
	s.harness.Corrupt(t, s.Store, keyOf(fullHeld(3)))
	_, err := s.Held(t.Context(), keyOf(fullHeld(2)), 10)
	wantCorrupt(t, "held", err)
}
