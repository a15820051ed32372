package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func groupCases() []testCase {
	return []testCase{
		{name: "a missing record reads as version 0, a missing token as absent", run: testAbsent},
		{name: "a load after a commit sees all of it", run: testRoundTrip},
		{name: "the smallest record comes back", run: testSmallRecord},
		{name: "records come in the order of the keys, three hundred at once", run: testManyKeys},
		{name: "names that are prefixes of one another are different groups", run: testPrefixNames},
		{name: "a state of 200 KB comes back", run: testLargeState},
		{name: "a record that expires now reads as absent, one that expires later does not", run: testGroupExpiry},
		{name: "a cancelled context is an error", run: testCancelled},
	}
}

func testAbsent(t *testing.T, s *suite) {
	same(t, "group", s.group(t, groupA()), record.Group{Key: groupA()})
	same(t, "token", s.token(t, tokenKey(1)), record.Token{Key: tokenKey(1)})
	same(t, "held", s.held(t, keyOf(fullHeld(1)), 10), []record.Held(nil))
	groups, tokens, err := s.Load(t.Context(), nil, nil)
	if err != nil || len(groups) != 0 || len(tokens) != 0 {
		t.Errorf("load of nothing: %v, %v, %v", groups, tokens, err)
	}
}

func testRoundTrip(t *testing.T, s *suite) {
	want := fullGroup(groupA())
	s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next = want })
	same(t, "record", s.group(t, groupA()), want)

	want.Version, want.State, want.Expires = 2, []byte("second"), s.clock.In(time.Hour)
	s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next = want })
	same(t, "record after the second commit", s.group(t, groupA()), want)
}

func testSmallRecord(t *testing.T, s *suite) {
	want := s.commit(t, s.group(t, groupA()), nil)
	same(t, "record", s.group(t, groupA()), want)
	want = s.commit(t, want, func(c *record.Commit) {
		c.Next.Pending = []record.Pending{{Number: 1, Effects: []record.Effect{{}}, Reply: &record.Reply{}}}
		c.Next.Sources = map[string]record.Source{"": {}}
		c.Next.Chained = map[string]uint64{"": 0}
	})
	same(t, "record of empty parts", s.group(t, groupA()), want)
}

func testManyKeys(t *testing.T, s *suite) {
	var groups []record.GroupKey
	var tokens []record.TokenKey
	for i := range 300 {
		key := record.GroupKey{Stream: "orders", Group: fmt.Sprint("group ", (i*7)%300)}
		groups, tokens = append(groups, key), append(tokens, tokenKey((i*11)%300))
		if i%3 == 0 {
			continue
		}
		s.commit(t, record.Group{Key: key}, func(c *record.Commit) { c.Next.State = []byte(key.Group) })
		s.swap(t, record.Token{Key: tokens[i]}, record.Token{Key: tokens[i], State: record.Issued, Epoch: uint64(i)})
	}
	gs, ts, err := s.Load(t.Context(), groups, tokens)
	if err != nil || len(gs) != 300 || len(ts) != 300 {
		t.Fatalf("%d groups, %d tokens, %v", len(gs), len(ts), err)
	}
	for i := range 300 {
		there := i%3 != 0
		if gs[i].Key != groups[i] || there != (gs[i].Version == 1) || there != (string(gs[i].State) == groups[i].Group) {
			t.Errorf("group %d: got %s, version %d, state %q", i, gs[i].Key, gs[i].Version, gs[i].State)
		}
		if ts[i].Key != tokens[i] || there != (ts[i].State == record.Issued) || there && ts[i].Epoch != uint64(i) {
			t.Errorf("token %d: got %s, %v, epoch %d", i, ts[i].Key, ts[i].State, ts[i].Epoch)
		}
	}
}

func testPrefixNames(t *testing.T, s *suite) {
	keys := []record.GroupKey{{Stream: "a", Group: "b"}, {Stream: "a", Group: "bb"}, {Stream: "ab", Group: "b"}, {Stream: "a", Group: "b/b"}, {Stream: "a", Group: "ü"}}
	for i, key := range keys {
		s.commit(t, s.group(t, key), func(c *record.Commit) { c.Next.Last = uint64(i + 1) })
	}
	for i, key := range keys {
		if g := s.group(t, key); g.Last != uint64(i+1) {
			t.Errorf("group %s: read the record of another", key)
		}
	}
}

func testLargeState(t *testing.T, s *suite) {
	state := bytes.Repeat([]byte("0123456789abcdef"), 200<<10/16)
	s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.State = state })
	if got := s.group(t, groupA()); !bytes.Equal(got.State, state) {
		t.Errorf("state of %d bytes came back with %d, or changed", len(state), len(got.State))
	}
}

func testGroupExpiry(t *testing.T, s *suite) {
	s.commit(t, s.group(t, groupA()), func(c *record.Commit) { c.Next.Expires = s.clock.In(time.Minute) })
	s.clock.Advance(time.Minute - time.Millisecond)
	if g := s.group(t, groupA()); g.Version != 1 {
		t.Error("absent before it expires")
	}
	s.clock.Advance(time.Millisecond)
	same(t, "record that expires now", s.group(t, groupA()), record.Group{Key: groupA()})
}

func testCancelled(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := s.Load(ctx, []record.GroupKey{groupA()}, nil)
	_, heldErr := s.Held(ctx, keyOf(fullHeld(1)), 1)
	_, swapErr := s.SwapToken(ctx, record.Token{Key: tokenKey(1)}, record.Token{Key: tokenKey(1), State: record.Issued})
	for name, err := range map[string]error{
		"load":       err,
		"held":       heldErr,
		"swap token": swapErr,
		"commit":     s.Commit(ctx, following(record.Group{Key: groupA()}, nil)),
		"clear":      s.Clear(ctx, record.Clear{Group: groupA()}),
		"mark done":  s.MarkDone(ctx, []record.Token{{Key: tokenKey(1), State: record.Done}}),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", name, err, context.Canceled)
		}
	}
}
