package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func raceCases() []testCase {
	return []testCase{
		{name: "of many commits on one version one wins", run: testCommitRace},
		{name: "of many commits on no record one wins", run: testCreateRace},
		{name: "commits and clears of one group lose nothing of each other", run: testClearRace},
		{name: "of many claims of one token one wins", run: testClaimRace},
		{name: "a token that is marked done stays done whatever swaps at the same time", run: testMarkDoneRace},
		{name: "a message that is no longer pending has a token that says so", run: testTokenAfterGroup},
	}
}

// race runs n functions concurrently and returns how many returned nil; any error but a conflict
// fails the test.
func race(t *testing.T, n int, f func(i int) error) int {
	t.Helper()
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, record.ErrConflict):
			t.Errorf("got %v, want a conflict", err)
		}
	}
	return won
}

// rounds returns how often a race is run: n times, and a quarter of that in short mode.
func rounds(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

func testCommitRace(t *testing.T, s *suite) {
	g := s.commit(t, s.group(t, groupA()), nil)
	for round := range rounds(20) {
		won := race(t, 16, func(i int) error {
			return s.Commit(t.Context(), following(g, func(c *record.Commit) { c.Next.State = []byte{byte(i)} }))
		})
		g = s.group(t, groupA())
		if won != 1 || g.Version != uint64(round+2) {
			t.Fatalf("round %d: %d commits won, version %d", round, won, g.Version)
		}
	}
}

func testCreateRace(t *testing.T, s *suite) {
	for round := range rounds(20) {
		key := record.GroupKey{Stream: "orders", Group: fmt.Sprint(round)}
		won := race(t, 16, func(i int) error {
			return s.Commit(t.Context(), following(record.Group{Key: key}, func(c *record.Commit) { c.Next.Incarnation = uint64(i + 1) }))
		})
		if won != 1 {
			t.Fatalf("round %d: %d commits won", round, won)
		}
	}
}

func testClearRace(t *testing.T, s *suite) {
	const last, clearers = 300, 2
	odd := make(chan uint64, last)
	won := race(t, 1+clearers, func(i int) error {
		if i == clearers {
			defer close(odd)
			return commitEach(t, s, last, odd)
		}
		for n := range odd {
			if err := s.Clear(t.Context(), record.Clear{Group: groupA(), Incarnation: 1000, Numbers: []uint64{n}}); err != nil {
				return err
			}
		}
		return nil
	})
	if won != 1+clearers {
		t.Fatal("a commit or a clear failed")
	}
	var even []uint64
	for n := uint64(2); n <= last; n += 2 {
		even = append(even, n)
	}
	same(t, "pending", numbers(s.group(t, groupA())), even)
}

// commitEach adds the numbers 1 to last to the pending entries, one per commit, and passes the odd
// ones on. It never loads, so a clear must not make its next commit conflict.
func commitEach(t *testing.T, s *suite, last uint64, odd chan<- uint64) error {
	t.Helper()
	g := record.Group{Key: groupA()}
	for n := uint64(1); n <= last; n++ {
		c := following(g, func(c *record.Commit) {
			c.Next.Pending = append(slices.Clone(c.Next.Pending), record.Pending{Number: n})
		})
		if err := s.Commit(t.Context(), c); err != nil {
			return err
		}
		g = c.Next
		if n%2 == 1 {
			odd <- n
		}
	}
	return nil
}

func testClaimRace(t *testing.T, s *suite) {
	for round := range rounds(20) {
		key := tokenKey(round)
		old := record.Token{Key: key}
		if round%2 == 1 {
			old = s.swap(t, old, record.Token{Key: key, State: record.Issued, Owner: "front door"})
		}
		won := race(t, 16, func(i int) error {
			_, err := s.SwapToken(t.Context(), old, record.Token{Key: key, State: record.Leased, Owner: fmt.Sprint(i), Epoch: 1})
			return err
		})
		if won != 1 {
			t.Fatalf("round %d: %d claims won", round, won)
		}
	}
}

func testMarkDoneRace(t *testing.T, s *suite) {
	for round := range rounds(20) {
		key := tokenKey(round)
		token := s.swap(t, record.Token{Key: key}, record.Token{Key: key, State: record.Leased})
		half := make(chan struct{})
		race(t, 2, func(i int) error {
			if i == 0 {
				<-half
				return s.MarkDone(t.Context(), []record.Token{{Key: key, State: record.Done}})
			}
			return leaseAgain(t, s, token, half)
		})
		if got := s.token(t, key); got.State != record.Done {
			t.Fatalf("round %d: token is %v", round, got.State)
		}
	}
}

// leaseAgain takes a token again and again, until another writer changes it; it closes half on the
// way.
func leaseAgain(t *testing.T, s *suite, token record.Token, half chan<- struct{}) error {
	t.Helper()
	for n := uint64(1); n <= 200; n++ {
		next := token
		next.Epoch = n
		var err error
		if token, err = s.SwapToken(t.Context(), token, next); err != nil {
			return err
		}
		if n == 20 {
			close(half)
		}
	}
	return nil
}

func testTokenAfterGroup(t *testing.T, s *suite) {
	for round := range rounds(100) {
		key, token := record.GroupKey{Stream: "orders", Group: fmt.Sprint(round)}, tokenKey(round)
		race(t, 2, func(i int) error {
			if i == 1 {
				return seesFate(t, s, key, token)
			}
			c := following(record.Group{Key: key}, func(c *record.Commit) { c.Next.Pending = []record.Pending{{Number: 1}} })
			if err := s.Commit(t.Context(), c); err != nil {
				return err
			}
			if err := s.MarkDone(t.Context(), []record.Token{{Key: token, State: record.Done}}); err != nil {
				return err
			}
			return s.Clear(t.Context(), record.Clear{Group: key, Incarnation: 1000, Numbers: []uint64{1}})
		})
	}
}

// seesFate loads until the message was committed, marked and cleared. A load that does not show it
// as pending must show its token as done.
func seesFate(t *testing.T, s *suite, key record.GroupKey, token record.TokenKey) error {
	t.Helper()
	for {
		groups, tokens, err := s.Load(t.Context(), []record.GroupKey{key}, []record.TokenKey{token})
		switch {
		case err != nil:
			return err
		case groups[0].Version == 0 || len(groups[0].Pending) > 0:
		case tokens[0].State != record.Done:
			return fmt.Errorf("group %s is cleared and its token %v", key, tokens[0].State)
		default:
			return nil
		}
	}
}
