package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// swapCases are the cases of tokens again, with every swap made by [record.SwapTokens], and cases
// of several swaps together.
func swapCases() []testCase {
	cases := []testCase{
		{name: "swaps that are made together have a result each", run: testSwapsTogether},
		{name: "swaps of a cancelled call write nothing", run: testSwapsCancelled},
		{name: "a token with a request is whole after a swap together with others", run: testSwapsWithRequest},
	}
	for _, c := range tokenCases() {
		run := c.run
		c.run = func(t *testing.T, s *suite) {
			s.Store = together{s.Store}
			run(t, s)
		}
		cases = append(cases, c)
	}
	return cases
}

// together is a store whose SwapToken calls SwapTokens, beside a swap of another token.
type together struct{ record.Store }

func (s together) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	other := record.Token{Key: record.NewTokenKey("together", "orders", next.Key.String()), State: record.Issued, Owner: "together"}
	results := record.SwapTokens(ctx, s.Store, []record.Swap{{Old: record.Token{Key: other.Key}, Next: other}, {Old: old, Next: next}})
	if results[0].Err != nil {
		return record.Token{}, fmt.Errorf("the other swap: %w", results[0].Err)
	}
	return results[1].Token, results[1].Err
}

func testSwapsTogether(t *testing.T, s *suite) {
	const many = 40
	issued := func(i int, owner string) record.Token {
		return record.Token{Key: tokenKey(i), State: record.Issued, Owner: owner, Stream: "orders", Group: fmt.Sprint("g", i), Expires: s.clock.In(time.Hour)}
	}
	var swaps []record.Swap
	for i := range many {
		switch i % 4 {
		case 1: // of another owner
			s.swap(t, record.Token{Key: tokenKey(i)}, issued(i, "other"))
		case 2: // our own
			s.swap(t, record.Token{Key: tokenKey(i)}, issued(i, "us"))
		case 3: // expired
			old := issued(i, "other")
			old.Expires = s.clock.Now()
			s.swap(t, record.Token{Key: tokenKey(i)}, old)
		}
		swaps = append(swaps, record.Swap{Old: record.Token{Key: tokenKey(i)}, Next: issued(i, "us")})
	}
	results := record.SwapTokens(t.Context(), s.Store, swaps)
	if len(results) != many {
		t.Fatalf("%d results for %d swaps", len(results), many)
	}
	for i, r := range results {
		want, conflict := issued(i, "us"), i%4 == 1
		if conflict {
			want = issued(i, "other")
		}
		if errors.Is(r.Err, record.ErrConflict) != conflict || !conflict && r.Err != nil {
			t.Errorf("swap %d: %v", i, r.Err)
		}
		same(t, fmt.Sprint("answer ", i), r.Token, want)
		same(t, fmt.Sprint("token ", i), s.token(t, tokenKey(i)), want)
	}
}

func testSwapsCancelled(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var swaps []record.Swap
	for i := range 3 {
		swaps = append(swaps, record.Swap{Old: record.Token{Key: tokenKey(i)}, Next: record.Token{Key: tokenKey(i), State: record.Issued, Owner: "us"}})
	}
	for i, r := range record.SwapTokens(ctx, s.Store, swaps) {
		if !errors.Is(r.Err, context.Canceled) {
			t.Errorf("swap %d: %v", i, r.Err)
		}
		same(t, fmt.Sprint("token ", i), s.token(t, tokenKey(i)), record.Token{Key: tokenKey(i)})
	}
}

func testSwapsWithRequest(t *testing.T, s *suite) {
	request := record.Token{Key: tokenKey(1), State: record.Issued, Owner: "us", Request: &record.Message{Stream: "orders", ID: "r", Route: "PUT", Body: []byte("content")}}
	plain := record.Token{Key: tokenKey(2), State: record.Issued, Owner: "us"}
	for i, r := range record.SwapTokens(t.Context(), s.Store, []record.Swap{{Old: record.Token{Key: tokenKey(1)}, Next: request}, {Old: record.Token{Key: tokenKey(2)}, Next: plain}}) {
		if r.Err != nil {
			t.Errorf("swap %d: %v", i, r.Err)
		}
	}
	same(t, "token with a request", s.token(t, tokenKey(1)), request)
	same(t, "token without", s.token(t, tokenKey(2)), plain)
}
