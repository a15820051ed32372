package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/dedup/session"
)

func open(t *testing.T, p *pool, o client.SessionOptions) *client.Session {
	t.Helper()
	o.Stream, o.Name = "work", "a"
	s, err := p.client().OpenSession(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func next(t *testing.T, s *client.Session) client.Batch {
	t.Helper()
	b, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ids(b *client.Batch) string {
	var out []string
	for i := range b.Entries {
		out = append(out, b.Entries[i].ID)
	}
	return strings.Join(out, " ")
}

func TestASessionReadsItsEntriesInOrderUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "m2", "m3", "end")
		s := open(t, p, client.SessionOptions{Max: 2})
		for _, want := range []string{"m1 m2", "m3"} {
			b := next(t, s)
			if got := ids(&b); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if err := s.Commit(t.Context(), b.To, client.CommitOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		b, err := s.Next(t.Context())
		for err == nil && len(b.Entries) == 0 { // the end is an entry of its own
			err = s.Commit(t.Context(), b.To, client.CommitOptions{})
			if err == nil {
				b, err = s.Next(t.Context())
			}
		}
		if !errors.Is(err, client.ErrEnd) {
			t.Errorf("got %v, %v", b, err)
		}
	})
}

func TestAHeldSessionSaysWhoHoldsItAndForHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		open(t, p, client.SessionOptions{Holder: "one", Lease: 10 * time.Second})
		_, err := p.client().OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: "a", Holder: "two"})
		var held *client.Problem
		if !errors.As(err, &held) || held.Type != client.Held || held.Holder != "one" || held.RetryAfter != 10*time.Second {
			t.Errorf("got %+v", err)
		}
	})
}

func TestTheContextOfAReplacedSessionEndsWithTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1")
		old := open(t, p, client.SessionOptions{Lease: 9 * time.Second})
		b := next(t, old)
		open(t, p, client.SessionOptions{Take: client.TakeNow})
		<-old.Context().Done() // it is told when it renews its lease
		if cause := context.Cause(old.Context()); !errors.Is(cause, client.Fenced) {
			t.Errorf("cause %v", cause)
		}
		if err := old.Commit(t.Context(), b.To, client.CommitOptions{}); !errors.Is(err, client.Fenced) {
			t.Errorf("commit: %v", err)
		}
	})
}

func TestACommitWhoseAnswerIsLostIsRepeatedWithTheSameNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1")
		s := open(t, p, client.SessionOptions{})
		b := next(t, s)
		p.once("commit", unanswered)
		if err := s.Commit(t.Context(), b.To, client.CommitOptions{State: json.RawMessage(`{"n":1}`)}); err != nil {
			t.Fatal(err)
		}
		if n := p.called("commit"); n != 2 || s.Cursor() != 1 {
			t.Errorf("%d commits, cursor %d", n, s.Cursor())
		}
		s.Close()
		if again := open(t, p, client.SessionOptions{Take: client.TakeNow}).Opened(); again.Cursor != 1 || string(again.State) != `{"n":1}` {
			t.Errorf("got %+v", again)
		}
	})
}

// consume consumes until the end. The entry bad fails.
func consume(t *testing.T, p *pool, bad string) (done []string, err error) {
	t.Helper()
	err = p.client().Consume(t.Context(), client.SessionOptions{Stream: "work", Name: "a"}, func(_ context.Context, b *client.Batch) error {
		for i := range b.Entries {
			if b.Entries[i].ID == bad {
				return errors.New("bad entry")
			}
		}
		done = append(done, strings.Fields(ids(b))...)
		return nil
	})
	return done, err
}

func TestAConsumerStopsAtAnEntryThatFailsTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{Pools: map[string]session.Pool{"work": {Attempts: 3}}})
		p.fill("m1", "m2", "m3", "end")
		done, err := consume(t, p, "m2")
		stopped, ok := errors.AsType[*client.StoppedError](err)
		if !ok || stopped.Number != 2 || stopped.Entry.ID != "m2" || stopped.Tries != 3 || !slices.Equal(done, []string{"m1"}) {
			t.Errorf("done %v, error %v", done, err)
		}
		if done, err = consume(t, p, ""); err != nil || !slices.Equal(done, []string{"m2", "m3"}) {
			t.Errorf("after the mend: done %v, error %v", done, err)
		}
	})
}

func TestAConsumerPassesADeadLetterAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{Pools: map[string]session.Pool{"work": {Attempts: 3, DeadLetter: true}}})
		p.fill("m1", "m2", "m3", "end")
		p.once("fail", unanswered) // the repeated report counts no try
		done, err := consume(t, p, "m2")
		if err != nil || !slices.Equal(done, []string{"m1", "m3"}) {
			t.Errorf("done %v, error %v", done, err)
		}
		if n := p.called("fail"); n != 4 {
			t.Errorf("%d reports", n)
		}
		if s := open(t, p, client.SessionOptions{}); s.Opened().Cursor != 4 {
			t.Errorf("opened again: %+v", s.Opened())
		}
	})
}

func TestAConsumerWaitsForTheHolderAndWorksAfterItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "end")
		s := open(t, p, client.SessionOptions{Holder: "one"})
		released := make(chan struct{})
		go func() {
			defer close(released)
			time.Sleep(15 * time.Second) // virtual
			if err := s.Release(t.Context()); err != nil {
				t.Error(err)
			}
			s.Close()
		}()
		began := time.Now()
		done, err := consume(t, p, "")
		<-released
		if waited := time.Since(began); err != nil || !slices.Equal(done, []string{"m1"}) || waited < 15*time.Second || waited > 18*time.Second {
			t.Errorf("done %v after %s, error %v", done, waited, err)
		}
	})
}

func TestAnEffectSaysHowLongAfterTheCommitItIsSent(t *testing.T) {
	for want, e := range map[string]client.Effect{
		`{"to":"mail","body":1}`: {To: "mail", Body: []byte("1")},
		`{"to":"mail","group":"g","body_base64":"AAE=","after":"1h30m0s"}`: {To: "mail", Group: "g", BodyBase64: []byte{0, 1}, After: 90 * time.Minute},
	} {
		if got, err := json.Marshal(e); err != nil || string(got) != want {
			t.Errorf("got %s and %v, want %s", got, err, want)
		}
		var back client.Effect
		if err := json.Unmarshal([]byte(want), &back); err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("read back: %+v and %v, want %+v", back, err, e)
		}
	}
	var e client.Effect
	if err := json.Unmarshal([]byte(`{"to":"mail","after":"soon"}`), &e); err == nil || !strings.Contains(err.Error(), "after") {
		t.Errorf("a time that is none: %+v and %v", e, err)
	}
}
