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

// with returns the ranges and a number. The list is not changed.
func with(list []NumberRange, number uint64) []NumberRange {
	at, has := find(list, number)
	if has {
		return list
	}
	return slices.Insert(slices.Clone(list), at, NumberRange{number, number})
}

// covers reports whether the ranges have every number from 1 to another one.
func covers(list []NumberRange, last uint64) bool {
	next := uint64(1)
	for _, r := range list {
		if r.From > next || next > last {
			break
		}
		next = r.To + 1
	}
	return next > last
}
