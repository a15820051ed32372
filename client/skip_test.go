package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/dedup/session"
)

func TestASessionDoesNotReturnEntriesThatItHasSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "m2", "m3", "m4", "end")
		s := open(t, p, client.SessionOptions{Name: "a", Max: 1})
		defer s.Close()
		b := next(t, s) // and m2 is read ahead
		if err := s.Commit(t.Context(), b.To, client.CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(t.Context(), 3, client.CommitOptions{Skip: true}); err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for {
			b, err := s.Next(t.Context())
			if errors.Is(err, client.ErrEnd) {
				break
			}
			if err == nil {
				err = s.Commit(t.Context(), b.To, client.CommitOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range b.Entries {
				got = append(got, e.ID)
			}
		}
		if want := []string{"m4"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// A stored is a worker with a number in a store of its own.
type stored struct {
	number uint64
	done   []string
}

func (s *stored) Begin(_ context.Context, o client.Opened) (uint64, error) {
	return o.Start(s.number, nil)
}

func (s *stored) Do(_ context.Context, b *client.Batch) error {
	for _, e := range b.Entries {
		s.done = append(s.done, e.ID)
	}
	s.number = b.To
	return nil
}

func (*stored) End() error { return nil }

// The number in the store is before the skipped entries, and only the consumer can move it.
func TestAConsumerPassesSkippedEntriesThatHaveExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "m2", "m3")
		s := open(t, p, client.SessionOptions{Name: "a"})
		b := next(t, s)
		if err := s.Commit(t.Context(), 1, client.CommitOptions{}); err != nil || b.To != 3 {
			t.Fatal(b.To, err)
		}
		if err := s.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		p.fill("m4", "end")
		w := &stored{number: 1}
		o := client.SessionOptions{Stream: "work", Name: "a"}
		err := p.client().ConsumeWith(t.Context(), o, w)
		if expired, ok := errors.AsType[*client.ExpiredError](err); !ok || expired.First != 4 {
			t.Fatalf("got %v", err)
		}
		s = open(t, p, client.SessionOptions{Name: "a", Take: client.TakeNow})
		if err := errors.Join(s.Commit(t.Context(), 3, client.CommitOptions{Skip: true}), s.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := p.client().ConsumeWith(t.Context(), o, w); err != nil || !slices.Equal(w.done, []string{"m4"}) || w.number != 5 {
			t.Errorf("%v, %v, number %d", err, w.done, w.number)
		}
	})
}
