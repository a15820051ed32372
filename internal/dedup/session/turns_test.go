package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// A meeting store keeps the first loads of a pool until all of them are made.
type meeting struct {
	session.Store
	mu   sync.Mutex
	left int
	all  chan struct{}
}

func (m *meeting) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	gs, ts, err := m.Store.Load(ctx, groups, tokens)
	if len(groups) == 1 && groups[0] == poolKey() {
		m.mu.Lock()
		if m.left--; m.left == 0 {
			close(m.all)
		}
		m.mu.Unlock()
		<-m.all
	}
	return gs, ts, err
}

// Readers that wait for entries all ask the pool when one is appended.
func TestReadersOfOneProcessDoNotMakeEachOthersDealsFail(t *testing.T) {
	each(t, session.Config{}, session.Pool{Window: 2}, func(w *world) {
		const readers = 20
		w.fill(0, 2*readers)
		id := func(i int) session.ID { return session.ID{Stream: stream, Name: fmt.Sprint(i)} }
		var fences [readers]uint64
		for i := range fences {
			fences[i] = w.open(id(i), session.TakeFree).Fence
		}
		store := w.counted(session.Config{})
		sessions := w.on(&meeting{Store: store, left: readers, all: make(chan struct{})})
		var all sync.WaitGroup
		var mu sync.Mutex
		got := map[uint64]bool{}
		for i := range readers {
			all.Go(func() {
				page, err := sessions.Read(w.Context(), id(i), session.Reading{Fence: fences[i], Limit: 2})
				if err != nil || len(page.Entries) != 2 {
					w.Errorf("got %d entries, %v", len(page.Entries), err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, e := range page.Entries {
					got[e.Offset.Number] = true
				}
			})
		}
		all.Wait()
		if n := store.conflicts.Load(); n > 0 || len(got) != 2*readers {
			w.Errorf("%d writes failed, %d entries were read", n, len(got))
		}
	})
}

// A reader that waits for its turn does not wait longer than its caller.
func TestAReaderWaitsForItsTurnOnlyAsLongAsItsCaller(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 2)
		a, b := w.open(ann, session.TakeFree).Fence, w.open(bob, session.TakeFree).Fence
		ctx, cancel := context.WithCancel(w.Context())
		var sessions *session.Sessions
		var err error
		sessions = w.on(&failing{Store: w.store, before: func() { // during the deal of the other session
			cancel()
			_, err = sessions.Read(ctx, bob, session.Reading{Fence: b, Limit: 1})
		}})
		if _, err := sessions.Read(w.Context(), ann, session.Reading{Fence: a, Limit: 1}); err != nil {
			w.Error(err)
		}
		if !errors.Is(err, context.Canceled) {
			w.Errorf("got %v", err)
		}
		w.is(w.read(ann, a, 2), " 1:m1 2:m2")
	})
}

// A busy store's conditions fail a number of times.
type busy struct {
	session.Store
	left int
}

func (b *busy) Commit(ctx context.Context, c record.Commit) error {
	if b.left--; b.left >= 0 {
		return record.ErrConflict
	}
	return b.Store.Commit(ctx, c)
}

func TestAStepThatOthersMakeImpossibleIsRepeatedAfterGrowingPauses(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		var rounds []int
		cfg := session.Config{Pause: func(_ context.Context, n int) error { rounds = append(rounds, n); return nil }}
		_, err := w.with(&busy{w.store, 3}, cfg).Open(w.Context(), ann, session.Opening{Holder: "one"})
		if fmt.Sprint(rounds) != "[1 2 3]" || err != nil {
			w.Errorf("paused in rounds %d, then %v", rounds, err)
		}
		rounds = nil
		_, err = w.with(&busy{w.store, 1000}, cfg).Open(w.Context(), ann, session.Opening{Holder: "one", Take: session.TakeNow})
		if !errors.Is(err, record.ErrConflict) || len(rounds) < 10 || len(rounds) > 30 {
			w.Errorf("%v after %d rounds", err, len(rounds))
		}
	})
}

func TestPausesAreRandomAndEndWithTheCaller(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		synctest.Test(w.T, func(t *testing.T) {
			sessions := w.with(&busy{w.store, 1000}, session.Config{})
			begin := time.Now()
			_, err := sessions.Open(t.Context(), ann, session.Opening{Holder: "one"})
			if took := time.Since(begin); !errors.Is(err, record.ErrConflict) || took < 100*time.Millisecond || took > 6*time.Second {
				t.Errorf("%v after %v", err, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			begin = time.Now()
			_, err = sessions.Open(ctx, ann, session.Opening{Holder: "one"})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 50*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		})
	})
}
