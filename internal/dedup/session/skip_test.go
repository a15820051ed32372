package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

func TestSkippedEntriesAreDeadLettersAndTheSessionContinuesBehindThem(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q}, session.Pool{Partitions: 2, Attempts: 1, DeadLetter: true}, func(w *world) {
		q.letters, q.fails = nil, nil
		w.fill(0, 3)
		w.fill(1, 2)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 5)
		w.commit(ann, f, 0, 1)
		if _, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 2}); err != nil {
			w.Fatal(err)
		}
		q.letters = nil
		c := session.Commit{Fence: f, From: 1, To: 4, Skip: true, Detail: "the store\nis lost"}
		for range 2 {
			w.noError(w.Commit(w.Context(), ann, c))
		}
		why := `/0 the store\nis lost`
		if want := []string{"skipped " + w.letterOf(0, 3) + why, "skipped " + w.letterOf(1, 1) + why}; !slices.Equal(q.shown(), want) {
			w.Errorf("got %s", strings.Join(q.shown(), ", "))
		}
		w.is(w.read(ann, f, 9), " 5:m5")
		o := w.open(ann, session.TakeNow)
		if diff := cmp.Diff(record.Ranges{{First: 2, Last: 4}}, o.Dead); diff != "" || o.Cursor != 4 {
			w.Errorf("cursor %d, %s", o.Cursor, diff)
		}
		// A consumer whose store has a lower number passes them.
		w.commit(ann, o.Fence, 4, 1)
		w.is(w.read(ann, o.Fence, 9), " 2:m2x 3:m3x 4:m4x 5:m5")
		w.retire(ann, o.Fence)
		w.is(w.read(bob, w.open(bob, session.TakeFree).Fence, 9), " 1:m5")
	})
}

// The letters come first: a process that dies in between has made letters too many, and the
// repetition makes the same ones.
func TestEntriesAreDeadLettersBeforeTheCursorIsBehindThem(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q}, session.Pool{}, func(w *world) {
		q.letters, q.fails = nil, errBroken
		w.fill(0, 2)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 2)
		c := session.Commit{Fence: f, From: 0, To: 2, Skip: true}
		if err := w.Commit(w.Context(), ann, c); !errors.Is(err, errBroken) {
			w.Errorf("got %v", err)
		}
		if o := w.open(ann, session.TakeNow); o.Cursor != 0 || len(o.Dead) > 0 {
			w.Errorf("the cursor has moved without dead letters: %+v", o)
		} else {
			c.Fence = o.Fence
		}
		q.letters, q.fails = nil, nil
		if err := w.with(&failing{Store: w.store, fail: true}, session.Config{Queues: q}).Commit(w.Context(), ann, c); !errors.Is(err, errBroken) {
			w.Errorf("got %v", err)
		}
		first := q.shown()
		q.letters = nil
		w.noError(w.Commit(w.Context(), ann, c))
		if len(first) != 2 || !slices.Equal(q.shown(), first) {
			w.Errorf("got %s, then %s", first, q.shown())
		}
	})
}

func TestASkipIsChecked(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q}, session.Pool{}, func(w *world) {
		q.letters, q.fails = nil, nil
		w.fill(0, 2)
		old := w.open(ann, session.TakeFree).Fence
		w.read(ann, old, 2)
		f := w.open(ann, session.TakeNow).Fence
		skip := func(c session.Commit) error {
			c.Skip = true
			return w.Commit(w.Context(), ann, c)
		}
		fails[record.InvalidError](w, skip(session.Commit{Fence: f, From: 1, To: 0}))
		fails[record.InvalidError](w, skip(session.Commit{Fence: f, From: 0, To: session.MaxSkip + 1}))
		fails[record.InvalidError](w, skip(session.Commit{Fence: f, From: 0, To: 1, State: []byte("1")}))
		fails[record.InvalidError](w, skip(session.Commit{Fence: f, From: 0, To: 1, Effects: []record.Effect{effect("a")}}))
		fails[session.FencedError](w, skip(session.Commit{Fence: old, From: 0, To: 1}))
		fails[session.AheadError](w, skip(session.Commit{Fence: f, From: 0, To: 3}))
		fails[session.MovedError](w, skip(session.Commit{Fence: f, From: 1, To: 2}))
		if len(q.letters) > 0 {
			w.Errorf("letters of refused calls: %s", q.shown())
		}
		if err := w.with(w.store, session.Config{}).Commit(w.Context(), ann, session.Commit{Fence: f, From: 0, To: 1, Skip: true}); err == nil {
			w.Error("skipped without a dead-letter queue")
		}
	})
}

// Entries that have expired can be passed too: there is nothing to put on the dead-letter queue.
func TestTheLogOfAGroupIsSkippedByTheNumbersOfItsSession(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q}, session.Pool{}, func(w *world) {
		q.letters, q.fails = nil, nil
		w.append(room, "gone", "gone too")
		w.now = w.now.Add(2 * time.Hour)
		w.append(room, "a", "b", "end")
		f := w.open(roomAnn, session.TakeFree).Fence
		w.is(w.read(roomAnn, f, 9), " 1:a 2:b 3:end END")
		w.noError(w.Commit(w.Context(), roomAnn, session.Commit{Fence: f, From: 0, To: 3, Skip: true}))
		skipped := "/0 its consumer has skipped it"
		if want := []string{"skipped a" + skipped, "skipped b" + skipped}; !slices.Equal(q.shown(), want) {
			w.Errorf("got %s", q.shown())
		}
		w.is(w.read(roomAnn, f, 9), " END")
	})
}

// The end of a pool is no entry of a log.
func TestTheEndOfAPoolCanBeSkippedWithTheEntriesBeforeIt(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q}, session.Pool{}, func(w *world) {
		q.letters, q.fails = nil, nil
		w.fill(0, 1)
		w.end(0)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 1)
		w.commit(ann, f, 0, 1)
		w.is(w.read(ann, f, 1), " 2:end END")
		w.noError(w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 1, To: 2, Skip: true}))
		w.is(w.read(ann, f, 1), " END")
		if len(q.letters) > 0 {
			w.Errorf("got %s", fmt.Sprint(q.shown()))
		}
	})
}
