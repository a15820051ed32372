package record_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func TestRangesAreASetOfNumbers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var ranges record.Ranges
		set := map[uint64]bool{}
		for range 60 {
			before := append(record.Ranges{}, ranges...)
			n := rnd.Uint64N(30) + 1
			var after record.Ranges
			if rnd.IntN(3) > 0 {
				last := n + rnd.Uint64N(4)
				after = ranges.Add(n, last)
				for k := n; k <= last; k++ {
					set[k] = true
				}
			} else {
				after = ranges.Remove(n)
				delete(set, n)
			}
			if !slices.Equal(ranges, before) {
				t.Fatalf("the receiver %v has become %v", before, ranges)
			}
			ranges = after
			compare(t, ranges, set)
		}
	}
}

// compare checks that ranges equal a set, and that no two of them could be one.
func compare(t *testing.T, ranges record.Ranges, set map[uint64]bool) {
	t.Helper()
	got := map[uint64]bool{}
	last := uint64(0)
	for i, r := range ranges {
		if r.First > r.Last || i > 0 && r.First <= last+1 {
			t.Fatalf("not canonical: %v", ranges)
		}
		for n := r.First; n <= r.Last; n++ {
			got[n] = true
		}
		last = r.Last
	}
	if !maps.Equal(got, set) || ranges.Len() != len(set) {
		t.Fatalf("got %v, want %v", ranges, set)
	}
	for n := range uint64(40) {
		if ranges.Contains(n) != set[n] {
			t.Fatalf("%v contains %d: %v", ranges, n, ranges.Contains(n))
		}
	}
	if first := ranges.First(); len(set) == 0 && first != 0 || len(set) > 0 && !set[first] {
		t.Fatalf("first of %v is %d", ranges, first)
	}
}

func TestNumbersFollowUntilTheFirstGap(t *testing.T) {
	set := record.Ranges{{First: 3, Last: 5}, {First: 7, Last: 7 + 2*record.MaxCommitItems}}
	for n, want := range map[uint64]int{2: 0, 3: 3, 5: 1, 6: 0, 7: record.MaxCommitItems, 6 + 2*record.MaxCommitItems: 2, 8 + 2*record.MaxCommitItems: 0} {
		if got := set.From(n); got != want {
			t.Errorf("from %d on %d follow, want %d", n, got, want)
		}
	}
}
