package client

import "cmp"

// CompareSiblings orders entries that answer the same entries, for [slices.SortFunc]: by time, then
// by source, epoch and sequence, then by id. Every reader of a log shows them in the same order. It
// agrees with the numbers of the log, in which siblings arrive; a later sibling is never before one
// that was read already.
//
// The times are those of one log: siblings of different logs, such as those of two linked systems,
// have the times of their own commits.
func CompareSiblings(a, b Entry) int {
	return cmp.Or(
		cmp.Compare(a.Time, b.Time), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.ID, b.ID),
	)
}
