package session_test

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// newRestorable returns a world on a store that can be copied.
func newRestorable(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.store = memstore.New(func() time.Time { return w.now })
	w.restart(nil)
	return w
}

func (w *world) restart(restores record.Restores) {
	w.Sessions = session.New(w.store, session.Config{Restores: restores, Pools: map[string]session.Pool{stream: w.pool}, Now: func() time.Time { return w.now }})
}

func (w *world) copied() *memstore.Store {
	w.Helper()
	store, ok := w.store.(*memstore.Store)
	if !ok {
		w.Fatal("this store can't be copied")
	}
	return store.Copy()
}

// restore puts the store back to a copy, and lists the restore.
func (w *world) restore(to *memstore.Store) {
	w.now = w.now.Add(time.Minute)
	w.store = to
	w.restart(record.Restores{{At: w.now}})
	w.now = w.now.Add(time.Second)
}

// isRestored checks the description of ann, alone and in a list.
func (w *world) isRestored(want bool) {
	w.Helper()
	d, err := w.Describe(w.Context(), ann)
	w.noError(err)
	if d.Restored != want {
		w.Errorf("restored is %v: %+v", d.Restored, d)
	}
	list, err := w.List(w.Context(), stream, "", "", 9)
	w.noError(err)
	for _, n := range list.Sessions {
		if n.Restored != want {
			w.Errorf("in the list, restored is %v: %+v", n.Restored, n)
		}
	}
}

func TestASessionThatIsOlderThanARestoreIsReadAgainOnlyAfterItWasRetired(t *testing.T) {
	w := newRestorable(t)
	w.fill(0, 5)
	old := w.open(ann, session.TakeFree)
	w.is(w.read(ann, old.Fence, 3), " 1:m1 2:m2 3:m3")
	w.commit(ann, old.Fence, 0, 1)
	backup := w.copied()
	w.commit(ann, old.Fence, 1, 3)
	w.fill(0, 2)
	w.is(w.read(ann, old.Fence, 9), " 4:m4 5:m5 6:m6 7:m7")
	w.commit(ann, old.Fence, 3, 7)
	w.restore(backup)

	// The copy gives the numbers 6 and 7 to entries that the consumer has not seen.
	w.ends = 7
	w.fill(0, 2)
	_, err := w.Read(w.Context(), ann, session.Reading{Fence: old.Fence, Limit: 9}) // the copy knows this open
	fails[session.RestoredError](w, err)
	fence := w.open(ann, session.TakeNow).Fence
	_, err = w.Read(w.Context(), ann, session.Reading{Fence: fence, Limit: 9})
	fails[session.RestoredError](w, err)
	fails[session.RestoredError](w, w.Commit(w.Context(), ann, session.Commit{Fence: fence, From: 1, To: 5}))
	_, err = w.Fail(w.Context(), ann, session.Failure{Fence: fence, At: 2})
	fails[session.RestoredError](w, err)
	w.isRestored(true)

	seven := uint64(7)
	w.noError(w.Retire(w.Context(), ann, session.Retirement{Fence: w.open(ann, session.TakeNow).Fence, Cursor: &seven}))
	w.isRestored(false)
	again := w.open(ann, session.TakeFree)
	if again.Life <= old.Fence || again.Cursor != 0 {
		t.Errorf("got %+v after %+v", again, old)
	}
	w.isRestored(false)
	w.is(w.read(ann, again.Fence, 9), " 1:m8 2:m9") // m6 and m7 are lost with the store
}

func TestARetiredSessionWithoutAStoreReturnsWhatTheCopyDoesNotKnowAsProcessed(t *testing.T) {
	w := newRestorable(t)
	w.fill(0, 3)
	old := w.open(ann, session.TakeFree)
	w.read(ann, old.Fence, 3)
	w.commit(ann, old.Fence, 0, 1)
	backup := w.copied()
	w.commit(ann, old.Fence, 1, 3)
	w.restore(backup)
	w.noError(w.Retire(w.Context(), ann, session.Retirement{Fence: w.open(ann, session.TakeNow).Fence}))
	w.is(w.read(bob, w.open(bob, session.TakeFree).Fence, 9), " 1:m2 2:m3")
}

func TestNoFenceIsGivenAgainAfterARestore(t *testing.T) {
	w := newRestorable(t)
	w.fill(0, 1)
	w.open(ann, session.TakeFree)
	backup := w.copied()
	lost := w.open(ann, session.TakeNow).Fence // of a consumer that still runs
	w.restore(backup)
	if f := w.open(ann, session.TakeNow).Fence; f <= lost {
		t.Errorf("fence %d after %d", f, lost)
	}
	_, err := w.Renew(w.Context(), ann, lost)
	fails[session.FencedError](w, err)
	for range 3 {
		before := w.open(ann, session.TakeNow).Fence
		if f := w.open(ann, session.TakeNow).Fence; f != before+1 {
			t.Errorf("fence %d after %d", f, before)
		}
	}
}

func TestASessionThatBeganAfterARestoreIsNotAffected(t *testing.T) {
	w := newRestorable(t)
	backup := w.copied()
	w.restore(backup)
	w.fill(0, 2)
	o := w.open(ann, session.TakeFree)
	w.is(w.read(ann, o.Fence, 9), " 1:m1 2:m2")
	w.commit(ann, o.Fence, 0, 2)
}

func TestNoLifeOfARetiredSessionIsGivenAgainAfterARestore(t *testing.T) {
	w := newRestorable(t)
	w.fill(0, 1)
	w.noError(w.Retire(w.Context(), ann, session.Retirement{Fence: w.open(ann, session.TakeFree).Fence}))
	backup := w.copied()
	lost := w.open(ann, session.TakeFree).Life
	w.restore(backup)
	if life := w.open(ann, session.TakeFree).Life; life <= lost {
		t.Errorf("life %d after %d", life, lost)
	}
	w.is(w.read(ann, w.open(ann, session.TakeNow).Fence, 9), " 1:m1")
}

// TestLostEntriesAndNewOnesHaveDifferentDeadLetters puts one copy back twice, with a stamp each time.
// The offsets of the new entries are the same, because logs of partitions do not jump.
func TestLostEntriesAndNewOnesHaveDifferentDeadLetters(t *testing.T) {
	w, q := newRestorable(t), &queues{}
	w.pool = session.Pool{Partitions: 1, Attempts: 1, DeadLetter: true}
	w.restart(nil)
	w.fill(0, 1)
	for backup := w.copied(); len(q.letters) < 2; {
		w.now = w.now.Add(time.Minute)
		w.store = backup.Copy()
		w.Sessions = w.with(w.store, session.Config{Queues: q, Restores: record.Restores{{At: w.now, Stamped: true}}})
		w.now = w.now.Add(time.Second)
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 2)
		w.commit(ann, f, 0, 1)
		if _, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 2}); err != nil {
			w.Fatal(err)
		}
	}
	if a, b := q.letters[0].Message.ID, q.letters[1].Message.ID; a == b {
		w.Errorf("both are %s; %v", a, q.letters)
	}
}
