package session_test

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

var (
	roomAnn = session.ID{Stream: "orders", Group: "room", Name: "ann"}
	room    = record.GroupKey{Stream: "orders", Group: "room"}
)

// eachRoom runs a test on every store, with sessions of the log of one group.
func eachRoom(t *testing.T, test func(w *world)) {
	t.Helper()
	each(t, session.Config{}, session.Pool{}, test)
}

func (w *world) expired(err error) session.ExpiredError {
	w.Helper()
	return fails[session.ExpiredError](w, err)
}

// The entries that had expired when a session began never belonged to it, so it counts from the
// first one that is kept.
func TestANewSessionOfALogBeginsAtItsFirstKeptEntry(t *testing.T) {
	eachRoom(t, func(w *world) {
		w.append(room, "a", "b", "c")
		w.now = w.now.Add(30 * time.Minute)
		w.append(room, "d", "e")
		w.now = w.now.Add(40 * time.Minute) // the first three have expired
		o := w.open(roomAnn, session.TakeFree)
		if o.Cursor != 0 {
			w.Errorf("got %+v", o)
		}
		for range 2 {
			w.is(w.read(roomAnn, o.Fence, 9), " 1:d 2:e")
			page, err := w.readAfter(roomAnn, o.Fence, 0, 1)
			w.noError(err)
			w.is(page, " 1:d")
			if e := page.Entries[0]; e.Offset.Number != 4 {
				w.Errorf("the place of the first entry is %d", e.Offset.Number)
			}
		}
		page, err := w.readAfter(roomAnn, o.Fence, 1, 9)
		w.noError(err)
		w.is(page, " 2:e")
		w.commit(roomAnn, o.Fence, 0, 1)
		fails[session.AheadError](w, w.Commit(w.Context(), roomAnn, session.Commit{Fence: o.Fence, From: 1, To: 3}))
		w.append(room, "f")
		w.is(w.read(roomAnn, o.Fence, 9), " 2:e 3:f")
	})
}

// An entry that is appended after the session was opened is its own, even if it has read nothing
// yet.
func TestAnEntryThatExpiresBeforeTheFirstReadIsNotSkippedSilently(t *testing.T) {
	for name, before := range map[string][]string{"an empty log": nil, "a log with entries": {"x", "y"}} {
		t.Run(name, func(t *testing.T) {
			eachRoom(t, func(w *world) {
				if len(before) > 0 {
					w.append(room, before...)
					w.now = w.now.Add(2 * time.Hour) // they have expired, the record has not
				}
				f := w.open(roomAnn, session.TakeFree).Fence
				w.append(room, "a", "b")
				w.now = w.now.Add(2 * time.Hour)
				for range 2 {
					_, err := w.Read(w.Context(), roomAnn, session.Reading{Fence: f, Limit: 9})
					if e := w.expired(err); e.First != 3 || e.Again {
						w.Errorf("got %+v", e)
					}
				}
				w.append(room, "c")
				_, err := w.readAfter(roomAnn, f, 0, 9)
				if e := w.expired(err); e.First != 3 || e.Again {
					w.Errorf("got %+v", e)
				}
				w.commit(roomAnn, f, 0, 2)
				w.is(w.read(roomAnn, f, 9), " 3:c")
			})
		})
	}
}

// A life that follows a retired one has other numbers if entries have expired since.
func TestEachLifeOfASessionOfALogBeginsAtTheFirstKeptEntry(t *testing.T) {
	eachRoom(t, func(w *world) {
		w.append(room, "a")
		f := w.open(roomAnn, session.TakeFree).Fence
		w.is(w.read(roomAnn, f, 9), " 1:a")
		w.commit(roomAnn, f, 0, 1)
		w.retire(roomAnn, f)
		w.now = w.now.Add(2 * time.Hour)
		w.append(room, "b")
		f = w.open(roomAnn, session.TakeFree).Fence
		w.is(w.read(roomAnn, f, 9), " 1:b")
	})
}
