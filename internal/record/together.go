package record

import "context"

// A GroupsCommitter is a store that may be able to write the commits of several groups with one
// write. A wrapper of a store hides the capability, unless it implements GroupsCommitter too.
type GroupsCommitter interface {
	// CommitsTogether reports whether the store can. The answer never changes.
	CommitsTogether() bool
	// CommitAll applies commits of different groups, no two of which mark the same token done, and
	// returns their results in the same order. Commit would have had the same results: a commit
	// that conflicts or is refused does not keep the others from being applied. If the write fails,
	// each commit that was not refused returns the error, and any of them may have been applied.
	CommitAll(ctx context.Context, commits []Commit) []error
}

// CommitsTogether reports whether the store can write the commits of several groups with one write.
// It is false for a store that is not a [GroupsCommitter].
func CommitsTogether(s Store) bool {
	c, ok := s.(GroupsCommitter)
	return ok && c.CommitsTogether()
}

// CommitAll applies commits of different groups, with one write if the store can, or else one after
// the other.
func CommitAll(ctx context.Context, s Store, commits []Commit) []error {
	if CommitsTogether(s) {
		return s.(GroupsCommitter).CommitAll(ctx, commits) //nolint:forcetypeassert // it is one
	}
	errs := make([]error, len(commits))
	for i := range commits {
		errs[i] = s.Commit(ctx, commits[i])
	}
	return errs
}
