package storetest

import (
	"errors"
	"testing"

	"github.com/effectively-once/once/internal/record"
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
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next, c.Hold = fullGroup(groupA()), []record.Held{fullHeld(2)} })
	leased := s.swap(t, record.Token{Key: tokenKey(1)}, fullToken(tokenKey(1), record.Leased))
	asked := s.swap(t, record.Token{Key: tokenKey(2)}, fullToken(tokenKey(2), record.Issued))
	s.Store = s.harness.Reopen(t, s.Store)
	same(t, "group", s.group(t, groupA()), g)
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 10), []record.Held{fullHeld(2)})
	same(t, "leased token", s.token(t, leased.Key), leased)
	same(t, "stored request", s.token(t, asked.Key), asked)
}

func testRestartOrder(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Pending = pending(1, 2) })
	issued := s.swap(t, record.Token{Key: tokenKey(1)}, record.Token{Key: tokenKey(1), State: record.Issued})
	done := fullToken(tokenKey(2), record.Done)
	if err := s.MarkDone(t.Context(), []record.Token{done}); err != nil {
		t.Fatal(err)
	}
	s.clear(t, record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1}})
	s.commit(t, s.group(t, groupB()), nil)
	s.Store = s.harness.Reopen(t, s.Store)
	g.Pending = pending(2)
	same(t, "group", s.group(t, groupA()), g)
	same(t, "issued token", s.token(t, issued.Key), issued)
	same(t, "done token", s.token(t, done.Key), done)
}

func wantCorrupt(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("%s: got %v, want %v", what, err, record.ErrCorrupt)
	}
}

func testCorruptGroup(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next = fullGroup(groupA()) })
	s.commit(t, s.group(t, groupB()), nil)
	s.harness.Corrupt(t, s.Store, groupA())
	_, _, err := s.Load(t.Context(), []record.GroupKey{groupB(), groupA()}, nil)
	wantCorrupt(t, "load", err)
	if err := s.Clear(t.Context(), record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{1}}); err != nil {
		wantCorrupt(t, "clear", err)
	}
	for what, loaded := range map[string]record.Group{"commit": g, "commit of a new record": {Key: groupA()}} {
		// A store may report a conflict if the damaged record fails its condition: the next load
		// reports the corruption.
		if err := s.Commit(t.Context(), following(loaded, nil)); !errors.Is(err, record.ErrConflict) {
			wantCorrupt(t, what, err)
		}
	}
	_, _, err = s.Load(t.Context(), []record.GroupKey{groupA()}, nil)
	wantCorrupt(t, "load after the writes", err)
	same(t, "the other group", s.group(t, groupB()).Version, uint64(1))
}

func testCorruptToken(t *testing.T, s *suite) {
	key := tokenKey(1)
	token := s.swap(t, record.Token{Key: key}, fullToken(key, record.Leased))
	s.harness.Corrupt(t, s.Store, key)
	_, _, err := s.Load(t.Context(), nil, []record.TokenKey{key})
	wantCorrupt(t, "load", err)
	_, err = s.SwapToken(t.Context(), token, fullToken(key, record.Done))
	wantCorrupt(t, "swap", err)
	_, err = s.SwapToken(t.Context(), record.Token{Key: key}, fullToken(key, record.Done))
	wantCorrupt(t, "swap from absent", err)
	other := record.Token{Key: tokenKey(2), State: record.Issued, Owner: "us"}
	results := record.SwapTokens(t.Context(), s.Store, []record.Swap{{Old: token, Next: fullToken(key, record.Done)}, {Old: record.Token{Key: other.Key}, Next: other}})
	wantCorrupt(t, "swap together with another", results[0].Err)
	if results[1].Err != nil {
		t.Errorf("swap of the other token: %v", results[1].Err)
	}
	same(t, "the other token", s.token(t, other.Key), other)
}

func testCorruptHeld(t *testing.T, s *suite) {
	s.commit(t, s.group(t, groupA()), hold(fullHeld(2), fullHeld(3)))
	s.harness.Corrupt(t, s.Store, keyOf(fullHeld(3)))
	_, err := s.Held(t.Context(), keyOf(fullHeld(2)), 10)
	wantCorrupt(t, "held", err)
}
