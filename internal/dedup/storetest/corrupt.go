package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

// corruptPlaces selects which of five records are corrupt, by their places in the listing: the
// first, one in the middle, the last, neighbours that would fill a page, all.
func corruptPlaces() [][]int {
	return [][]int{{0}, {2}, {4}, {0, 1}, {2, 3}, {3, 4}, {0, 2, 4}, {0, 1, 2, 3, 4}}
}

func testListCorruptGroups(t *testing.T, s *suite) {
	for _, places := range corruptPlaces() {
		s := newSuite(t, s.harness)
		l, ok := s.Store.(record.Lister)
		if !ok {
			return
		}
		for i := range 5 {
			s.commit(t, record.Group{Key: record.GroupKey{Stream: "orders", Group: fmt.Sprint(i)}}, func(c *record.Commit) { c.Next.State = []byte("whole") })
		}
		listAround(t, s, places, func(after record.GroupKey, limit int) ([]record.GroupKey, error) {
			page, err := l.Groups(t.Context(), "", after, limit)
			var keys []record.GroupKey
			for _, g := range page {
				keys = append(keys, g.Key)
				if string(g.State) != "whole" {
					t.Errorf("group %s is listed with state %q", g.Key, g.State)
				}
			}
			return keys, err
		})
	}
}

func testListCorruptTokens(t *testing.T, s *suite) {
	for _, places := range corruptPlaces() {
		s := newSuite(t, s.harness)
		l, ok := s.Store.(record.Lister)
		if !ok {
			return
		}
		for i := range 5 {
			s.swap(t, record.Token{Key: tokenKey(i)}, record.Token{Key: tokenKey(i), State: record.Issued, Owner: "whole"})
		}
		listAround(t, s, places, func(after record.TokenKey, limit int) ([]record.TokenKey, error) {
			page, err := l.Tokens(t.Context(), after, limit)
			var keys []record.TokenKey
			for _, token := range page {
				keys = append(keys, token.Key)
				if token.Owner != "whole" {
					t.Errorf("token %s is listed with owner %q", token.Key, token.Owner)
				}
			}
			return keys, err
		})
	}
}

// listAround damages records, and lists the others in pages of two. A shorter page is the last one.
func listAround[K comparable](t *testing.T, s *suite, places []int, list func(after K, limit int) ([]K, error)) {
	t.Helper()
	var start K
	all, err := list(start, 100)
	if err != nil || len(all) != 5 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	var want []K
	for i, key := range all {
		if slices.Contains(places, i) {
			s.harness.Corrupt(t, s.Store, key)
			continue
		}
		want = append(want, key)
	}
	var got []K
	told := false
	for after, more := start, true; more; {
		page, err := list(after, 2)
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			t.Fatalf("corrupt at %v: %v", places, err)
		}
		told = told || err != nil
		got = append(got, page...)
		if more = len(page) == 2; more {
			after = page[1]
		}
	}
	if !told {
		t.Errorf("corrupt at %v: nothing was said", places)
	}
	same(t, fmt.Sprintf("corrupt at %v", places), got, want)
}
