package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/dedup/session"
)

// The pool forgets old spans of a session as far as it has seen the cursor. If the cursor was moved
// back since, these numbers are after the cursor, and have no entries any more.
func TestNumbersThatThePoolHasForgottenHaveNoDeadLetters(t *testing.T) {
	for name, letter := range map[string]func(w *world, f, cursor, dropped uint64) error{
		"skip": func(w *world, f, cursor, dropped uint64) error {
			return w.Commit(w.Context(), ann, session.Commit{Fence: f, From: cursor, To: dropped + 1, Skip: true})
		},
		"fail": func(w *world, f, _, dropped uint64) error {
			_, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: dropped})
			return err
		},
		"retire": func(w *world, f, _, dropped uint64) error {
			to := dropped + 1
			return w.Retire(w.Context(), ann, session.Retirement{Fence: f, SkipTo: &to})
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := &queues{}
			cfg := session.Config{Queues: q, MaxPool: 600}
			each(t, cfg, session.Pool{Partitions: 2, Attempts: 1, DeadLetter: true}, func(w *world) {
				q.letters, q.fails = nil, nil
				f := w.open(ann, session.TakeFree).Fence
				last := uint64(0)
				for ; last < 20; last++ { // one span each
					w.fill(last%2, 1)
					w.read(ann, f, 1)
					w.commit(ann, f, last, last+1)
				}
				cursor := w.open(ann, session.TakeNow).First - 1
				f = w.open(ann, session.TakeNow).Fence
				w.commit(ann, f, last, cursor)
				other := w.open(bob, session.TakeFree).Fence
				dropped := cursor
				for n := uint64(0); dropped == cursor; n++ {
					w.fill(n%2, 1)
					w.read(bob, other, 1)
					w.commit(bob, other, n, n+1)
					o := w.open(ann, session.TakeNow)
					f, dropped = o.Fence, o.First-1
				}
				if dropped >= last-2 {
					w.Fatalf("the pool has dropped %d of %d", dropped, last)
				}
				w.noError(letter(w, f, cursor, dropped))
				want := []string{}
				if name != "fail" {
					want = []string{w.letterOf(dropped%2, dropped/2+1)}
				}
				got := []string{}
				for _, x := range q.shown() {
					got = append(got, strings.Fields(strings.Split(x, "/0 ")[0])[1])
				}
				if !slices.Equal(got, want) {
					w.Errorf("cursor %d, dropped %d: got %q, want %q", cursor, dropped, got, want)
				}
			})
		})
	}
}
