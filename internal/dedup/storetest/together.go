package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func togetherCases() []testCase {
	return []testCase{
		{name: "the store reports whether it writes the commits of several groups together", run: testCommitsTogether},
		{name: "commits of several groups are applied, but those that conflict", run: testCommitAll},
		{name: "of many commits of the same groups, in any order, one wins in each group", run: testCommitAllRace},
		{name: "commits of several groups are there after a restart", run: testCommitAllRestart, when: func(h Harness) bool { return h.Reopen != nil }},
	}
}

func testCommitsTogether(t *testing.T, s *suite) {
	same(t, "capability", record.CommitsTogether(s.Store), s.harness.CommitsTogether)
}

func groupN(n int) record.GroupKey {
	return record.GroupKey{Stream: "orders", Group: fmt.Sprint("together ", n)}
}

// together returns commits of several groups, each with a token if the store can mark it done.
func (s *suite) together(t *testing.T, groups ...int) []record.Commit {
	t.Helper()
	var commits []record.Commit
	for _, n := range groups {
		commits = append(commits, following(s.group(t, groupN(n)), func(c *record.Commit) {
			c.Next.State = fmt.Append(nil, n)
			if s.harness.CommitsDone {
				c.Done = []record.Token{fullToken(tokenKey(n), record.Done)}
			}
		}))
	}
	return commits
}

// applied compares the stored group and tokens with those of a commit.
func (s *suite) applied(t *testing.T, c record.Commit) {
	t.Helper()
	same(t, "group", s.group(t, c.Next.Key), c.Next)
	for _, token := range c.Done {
		same(t, "token", s.token(t, token.Key), token)
	}
}

func testCommitAll(t *testing.T, s *suite) {
	commits := s.together(t, 1, 2, 3, 4)
	winner := s.commit(t, s.commit(t, s.group(t, groupN(3)), nil), nil)
	errs := record.CommitAll(t.Context(), s.Store, commits)
	for i, err := range errs {
		if i == 2 {
			continue
		}
		if err != nil {
			t.Errorf("commit %d: %v", i+1, err)
		}
		s.applied(t, commits[i])
	}
	if !errors.Is(errs[2], record.ErrConflict) {
		t.Errorf("got %v, want a conflict", errs[2])
	}
	if err := s.Commit(t.Context(), following(commits[2].Next, nil)); !errors.Is(err, record.ErrConflict) {
		t.Errorf("after the commit that conflicted: got %v, want a conflict", err)
	}
	same(t, "the group of the conflict", s.group(t, groupN(3)), winner)
	same(t, "the token of the conflict", s.token(t, tokenKey(3)), record.Token{Key: tokenKey(3)})
	for _, err := range record.CommitAll(t.Context(), s.Store, commits) {
		if !errors.Is(err, record.ErrConflict) && !s.harness.RecognisesCommit {
			t.Errorf("repeated: got %v, want a conflict", err)
		}
	}
}

func testCommitAllRace(t *testing.T, s *suite) {
	const writers, groups = 8, 5
	wins := make([][]error, writers)
	commits := s.together(t, 0, 1, 2, 3, 4) // loaded before any of them is written
	var all sync.WaitGroup
	for w := range writers {
		order := []int{0, 1, 2, 3, 4}
		if w%2 == 1 {
			slices.Reverse(order)
		}
		mixed := make([]record.Commit, groups)
		for i, n := range order {
			mixed[i] = commits[n]
			mixed[i].Attempt = fmt.Sprint(w)
		}
		wins[w] = make([]error, groups)
		all.Go(func() {
			for i, err := range record.CommitAll(t.Context(), s.Store, mixed) {
				wins[w][order[i]] = err
			}
		})
	}
	all.Wait()
	for n := range groups {
		won := 0
		for w := range writers {
			switch err := wins[w][n]; {
			case err == nil:
				won++
			case !errors.Is(err, record.ErrConflict):
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d writers won in group %d", won, n)
		}
		same(t, "version", s.group(t, groupN(n)).Version, uint64(1))
	}
}

func testCommitAllRestart(t *testing.T, s *suite) {
	commits := s.together(t, 1, 2, 3)
	if err := errors.Join(record.CommitAll(t.Context(), s.Store, commits)...); err != nil {
		t.Fatal(err)
	}
	s.Store = s.harness.Reopen(t, s.Store)
	for _, c := range commits {
		s.applied(t, c)
	}
}
