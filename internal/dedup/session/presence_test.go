package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
)

func TestIdleSessionsOfOneProcessCostNoWrite(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		store := w.counted(session.Config{Alone: true})
		const sessions = 10_000
		fences := make([]uint64, sessions)
		id := func(i int) session.ID { return session.ID{Stream: stream, Name: fmt.Sprint("s", i)} }
		for i := range fences {
			fences[i] = w.open(id(i), session.TakeFree).Fence
		}
		store.reset()
		for range 3 {
			w.now = w.now.Add(10 * time.Second)
			for i, fence := range fences {
				until, err := w.Renew(w.Context(), id(i), fence)
				if err != nil || !until.Equal(w.now.Add(30*time.Second)) {
					w.Fatalf("renewed until %s, %v", until, err)
				}
				if i%2 == 0 {
					w.is(w.read(id(i), fence, 1), "")
				}
			}
		}
		if _, writes := store.reset(); writes > 0 {
			w.Errorf("%d idle sessions cost %d writes", sessions, writes)
		}
		w.now = w.now.Add(29 * time.Second)
		_, err := w.Open(w.Context(), id(7), session.Opening{Holder: "other"})
		if e := fails[session.HeldError](w, err); e.RetryAfter != time.Second {
			w.Errorf("got %+v", e)
		}
	})
}

// restarted returns sessions of a process that is started now on the same store.
func (w *world) restarted() *session.Sessions { return w.with(w.store, session.Config{Alone: true}) }

// A process that starts does not know who has renewed its lease before.
func TestTheHolderOfARecordMayBePresentForOneLeaseAfterAStart(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		first := w.restarted()
		o, err := first.Open(w.Context(), ann, session.Opening{Holder: "one", Lease: time.Minute})
		w.noError(err)
		w.now = w.now.Add(50 * time.Second)
		_, err = first.Renew(w.Context(), ann, o.Fence)
		w.noError(err)
		w.now = w.now.Add(20 * time.Second) // the lease in the record has ended
		second := w.restarted()
		if d, err := second.Describe(w.Context(), ann); err != nil || d.Holder != "one" || !d.LeaseUntil.Equal(w.now.Add(time.Minute)) {
			w.Errorf("got %+v, %v", d, err)
		}
		w.now = w.now.Add(59 * time.Second)
		_, err = second.Open(w.Context(), ann, session.Opening{Holder: "two"})
		fails[session.HeldError](w, err)
		w.now = w.now.Add(time.Second)
		_, err = second.Open(w.Context(), ann, session.Opening{Holder: "two"})
		w.noError(err)
	})
}

func TestAReadOfTheHolderCountsAsPresence(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.Sessions = w.restarted()
		for _, id := range []session.ID{ann, roomAnn} {
			old := w.open(id, session.TakeFree).Fence
			f := w.open(id, session.TakeNow).Fence
			w.now = w.now.Add(20 * time.Second)
			if page := w.read(id, f, 1); !page.LeaseUntil.Equal(w.now.Add(30 * time.Second)) {
				w.Errorf("the lease ends %s after the read", page.LeaseUntil.Sub(w.now))
			}
			w.now = w.now.Add(20 * time.Second)
			_, err := w.Read(w.Context(), id, session.Reading{Fence: old, Limit: 1}) // of a consumer that was replaced
			fails[session.FencedError](w, err)
			_, err = w.Open(w.Context(), id, session.Opening{Holder: "two"})
			if e := fails[session.HeldError](w, err); e.RetryAfter != 10*time.Second {
				w.Errorf("got %+v", e)
			}
		}
	})
}

func TestAReleasedOrRetiredSessionIsFreeWhateverIsRemembered(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.Sessions = w.restarted()
		f := w.open(ann, session.TakeFree).Fence
		_, err := w.Renew(w.Context(), ann, f)
		w.noError(err)
		w.noError(w.Release(w.Context(), ann, f))
		f = w.open(ann, session.TakeFree).Fence
		_, err = w.Renew(w.Context(), ann, f)
		w.noError(err)
		w.retire(ann, f)
		if d, err := w.Describe(w.Context(), ann); err != nil || d.Holder != "" || d.LastHolder != "of ann" || !d.LeaseUntil.IsZero() {
			w.Errorf("got %+v, %v", d, err)
		}
		w.open(ann, session.TakeFree)
		w.now = w.now.Add(time.Minute)
		f = w.open(ann, session.TakeFree).Fence // nobody has renewed it
		w.noError(w.Release(w.Context(), ann, f))
		until, err := w.Renew(w.Context(), ann, f) // a released session that is renewed is held again
		if err != nil || !until.Equal(w.now.Add(30*time.Second)) {
			w.Errorf("renewed until %s, %v", until, err)
		}
		_, err = w.Open(w.Context(), ann, session.Opening{Holder: "two"})
		fails[session.HeldError](w, err)
	})
}

// Several processes share no memory: a renewal is a write, and a read is none.
func TestARenewalIsWrittenIfOthersServeSessionsToo(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		store := w.counted(session.Config{})
		f := w.open(ann, session.TakeFree).Fence
		store.reset()
		w.now = w.now.Add(20 * time.Second)
		w.read(ann, f, 1)
		if _, writes := store.reset(); writes != 0 {
			w.Errorf("a read is %d writes", writes)
		}
		_, err := w.Renew(w.Context(), ann, f)
		w.noError(err)
		if _, writes := store.reset(); writes != 1 {
			w.Errorf("a renewal is %d writes", writes)
		}
		w.now = w.now.Add(20 * time.Second)
		_, err = w.with(w.store, session.Config{}).Open(w.Context(), ann, session.Opening{Holder: "two"})
		fails[session.HeldError](w, err)
	})
}

func TestASessionWhoseLeaseHasEndedShowsNoHolder(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		f := w.open(ann, session.TakeFree).Fence
		w.now = w.now.Add(30 * time.Second)
		if d, err := w.Describe(w.Context(), ann); err != nil || d.Holder != "" || d.LastHolder != "of ann" || !d.LeaseUntil.Equal(w.now) {
			w.Errorf("got %+v, %v", d, err)
		}
		_, err := w.Renew(w.Context(), ann, f)
		w.noError(err)
		w.noError(w.Release(w.Context(), ann, f))
		if d, err := w.Describe(w.Context(), ann); err != nil || d.Holder != "" || d.LastHolder != "of ann" || !d.LeaseUntil.IsZero() {
			w.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestATakeoverIsAnOpenByAnotherHolderThatDidNotWaitForARelease(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		takeovers := func() uint64 {
			w.Helper()
			d, err := w.Describe(w.Context(), ann)
			w.noError(err)
			return d.Takeovers
		}
		open := func(holder string, take session.Take) uint64 {
			w.Helper()
			o, err := w.Open(w.Context(), ann, session.Opening{Holder: holder, Take: take})
			w.noError(err)
			return o.Fence
		}
		open("one", session.TakeFree)
		f := open("one", session.TakeMine) // for example after a commit of unknown outcome
		w.noError(w.Release(w.Context(), ann, f))
		open("two", session.TakeFree)
		if n := takeovers(); n != 0 {
			w.Errorf("%d takeovers of a session that was released", n)
		}
		open("three", session.TakeNow)
		w.now = w.now.Add(time.Hour)
		open("four", session.TakeFree)
		if n := takeovers(); n != 2 {
			w.Errorf("%d takeovers, want 2", n)
		}
	})
}
