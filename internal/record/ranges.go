package record

import "slices"

// A Range is the numbers First to Last, both included.
type Range struct{ First, Last uint64 }

// Ranges is a set of numbers, as sorted ranges that neither overlap nor touch. The zero value is
// the empty set. Methods do not change the receiver.
type Ranges []Range

// Contains reports whether n is in the set.
func (r Ranges) Contains(n uint64) bool {
	i := r.search(n)
	return i < len(r) && r[i].First <= n
}

// search returns the index of the first range that ends at n or later.
func (r Ranges) search(n uint64) int {
	i, _ := slices.BinarySearchFunc(r, n, func(x Range, n uint64) int {
		if x.Last < n {
			return -1
		}
		return 1
	})
	return i
}

// Add returns the set with the numbers first to last added.
func (r Ranges) Add(first, last uint64) Ranges {
	from := r.search(first - min(first, 1)) // the first range that overlaps or touches
	to := from
	for to < len(r) && (r[to].First <= last || r[to].First-last == 1) {
		first, last = min(first, r[to].First), max(last, r[to].Last)
		to++
	}
	out := append(make(Ranges, 0, len(r)+1), r[:from]...)
	out = append(out, Range{first, last})
	return append(out, r[to:]...)
}

// Remove returns the set without n.
func (r Ranges) Remove(n uint64) Ranges {
	out := make(Ranges, 0, len(r)+1)
	for _, x := range r {
		if n < x.First || n > x.Last {
			out = append(out, x)
			continue
		}
		if x.First < n {
			out = append(out, Range{x.First, n - 1})
		}
		if n < x.Last {
			out = append(out, Range{n + 1, x.Last})
		}
	}
	return out
}

// Len returns how many numbers are in the set.
func (r Ranges) Len() int {
	n := 0
	for _, x := range r {
		n += int(x.Last - x.First + 1) //nolint:gosec // held numbers are counted, and bounded by Bounds.Count
	}
	return n
}

// First returns the smallest number, or 0 if the set is empty.
func (r Ranges) First() uint64 {
	if len(r) == 0 {
		return 0
	}
	return r[0].First
}

// From returns how many numbers follow from n on without a gap, at most the [MaxCommitItems] that
// fit into one commit.
func (r Ranges) From(n uint64) int {
	if i := r.search(n); i < len(r) && r[i].First <= n {
		return int(min(r[i].Last-n+1, uint64(MaxCommitItems)))
	}
	return 0
}
