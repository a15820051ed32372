package client

import (
	"cmp"
	"slices"
)

// A NumberRange is the numbers From to To, both included.
type NumberRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// find returns the index of the first range that ends at a number or after it, and whether it has
// the number. The ranges are in rising order, and do not overlap.
func find(list []NumberRange, number uint64) (at int, has bool) {
	at, _ = slices.BinarySearchFunc(list, number, func(r NumberRange, n uint64) int { return cmp.Compare(r.To, n) })
	return at, at < len(list) && list[at].From <= number
}

// with returns the ranges and another one. The list is not changed.
func with(list []NumberRange, more NumberRange) []NumberRange {
	at, _ := find(list, more.From)
	end := at
	for ; end < len(list) && list[end].From <= more.To; end++ {
		more.From, more.To = min(more.From, list[end].From), max(more.To, list[end].To)
	}
	return slices.Replace(slices.Clone(list), at, end, more)
}

// covers reports whether the ranges have every number after one, up to another one.
func covers(list []NumberRange, after, last uint64) bool {
	for at, _ := find(list, after+1); after < last; at++ {
		if at == len(list) || list[at].From > after+1 {
			return false
		}
		after = list[at].To
	}
	return true
}
