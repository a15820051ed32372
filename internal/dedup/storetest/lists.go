package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func listerCases() []testCase {
	return []testCase{
		{name: "groups come page by page, each once, whole, and of one stream", run: withLister(testGroupPages)},
		{name: "tokens come page by page, each once", run: withLister(testTokenPages)},
		{name: "corrupt groups are passed over, wherever they stand, and said aloud", run: testListCorruptGroups, when: corrupts},
		{name: "corrupt tokens are passed over, wherever they stand, and said aloud", run: testListCorruptTokens, when: corrupts},
		{name: "expired records are not listed", run: withLister(testListExpired)},
		{name: "expire deletes what has expired, up to the limit, and nothing else", run: withLister(testExpire)},
	}
}

// withLister runs a case if the store is a record.Lister.
func withLister(f func(t *testing.T, s *suite, l record.Lister)) func(t *testing.T, s *suite) {
	return func(t *testing.T, s *suite) {
		if l, ok := s.Store.(record.Lister); ok {
			f(t, s, l)
		}
	}
}

func testGroupPages(t *testing.T, s *suite, l record.Lister) {
	count := map[string]int{"a": 10, "a-b": 10, "b": 10, "": 30, "none": 0}
	for i := range 30 {
		key := record.GroupKey{Stream: []string{"a-b", "a", "b"}[i%3], Group: fmt.Sprint("g", i)}
		s.commit(t, s.group(t, key), func(c *record.Commit) { c.Next.State = []byte(key.String()) })
	}
	stateOf := record.GroupKey.String
	if s.harness.KeepsApart {
		stateOf = func(record.GroupKey) string { return "" }
	}
	for stream, want := range count {
		seen := map[record.GroupKey]bool{}
		var after record.GroupKey
		for {
			page, err := l.Groups(t.Context(), stream, after, 7)
			if err != nil || len(page) > 7 {
				t.Fatalf("%d groups, %v", len(page), err)
			}
			if len(page) == 0 {
				break
			}
			for _, g := range page {
				if seen[g.Key] || string(g.State) != stateOf(g.Key) || stream != "" && g.Key.Stream != stream {
					t.Errorf("stream %q: group %s with state %q", stream, g.Key, g.State)
				}
				seen[g.Key] = true
			}
			after = page[len(page)-1].Key
		}
		if len(seen) != want {
			t.Errorf("stream %q: %d groups, want %d", stream, len(seen), want)
		}
	}
}

func testTokenPages(t *testing.T, s *suite, l record.Lister) {
	var want []record.TokenKey
	for i := range 30 {
		want = append(want, tokenKey(i))
		s.swap(t, record.Token{Key: want[i]}, record.Token{Key: want[i], State: record.Issued})
	}
	var got []record.TokenKey
	var after record.TokenKey
	for {
		page, err := l.Tokens(t.Context(), after, 7)
		if err != nil || len(page) > 7 {
			t.Fatalf("%d tokens, %v", len(page), err)
		}
		if len(page) == 0 {
			break
		}
		for _, token := range page {
			got = append(got, token.Key)
		}
		after = got[len(got)-1]
	}
	for _, keys := range [][]record.TokenKey{got, want} { // a store may list in any order
		slices.SortFunc(keys, func(a, b record.TokenKey) int { return bytes.Compare(a[:], b[:]) })
	}
	same(t, "tokens", got, want)
}

// age writes three groups and three tokens of which one expires in a minute, one later and one
// never.
func age(t *testing.T, s *suite) {
	t.Helper()
	for i, expires := range []time.Time{s.clock.In(time.Minute), s.clock.In(2 * time.Minute), {}} {
		key := record.GroupKey{Stream: "orders", Group: fmt.Sprint(i)}
		s.commit(t, s.group(t, key), func(c *record.Commit) { c.Next.Expires = expires })
		s.swap(t, record.Token{Key: tokenKey(i)}, record.Token{Key: tokenKey(i), State: record.Done, Expires: expires})
	}
}

func listed(t *testing.T, l record.Lister) (groups, tokens int) {
	t.Helper()
	gs, err := l.Groups(t.Context(), "", record.GroupKey{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	ts, err := l.Tokens(t.Context(), record.TokenKey{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return len(gs), len(ts)
}

func testListExpired(t *testing.T, s *suite, l record.Lister) {
	age(t, s)
	for _, c := range []struct {
		advance time.Duration
		want    int
	}{{time.Minute - time.Millisecond, 3}, {time.Millisecond, 2}, {time.Hour, 1}} {
		s.clock.Advance(c.advance)
		if groups, tokens := listed(t, l); groups != c.want || tokens != c.want {
			t.Errorf("%d groups and %d tokens are listed, want %d", groups, tokens, c.want)
		}
	}
}

func testExpire(t *testing.T, s *suite, l record.Lister) {
	age(t, s)
	for _, c := range []struct {
		advance time.Duration
		limit   int
		want    int
	}{{time.Minute - time.Millisecond, 100, 0}, {time.Millisecond, 100, 2}, {time.Hour, 0, 0}, {0, 1, 1}, {0, 100, 1}, {0, 100, 0}} {
		s.clock.Advance(c.advance)
		if n, err := l.Expire(t.Context(), c.limit); n != c.want || err != nil {
			t.Errorf("expired %d, %v; want %d", n, err, c.want)
		}
	}
	if groups, tokens := listed(t, l); groups != 1 || tokens != 1 {
		t.Errorf("%d groups and %d tokens are left, want 1", groups, tokens)
	}
	s.commit(t, s.group(t, record.GroupKey{Stream: "orders", Group: "3"}), func(c *record.Commit) { c.Next.Expires = s.clock.In(time.Minute) })
	s.clock.Advance(time.Minute)
	if n, err := l.Expire(t.Context(), 1); n != 1 || err != nil {
		t.Errorf("behind one that lives, expired %d, %v; want 1", n, err)
	}
	if g := s.group(t, record.GroupKey{Stream: "orders", Group: "2"}); g.Version != 1 {
		t.Error("a record that never expires is gone")
	}
}
