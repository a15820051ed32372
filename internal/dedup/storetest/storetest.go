// Package storetest is the conformance suite of the store port. Each store passes Run.
//
// The suite uses times in whole milliseconds and retentions in whole seconds, and treats nil and
// empty slices and maps as equal; a store need not keep more.
package storetest

import (
	"crypto/rand"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/record"
)

// A Harness opens the store under test and declares its capabilities beyond the port. If the store
// is a record.Lister, that is tested too.
type Harness struct {
	// Open returns an empty store that uses the clock to decide expiry. It registers its clean-up
	// with t.Cleanup. Required.
	Open func(t *testing.T, now func() time.Time) record.Store
	// Reopen kills the process that holds the store, or the closest equivalent, and opens the
	// remaining data, on the same clock. Nil if the store is not durable.
	Reopen func(t *testing.T, s record.Store) record.Store
	// Corrupt damages the stored record of a record.GroupKey, record.HeldKey or record.TokenKey, or
	// a stored record.Chunk. Nil if the store does not encode its records.
	Corrupt func(t *testing.T, s record.Store, key any)
	// KeepsApart says that the store keeps large values outside the record, and leaves them out of
	// lists.
	KeepsApart bool
	// RecognisesCommit says that the store recognises its own commit by the name of the attempt. A
	// store whose client library retries requests must.
	RecognisesCommit bool
	// CommitsDone says that the store marks tokens done in a commit, see [record.DoneCommitter].
	CommitsDone bool
	// CommitsTogether says that the store writes the commits of several groups with one write, see
	// [record.GroupsCommitter].
	CommitsTogether bool
	// MaxRecord is a size in bytes that is too large for a record, or 0 if there is no limit.
	MaxRecord int
	// tokensOnly says that there are no groups, see [RunTokens].
	tokensOnly bool
	// Abreast is how many rounds of Histories run concurrently, for a store behind a network.
	// Defaults to 1.
	Abreast int
}

// Run tests a store.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, part := range []struct {
		name  string
		cases []testCase
	}{
		{"groups", groupCases()},
		{"commit", commitCases()},
		{"done", doneCases()},
		{"together", togetherCases()},
		{"held", heldCases()},
		{"log", logCases()},
		{"clear", clearCases()},
		{"tokens", tokenCases()},
		{"swaps", swapCases()},
		{"copies", copyCases()},
		{"races", raceCases()},
		{"lister", listerCases()},
		{"durability", durabilityCases()},
		{"size", sizeCases()},
		{"model", modelCases()},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, c := range part.cases {
				if c.when != nil && !c.when(h) {
					continue
				}
				t.Run(c.name, func(t *testing.T) { c.run(t, newSuite(t, h)) })
			}
		})
	}
}

type testCase struct {
	name string
	run  func(t *testing.T, s *suite)
	// when reports whether the store has the capability that the case tests; nil is always.
	when func(h Harness) bool
}

// A suite holds the store of one case, initially empty, and its clock.
type suite struct {
	record.Store
	harness Harness
	clock   *clock
}

func newSuite(t *testing.T, h Harness) *suite {
	t.Helper()
	c := &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	return &suite{Store: h.Open(t, c.Now), harness: h, clock: c}
}

// A clock stands still until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

// Now returns the current time.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// In returns the time after a duration.
func (c *clock) In(d time.Duration) time.Time { return c.Now().Add(d) }

// Advance moves the clock.
func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func (s *suite) group(t *testing.T, key record.GroupKey) record.Group {
	t.Helper()
	groups, _, err := s.Load(t.Context(), []record.GroupKey{key}, nil)
	if err != nil || len(groups) != 1 {
		t.Fatalf("load group: %d records, %v", len(groups), err)
	}
	return groups[0]
}

func (s *suite) token(t *testing.T, key record.TokenKey) record.Token {
	t.Helper()
	_, tokens, err := s.Load(t.Context(), nil, []record.TokenKey{key})
	if err != nil || len(tokens) != 1 {
		t.Fatalf("load token: %d records, %v", len(tokens), err)
	}
	return tokens[0]
}

// commit writes a successor of a loaded record, and fails the test if it can't. It returns the
// record as written.
func (s *suite) commit(t *testing.T, loaded record.Group, change func(c *record.Commit)) record.Group {
	t.Helper()
	c := following(loaded, change)
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return c.Next
}

// following returns the commit that changes a loaded record.
func following(loaded record.Group, change func(c *record.Commit)) record.Commit {
	c := record.Commit{Loaded: loaded, Next: loaded, Attempt: rand.Text()}
	c.Next.Version++
	if c.Loaded.Version == 0 {
		c.Next.Incarnation, c.Next.Retention = 1000, time.Hour
	}
	if change != nil {
		change(&c)
	}
	return c
}

func (s *suite) swap(t *testing.T, old, next record.Token) record.Token {
	t.Helper()
	got, err := s.SwapToken(t.Context(), old, next)
	if err != nil {
		t.Fatalf("swap token from %v to %v: %v", old.State, next.State, err)
	}
	return got
}

func (s *suite) held(t *testing.T, from record.HeldKey, limit int) []record.Held {
	t.Helper()
	held, err := s.Held(t.Context(), from, limit)
	if err != nil {
		t.Fatalf("held: %v", err)
	}
	return held
}

// same compares by content: empty equals nil, and times are compared as instants.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func diff(want, got any) string {
	if reflect.DeepEqual(want, got) { // much faster, and nearly always sufficient
		return ""
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}
