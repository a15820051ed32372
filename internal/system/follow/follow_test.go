package follow_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/follow"
)

var (
	lobby = record.GroupKey{Stream: "room", Group: "lobby"}
	attic = record.GroupKey{Stream: "room", Group: "attic"}
)

// waiting calls Wait and returns a channel with its result.
func waiting(ctx context.Context, f follow.Follower) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f.Wait(ctx) }()
	return done
}

func TestAnAppendWakesTheFollowersOfItsGroupOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &follow.Hub{LookAgain: time.Hour}
		one, two, other := hub.Follow(lobby), hub.Follow(lobby), hub.Follow(attic)
		first, second, third := waiting(t.Context(), one), waiting(t.Context(), two), waiting(t.Context(), other)
		synctest.Wait()
		hub.Appended(lobby)
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		select {
		case err := <-third:
			t.Errorf("the follower of another group is woken: %v", err)
		default:
		}
		hub.Close()
		if err := <-third; !errors.Is(err, follow.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestAnAppendBetweenReadingAndWaitingIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &follow.Hub{LookAgain: time.Hour}
		f := hub.Follow(lobby)
		defer f.Close()
		for range 3 {
			hub.Appended(lobby) // after the follower has read, and before it waits
			synctest.Wait()
			began := time.Now()
			if err := f.Wait(t.Context()); err != nil || time.Since(began) > 0 {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an append wakes once: %v", err)
		}
	})
}

func TestAFollowerLooksAgainInCaseACommitWasAppliedWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &follow.Hub{}
		f := hub.Follow(lobby)
		defer f.Close()
		began := time.Now()
		if err := f.Wait(t.Context()); err != nil || time.Since(began) < 4*time.Second || time.Since(began) > 6*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestNobodyFollowsAClosedHub(t *testing.T) {
	hub := &follow.Hub{LookAgain: time.Hour}
	before := hub.Follow(lobby)
	hub.Close()
	for _, f := range []follow.Follower{before, hub.Follow(lobby)} {
		if err := f.Wait(t.Context()); !errors.Is(err, follow.ErrClosed) {
			t.Error(err)
		}
		f.Close()
	}
	if n := hub.Followers(); n != 0 {
		t.Errorf("%d followers are left", n)
	}
}

func TestAPollerLooksLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		looks := 0
		for f := (follow.Poller{}).Follow(lobby); f.Wait(ctx) == nil; {
			looks++
		}
		if looks != 7 { // after 0.1, 0.3, 0.7, 1.5, 2.5, 3.5 and 4.5 seconds
			t.Errorf("%d looks within five seconds", looks)
		}
	})
}

// A slowStore counts reads of group records. Each waits until the test lets it go on.
type slowStore struct {
	*memstore.Store
	reads atomic.Int64
	next  chan struct{}
}

func (s *slowStore) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	gs, ts, err := s.Store.Load(ctx, groups, tokens)
	s.reads.Add(1)
	select {
	case <-s.next:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	return gs, ts, err
}

func (s *slowStore) append(t *testing.T) {
	groups, _, err := s.Store.Load(t.Context(), []record.GroupKey{lobby}, nil)
	if err != nil {
		t.Fatal(err)
	}
	next := groups[0]
	next.Version, next.Incarnation, next.Log.Last, next.Log.Until = next.Version+1, 1, next.Log.Last+1, time.Now().Add(time.Hour)
	chunks := log.Chunks(&next, []record.Entry{{Number: next.Log.Last, Kind: record.EntryMessage}})
	if err := s.Commit(t.Context(), record.Commit{Loaded: groups[0], Next: next, Append: chunks}); err != nil {
		t.Fatal(err)
	}
}

func TestReadersOfOnePageShareAReadThatBeginsAfterTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: memstore.New(time.Now), next: make(chan struct{})}
		logs := follow.NewLogs(store, &follow.Hub{})
		var entries atomic.Int64
		var readers sync.WaitGroup
		read := func() {
			page, err := logs.Read(t.Context(), lobby, log.Offset{}, 10)
			if err != nil {
				t.Error(err)
			}
			entries.Add(int64(len(page.Entries)))
		}
		readers.Go(read) // has read the record before the append
		synctest.Wait()
		store.append(t)
		for range 100 {
			readers.Go(read)
		}
		synctest.Wait()
		close(store.next)
		readers.Wait()
		if entries.Load() != 100 || store.reads.Load() != 2 {
			t.Errorf("the readers got %d entries by %d reads", entries.Load(), store.reads.Load())
		}
	})
}

func TestAReaderWhoGoesTakesNobodyElsesPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{Store: memstore.New(time.Now), next: make(chan struct{})}
		logs := follow.NewLogs(store, &follow.Hub{})
		ctx, cancel := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		read := func(ctx context.Context, want error) {
			if _, err := logs.Read(ctx, lobby, log.Offset{}, 10); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		readers.Go(func() { read(t.Context(), nil) })
		synctest.Wait()
		readers.Go(func() { read(ctx, context.Canceled) }) // reads for the next one too
		synctest.Wait()
		readers.Go(func() { read(t.Context(), nil) })
		synctest.Wait()
		cancel()
		store.next <- struct{}{}
		synctest.Wait()
		close(store.next)
		readers.Wait()
	})
}
