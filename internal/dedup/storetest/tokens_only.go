package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/record"
)

// A TokenHarness opens a store that has tokens only: one that package lease can use, and the engine
// can't.
type TokenHarness struct {
	// Open is as in [Harness]. Required.
	Open func(t *testing.T, now func() time.Time) lease.Store
	// Corrupt damages the stored record of a token. Nil if the store does not encode its records.
	Corrupt func(t *testing.T, s lease.Store, key record.TokenKey)
	// Abreast is as in [Harness].
	Abreast int
}

// tokens is a store of tokens in the place of a whole store. Its other methods panic.
type tokens struct {
	record.Store
	its lease.Store
}

func (s tokens) Load(ctx context.Context, groups []record.GroupKey, keys []record.TokenKey) ([]record.Group, []record.Token, error) {
	return s.its.Load(ctx, groups, keys)
}

func (s tokens) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	return s.its.SwapToken(ctx, old, next)
}

func (h TokenHarness) whole() Harness {
	w := Harness{tokensOnly: true, Abreast: h.Abreast}
	w.Open = func(t *testing.T, now func() time.Time) record.Store {
		t.Helper()
		return tokens{its: h.Open(t, now)}
	}
	if h.Corrupt != nil {
		w.Corrupt = func(t *testing.T, s record.Store, key any) {
			t.Helper()
			h.Corrupt(t, s.(tokens).its, key.(record.TokenKey))
		}
	}
	return w
}

// RunTokens runs the cases of tokens that a store without groups and marks can pass.
func RunTokens(t *testing.T, h TokenHarness) {
	t.Helper()
	cases := []testCase{
		{name: "a token takes every step from state to state, whole", run: testTokenSteps},
		{name: "a swap from any but the stored state, owner and epoch conflicts and tells what is stored", run: testTokenConflicts},
		{name: "our own swap, repeated, succeeds", run: testTokenRepeated},
		{name: "a token that expires now is absent, one that expires later is not", run: testTokenExpiry},
		{name: "swapping to absent deletes the token", run: testTokenRelease},
		{name: "an absent token is absent, whatever owner and epoch it is given", run: testTokenAbsent},
		{name: "a reply of 200 KB comes back", run: testLargeReply},
		{name: "swaps that are made together have a result each", run: testSwapsTogether},
		{name: "swaps of a cancelled call write nothing", run: testSwapsCancelled},
		{name: "a token with a request is whole after a swap together with others", run: testSwapsWithRequest},
		{name: "of many claims of one token one wins", run: testClaimRace},
		{name: "a corrupt token is an error, never absent", run: testCorruptToken, when: corrupts},
	}
	for _, c := range cases {
		if c.when != nil && !c.when(h.whole()) {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, newSuite(t, h.whole())) })
	}
}

// TokenHistories is [Histories] with loads and swaps of tokens.
func TokenHistories(t *testing.T, h TokenHarness, operations int) {
	t.Helper()
	Histories(t, h.whole(), operations)
}
