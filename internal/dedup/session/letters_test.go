package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// shown returns the reason, the identity and the detail of each letter.
func (q *queues) shown() (out []string) {
	for _, r := range q.letters {
		out = append(out, fmt.Sprintf("%s %s/%d %s", r.Reason, r.Message.ID, r.Message.Sequence, r.Detail))
	}
	return out
}

// origin returns where the letters come from: the key, the session and the number of each.
func (q *queues) origin() (out []string) {
	for _, r := range q.letters {
		out = append(out, fmt.Sprintf("%s %s/%d", r.Message.RedeliveryOf, r.Session, r.Number))
	}
	return out
}

// letterOf returns the id of the dead letter of an entry.
func (w *world) letterOf(partition, number uint64) string {
	return fmt.Sprintf("dead/%d/%013d_%016d", partition, w.now.UnixMilli(), number)
}

func TestAnEntryIsADeadLetterBeforeItIsMarked(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q}, session.Pool{Attempts: 2, DeadLetter: true}, func(w *world) {
		q.letters, q.fails = nil, errBroken
		w.fill(0, 3)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 3)
		out, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 2, Try: 1, Detail: "first"})
		if err != nil || out.Dead || len(q.letters) > 0 {
			w.Fatalf("got %+v, %v, letters %s", out, err, q.shown())
		}
		second := session.Failure{Fence: f, At: 2, Try: 2, Detail: "no\nmoney"}
		if _, err := w.Fail(w.Context(), ann, second); !errors.Is(err, errBroken) {
			w.Errorf("got %v", err)
		}
		if o := w.open(ann, session.TakeNow); len(o.Dead) > 0 || o.Tries != 1 || o.Detail != "first" {
			w.Errorf("marked without a dead letter: %+v", o)
		} else {
			second.Fence = o.Fence
		}
		q.letters, q.fails = nil, nil
		for range 2 {
			if out, err := w.Fail(w.Context(), ann, second); err != nil || !out.Dead {
				w.Errorf("got %+v, %v", out, err)
			}
		}
		if want := []string{"attempts " + w.letterOf(0, 2) + `/0 no\nmoney`}; !slices.Equal(q.shown(), want) {
			w.Errorf("got %s, want %s", q.shown(), want)
		}
		if want := []string{"m2 ann/2"}; !slices.Equal(q.origin(), want) {
			w.Errorf("got %s, want %s", q.origin(), want)
		}
		if d, err := w.Describe(w.Context(), ann); err != nil || d.Detail != `no\nmoney` || !d.Dead.Contains(2) {
			w.Errorf("got %+v, %v", d, err)
		}
	})
}

// All letters of an entry have one identity, so that it is redriven once.
func TestTheDeadLetterOfAnEntryIsTheSameAfterALostMark(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q, Numbered: map[string]bool{stream: true}}, session.Pool{Attempts: 1, DeadLetter: true}, func(w *world) {
		q.letters = nil
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 1)
		broken := &failing{Store: w.store, after: 0, fail: true}
		cfg := session.Config{Queues: q, Numbered: map[string]bool{stream: true}}
		if _, err := w.with(broken, cfg).Fail(w.Context(), ann, session.Failure{Fence: f, At: 1}); !errors.Is(err, errBroken) {
			w.Fatal(err)
		}
		if _, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 1}); err != nil {
			w.Fatal(err)
		}
		id := w.letterOf(0, 1)
		if got := q.shown(); len(got) != 2 || got[0] != got[1] || got[0] != "attempts "+id+"/1 " || q.letters[0].Message.Source != id {
			w.Errorf("got %s", got)
		}
		if m := q.letters[0].Message; m.Validate() != nil {
			w.Errorf("the letter can't be redriven: %v", m.Validate())
		}
	})
}

func TestAReportWithoutItsTryCountsEachTime(t *testing.T) {
	each(t, session.Config{}, session.Pool{Attempts: 3}, func(w *world) {
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 1)
		for n := range uint64(3) {
			if out, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 1}); err != nil || out.Tries != n+1 || out.Stop != (n == 2) {
				w.Errorf("got %+v, %v", out, err)
			}
		}
	})
}

func TestARetirementWithoutACursorSkipsToANumber(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q}, session.Pool{Partitions: 2, Attempts: 1, DeadLetter: true}, func(w *world) {
		q.letters = nil
		w.fill(0, 3)
		w.fill(1, 2)
		f := w.open(ann, session.TakeFree).Fence
		w.is(w.read(ann, f, 5), " 1:m1 2:m2 3:m3 4:m4 5:m5")
		w.commit(ann, f, 0, 1)
		if _, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 2}); err != nil {
			w.Fatal(err)
		}
		q.letters = nil
		zero, four, nine := uint64(0), uint64(4), uint64(9)
		fails[record.InvalidError](w, w.Retire(w.Context(), ann, session.Retirement{Fence: f, Cursor: &four, SkipTo: &four}))
		fails[session.MovedError](w, w.Retire(w.Context(), ann, session.Retirement{Fence: f, SkipTo: &zero}))
		fails[session.AheadError](w, w.Retire(w.Context(), ann, session.Retirement{Fence: f, SkipTo: &nine}))
		for range 2 {
			w.noError(w.Retire(w.Context(), ann, session.Retirement{Fence: f, SkipTo: &four}))
		}
		lost := "/0 the cursor of its session was lost"
		if want := []string{"skipped " + w.letterOf(0, 3) + lost, "skipped " + w.letterOf(1, 1) + lost}; !slices.Equal(q.shown(), want) {
			w.Errorf("got %s", strings.Join(q.shown(), ", "))
		}
		if want := []string{"m3 ann/3", "m4 ann/4"}; !slices.Equal(q.origin(), want) {
			w.Errorf("got %s, want %s", q.origin(), want)
		}
		w.is(w.read(bob, w.open(bob, session.TakeFree).Fence, 9), " 1:m5")
	})
}

func TestASkippedEntryOfAGroupKeepsItsIdentity(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q}, session.Pool{}, func(w *world) {
		q.letters = nil
		id := session.ID{Stream: "orders", Group: "room", Name: "ann"}
		w.append(record.GroupKey{Stream: "orders", Group: "room"}, "a", "b")
		f := w.open(id, session.TakeFree).Fence
		w.read(id, f, 2)
		two := uint64(2)
		w.noError(w.Retire(w.Context(), id, session.Retirement{Fence: f, SkipTo: &two}))
		lost := "/0 the cursor of its session was lost"
		if want := []string{"skipped a" + lost, "skipped b" + lost}; !slices.Equal(q.shown(), want) {
			w.Errorf("got %s", q.shown())
		}
		if want := []string{" ann/1", " ann/2"}; !slices.Equal(q.origin(), want) {
			w.Errorf("got %s, want %s", q.origin(), want)
		}
	})
}
