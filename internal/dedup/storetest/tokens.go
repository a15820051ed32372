package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func tokenCases() []testCase {
	return []testCase{
		{name: "a token takes every step from state to state, whole", run: testTokenSteps},
		{name: "a swap from any but the stored state, owner and epoch conflicts and tells what is stored", run: testTokenConflicts},
		{name: "our own swap, repeated, succeeds", run: testTokenRepeated},
		{name: "a token that expires now is absent, one that expires later is not", run: testTokenExpiry},
		{name: "marking done replaces what is there, and repeating it is harmless", run: testMarkDone},
		{name: "marking done revives an expired token", run: testMarkDoneExpired},
		{name: "swapping to absent deletes the token", run: testTokenRelease},
		{name: "an absent token is absent, whatever owner and epoch it is given", run: testTokenAbsent},
		{name: "a reply of 200 KB comes back", run: testLargeReply},
	}
}

func testTokenSteps(t *testing.T, s *suite) {
	states := []record.TokenState{record.Issued, record.Leased, record.Done}
	for i, from := range append([]record.TokenState{record.Absent}, states...) {
		for j, to := range states {
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				key := tokenKey(i*10 + j)
				old := record.Token{Key: key}
				if from != record.Absent {
					old = s.swap(t, old, fullToken(key, from))
				}
				next := fullToken(key, to)
				next.Owner, next.Epoch, next.Reason = "next", old.Epoch+1, "other"
				same(t, "answer", s.swap(t, old, next), next)
				same(t, "token", s.token(t, key), next)
			})
		}
	}
}

func testTokenConflicts(t *testing.T, s *suite) {
	key := tokenKey(1)
	stored := s.swap(t, record.Token{Key: key}, fullToken(key, record.Leased))
	with := func(change func(*record.Token)) record.Token {
		old := stored
		change(&old)
		return old
	}
	next := record.Token{Key: key, State: record.Done, Owner: "next", Epoch: 1}
	for name, old := range map[string]record.Token{
		"absent":          {Key: key},
		"another state":   with(func(t *record.Token) { t.State = record.Issued }),
		"a later state":   with(func(t *record.Token) { t.State = record.Done }),
		"another owner":   with(func(t *record.Token) { t.Owner += "x" }),
		"an older epoch":  with(func(t *record.Token) { t.Epoch-- }),
		"a newer epoch":   with(func(t *record.Token) { t.Epoch++ }),
		"no owner at all": with(func(t *record.Token) { t.Owner = "" }),
	} {
		current, err := s.SwapToken(t.Context(), old, next)
		if !errors.Is(err, record.ErrConflict) {
			t.Errorf("%s: got %v, want a conflict", name, err)
		}
		same(t, name+": current token", current, stored)
	}
	same(t, "token", s.token(t, key), stored)

	missing := tokenKey(2)
	old := fullToken(missing, record.Leased)
	current, err := s.SwapToken(t.Context(), old, record.Token{Key: missing, State: record.Done})
	if !errors.Is(err, record.ErrConflict) {
		t.Errorf("swap of a missing token: got %v, want a conflict", err)
	}
	same(t, "current token where none is", current, record.Token{Key: missing})
}

func testTokenRepeated(t *testing.T, s *suite) {
	key := tokenKey(1)
	leased := record.Token{Key: key, State: record.Leased, Owner: "a", Epoch: 1, Lease: s.clock.In(time.Minute)}
	for range 3 {
		same(t, "answer", s.swap(t, record.Token{Key: key}, leased), leased)
	}
	for name, rival := range map[string]record.Token{
		"another owner": {Key: key, State: record.Leased, Owner: "b", Epoch: 1},
		"another epoch": {Key: key, State: record.Leased, Owner: "a", Epoch: 2},
		"another state": {Key: key, State: record.Done, Owner: "a", Epoch: 1},
	} {
		if _, err := s.SwapToken(t.Context(), record.Token{Key: key}, rival); !errors.Is(err, record.ErrConflict) {
			t.Errorf("%s: got %v, want a conflict", name, err)
		}
	}
	longer := leased
	longer.Lease = s.clock.In(time.Hour)
	s.swap(t, leased, longer)
	same(t, "token after its lease was extended", s.token(t, key), longer)
}

func testTokenExpiry(t *testing.T, s *suite) {
	key := tokenKey(1)
	stored := fullToken(key, record.Done)
	stored.Expires = s.clock.In(time.Minute)
	s.swap(t, record.Token{Key: key}, stored)
	next := record.Token{Key: key, State: record.Leased, Owner: "next"}

	s.clock.Advance(time.Minute - time.Millisecond)
	same(t, "token before its expiry", s.token(t, key), stored)
	if _, err := s.SwapToken(t.Context(), record.Token{Key: key}, next); !errors.Is(err, record.ErrConflict) {
		t.Errorf("swap from absent before the expiry: got %v, want a conflict", err)
	}
	s.clock.Advance(time.Millisecond)
	same(t, "token at its expiry", s.token(t, key), record.Token{Key: key})
	current, err := s.SwapToken(t.Context(), stored, next)
	if !errors.Is(err, record.ErrConflict) {
		t.Errorf("swap from the expired token: got %v, want a conflict", err)
	}
	same(t, "current token", current, record.Token{Key: key})
	s.swap(t, record.Token{Key: key}, next)
	same(t, "token after it was taken anew", s.token(t, key), next)
}

func testMarkDone(t *testing.T, s *suite) {
	var done []record.Token
	for i := range 20 {
		key := tokenKey(i)
		if i%2 == 0 {
			s.swap(t, record.Token{Key: key}, fullToken(key, record.Leased))
		}
		token := fullToken(key, record.Done)
		token.Owner, token.Request, token.Expires = "publisher", nil, s.clock.In(time.Hour)
		done = append(done, token)
	}
	for range 2 {
		if err := s.MarkDone(t.Context(), done); err != nil {
			t.Fatal(err)
		}
		for _, want := range done {
			same(t, "token", s.token(t, want.Key), want)
		}
	}
	if err := s.MarkDone(t.Context(), nil); err != nil {
		t.Errorf("marking nothing: %v", err)
	}
}

func testMarkDoneExpired(t *testing.T, s *suite) {
	key := tokenKey(1)
	issued := record.Token{Key: key, State: record.Issued, Expires: s.clock.In(time.Minute)}
	s.swap(t, record.Token{Key: key}, issued)
	s.clock.Advance(time.Minute)
	done := record.Token{Key: key, State: record.Done, Expires: s.clock.In(time.Minute)}
	if err := s.MarkDone(t.Context(), []record.Token{done}); err != nil {
		t.Fatal(err)
	}
	same(t, "token", s.token(t, key), done)
}

func testTokenRelease(t *testing.T, s *suite) {
	key := tokenKey(1)
	leased := s.swap(t, record.Token{Key: key}, fullToken(key, record.Leased))
	late := leased
	late.Epoch--
	if _, err := s.SwapToken(t.Context(), late, record.Token{Key: key}); !errors.Is(err, record.ErrConflict) {
		t.Errorf("release by a late owner: got %v, want a conflict", err)
	}
	for range 2 {
		same(t, "answer", s.swap(t, leased, record.Token{Key: key}), record.Token{Key: key})
		same(t, "token", s.token(t, key), record.Token{Key: key})
	}
}

func testTokenAbsent(t *testing.T, s *suite) {
	key := tokenKey(1)
	absent, leased := record.Token{Key: key, Owner: "somebody", Epoch: 7}, fullToken(key, record.Leased)
	same(t, "answer", s.swap(t, absent, leased), leased)
	for range 2 {
		same(t, "answer", s.swap(t, leased, absent), absent)
		same(t, "token", s.token(t, key), record.Token{Key: key})
	}
}

func testLargeReply(t *testing.T, s *suite) {
	want := fullToken(tokenKey(1), record.Done)
	want.Reply.Body = make([]byte, 200<<10)
	s.swap(t, record.Token{Key: want.Key}, want)
	same(t, "token", s.token(t, want.Key), want)
}
