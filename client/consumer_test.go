package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/dedup/session"
)

// A stepper is a worker without a store that processes one entry a call. It knows which one fails.
type stepper struct {
	done  []string
	bad   string
	ended int
}

func (*stepper) Begin(_ context.Context, o client.Opened) (uint64, error) { return o.Cursor, nil }

func (s *stepper) Do(_ context.Context, b *client.Batch) error {
	if len(b.Entries) == 0 {
		return nil
	}
	first := b.Entries[0]
	s.done = append(s.done, first.ID)
	if len(b.Entries) > 1 {
		if b.Entries[1].ID == s.bad {
			return &client.TryError{Number: b.Entries[1].Number, Err: errors.New("bad entry")}
		}
		b.To = first.Number
	}
	return nil
}

func (s *stepper) End() error { s.ended++; return nil }

func TestAWorkerMayProcessTheFirstEntriesOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "m2", "m3", "end")
		var s stepper
		var commits []string
		o := client.SessionOptions{Stream: "work", Name: "a", OnCommit: func(n int, to uint64) { commits = append(commits, fmt.Sprint(n, " to ", to)) }}
		err := p.client().ConsumeWith(t.Context(), o, &s)
		if want := []string{"m1", "m2", "m3"}; err != nil || !slices.Equal(s.done, want) || s.ended != 1 {
			t.Errorf("got %v, %v, ended %d times", s.done, err, s.ended)
		}
		if want := []string{"1 to 1", "1 to 2", "1 to 3"}; !slices.Equal(commits, want) {
			t.Errorf("commits %v, want %v", commits, want)
		}
	})
}

func TestAWorkerMayNameTheEntryThatHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{Pools: map[string]session.Pool{"work": {Attempts: 1, DeadLetter: true}}})
		p.fill("m1", "m2", "m3", "end")
		s, dead, released := stepper{bad: "m2"}, "", 0
		err := p.client().ConsumeWith(t.Context(), client.SessionOptions{
			Stream: "work", Name: "a",
			OnDeadLetter: func(e *client.Entry, tries uint64, err error) { dead = fmt.Sprint(e.ID, tries, err) },
			OnRelease: func(err error) {
				if released++; err != nil {
					t.Error(err)
				}
			},
		}, &s)
		if want := []string{"m1", "m3"}; err != nil || !slices.Equal(s.done, want) || dead != "m21 bad entry" || released != 1 {
			t.Errorf("got %v, %v, dead letter %s, released %d times", s.done, err, dead, released)
		}
		if p.called("fail") != 1 {
			t.Errorf("%d reports", p.called("fail"))
		}
	})
}

func TestAWorkerThatProcessesNothingIsAnError(t *testing.T) {
	p := newPool(t, session.Config{})
	p.fill("m1", "end")
	for _, to := range []uint64{0, 3} {
		err := p.client().Consume(t.Context(), client.SessionOptions{Stream: "work", Name: "a"}, func(_ context.Context, b *client.Batch) error {
			b.To = to
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "the worker has processed") {
			t.Errorf("up to %d: %v", to, err)
		}
	}
}

// The process does not run for a while after a commit, and neither does the renewal of its lease:
// another consumer may have processed the entries that this one has.
func TestAConsumerThatHasNotRunForHalfItsLeaseAsksBeforeItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "m2")
		ctx, stop := context.WithCancel(t.Context())
		var asleep atomic.Bool
		c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if path.Base(r.URL.Path) == "renew" && asleep.Load() {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return p.RoundTrip(r)
		})}})
		if err != nil {
			t.Fatal(err)
		}
		var done []string
		o := client.SessionOptions{Stream: "work", Name: "a", Max: 1, Lease: 20 * time.Second, OnCommit: func(_ int, to uint64) {
			if to == 1 {
				asleep.Store(true)
				time.Sleep(15 * time.Second) // virtual
				asleep.Store(false)
				open(t, p, client.SessionOptions{Holder: "two", Take: client.TakeNow})
			}
		}}
		o.Max = 2 // both entries are read before
		err = c.ConsumeWith(ctx, o, &sleeper{stop: stop, done: &done})
		if !errors.Is(err, context.Canceled) || !slices.Equal(done, []string{"m1"}) {
			t.Errorf("processed %v, %v", done, err)
		}
	})
}

// A sleeper is a stepper that stops its consumer when it has lost the session, or has processed m2.
type sleeper struct {
	stepper
	stop context.CancelFunc
	done *[]string
}

func (s *sleeper) Do(ctx context.Context, b *client.Batch) error {
	err := s.stepper.Do(ctx, b)
	if *s.done = s.stepper.done; len(*s.done) == 2 {
		s.stop()
	}
	return err
}

func (s *sleeper) End() error { s.stop(); return nil }

// A proxy answers the repetition of a report whose first answer was lost.
func TestAFailWhoseOutcomeIsUnknownForbidsToGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{Pools: map[string]session.Pool{"work": {Attempts: 1, DeadLetter: true}}})
		p.fill("m1")
		tries := 0
		c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if path.Base(r.URL.Path) != "fail" {
				return p.RoundTrip(r)
			}
			if tries++; tries > 1 {
				return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("proxy"))}, nil
			}
			resp, err := p.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
				err = errCut
			}
			return nil, err
		})}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.OpenSession(t.Context(), client.SessionOptions{Stream: "work", Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		next(t, s)
		if _, err := s.Fail(t.Context(), 1, "bad entry"); err == nil {
			t.Fatal("the proxy's answer counts")
		}
		if err := s.Commit(t.Context(), 1, client.CommitOptions{}); !errors.Is(err, client.ErrUnknownFail) {
			t.Errorf("a commit of the entry: %v", err)
		}
	})
}

func TestAReleaseRepeatsACommitWhoseOutcomeIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1")
		s := open(t, p, client.SessionOptions{})
		next(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		p.set(func(call string) fault {
			if call == "commit" {
				cancel()
			}
			return none
		})
		if err := s.Commit(ctx, 1, client.CommitOptions{}); err == nil {
			t.Fatal("the commit had an answer")
		}
		p.set(func(string) fault { return none })
		if err := s.Release(t.Context()); err != nil || s.Cursor() != 1 {
			t.Errorf("%v, cursor %d", err, s.Cursor())
		}
		if again := open(t, p, client.SessionOptions{}); again.Opened().Cursor != 1 {
			t.Errorf("opened again: %+v", again.Opened())
		}
	})
}

func TestAllSessionsAreListedWithTheFiguresOfThePool(t *testing.T) {
	p := newPool(t, session.Config{Pools: map[string]session.Pool{"work": {Window: 1}}})
	const sessions, entries = 103, 110
	var all []string
	for n := range entries {
		all = append(all, fmt.Sprint("m", n))
	}
	p.fill(all...)
	for n := range sessions {
		id := session.ID{Stream: "work", Name: fmt.Sprintf("s%04d", n)}
		opened, err := p.sessions.Open(t.Context(), id, session.Opening{Holder: "x"})
		if err == nil {
			_, err = p.sessions.Read(t.Context(), id, session.Reading{Fence: opened.Fence, Limit: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	calls := 0
	c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		calls++
		if !strings.Contains(r.URL.RawQuery, "max=1000") {
			t.Errorf("a call with %s", r.URL.RawQuery)
		}
		r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "max=1000", "max=50", 1) // not to open a thousand sessions
		return p.RoundTrip(r)
	})}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Sessions(t.Context(), "work", "")
	if err != nil || calls != 3 || len(list.Sessions) != sessions || list.Sessions[sessions-1].Name != "s0102" || list.Sessions[0].Lag() != 1 {
		t.Fatalf("%d sessions after %d calls, %v", len(list.Sessions), calls, err)
	}
	if list.Pool == nil || list.Pool.Waiting != entries-sessions || list.Pool.Partitions[0].Last != entries {
		t.Errorf("pool %+v", list.Pool)
	}
}

func TestARetireSkipsWhatNobodyKnowsAndReturnsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1", "m2", "m3", "m4")
		s := open(t, p, client.SessionOptions{})
		next(t, s)
		if err := s.Commit(t.Context(), 1, client.CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.RetireSkipping(t.Context(), 9); !errors.Is(err, client.Ahead) {
			t.Errorf("after the last entry: %v", err)
		}
		if err := s.RetireSkipping(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		again := open(t, p, client.SessionOptions{})
		if rest := next(t, again); ids(&rest) != "m4" {
			t.Errorf("the others get %s", ids(&rest))
		}
	})
}

func TestAConsumerThatIsStoppedWhileItWaitsToOpenAgainReleasesItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{})
		p.fill("m1")
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		err := p.client().Consume(ctx, client.SessionOptions{Stream: "work", Name: "a"}, func(context.Context, *client.Batch) error {
			return &client.UnknownError{Err: errors.New("the database is away")}
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		open(t, p, client.SessionOptions{Holder: "two"})
	})
}

func TestADeadLetterIsNotProcessedByTheNextHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{Pools: map[string]session.Pool{"work": {Attempts: 1, DeadLetter: true}}})
		p.fill("m1", "m2")
		old := open(t, p, client.SessionOptions{})
		next(t, old)
		if out, err := old.Fail(t.Context(), 1, "bad entry"); err != nil || !out.Dead {
			t.Fatalf("%+v, %v", out, err)
		}
		old.Close() // it dies before it moves its number
		s := open(t, p, client.SessionOptions{Take: client.TakeNow})
		if b := next(t, s); ids(&b) != "m2" || b.From != 0 || b.To != 2 {
			t.Errorf("the next holder gets %s, from %d to %d", ids(&b), b.From, b.To)
		}
	})
}

// A storing worker has a store of its own. The first transaction is committed, and its answer lost.
type storing struct {
	number uint64
	begun  int
	done   []string
}

func (s *storing) Begin(context.Context, client.Opened) (uint64, error) {
	s.begun++
	return s.number, nil
}

func (s *storing) Do(_ context.Context, b *client.Batch) error {
	s.number = b.To
	s.done = append(s.done, strings.Fields(ids(b))...)
	if s.begun == 1 {
		return &client.UnknownError{Err: errors.New("connection lost")}
	}
	return nil
}

func (*storing) End() error { return nil }

func TestAfterATransactionOfUnknownOutcomeTheSessionIsOpenedAgainBeforeAnythingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, session.Config{Pools: map[string]session.Pool{"work": {Attempts: 1, DeadLetter: true}}})
		p.fill("m1", "m2", "end")
		var s storing
		if err := p.client().ConsumeWith(t.Context(), client.SessionOptions{Stream: "work", Name: "a", Max: 1}, &s); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.done, []string{"m1", "m2"}) || s.begun != 2 || p.called("fail") != 0 || len(p.letters()) != 0 {
			t.Errorf("done %v after %d opens, %d failed tries, dead letters %v", s.done, s.begun, p.called("fail"), p.letters())
		}
	})
}
