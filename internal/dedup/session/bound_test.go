package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// poolSize returns how many bytes the record of the pool has.
func (w *world) poolSize() int {
	w.Helper()
	groups, _, err := w.store.Load(w.Context(), []record.GroupKey{poolKey()}, nil)
	w.noError(err)
	return len(groups[0].State)
}

// A reader is a consumer of a session.
type reader struct {
	id        session.ID
	fence, at uint64
}

// step reads the next entries, at most two, and commits them. It notes which were read.
func (r *reader) step(w *world, got map[string]bool) error {
	w.Helper()
	page, err := w.readAfter(r.id, r.fence, r.at, 2)
	if err != nil {
		return err
	}
	for _, e := range page.Entries {
		x, err := e.Entry()
		w.noError(err)
		if got[x.ID] {
			w.Errorf("%s is dealt twice", x.ID)
		}
		got[x.ID] = true
	}
	w.commit(r.id, r.fence, r.at, page.Next)
	r.at = page.Next
	return nil
}

func TestAFullPoolTakesNoNewSessionAndStopsNoOther(t *testing.T) {
	const most, partitions = 4 << 10, 8
	each(t, session.Config{MaxPool: most, Ranges: 8}, session.Pool{Partitions: partitions, Window: partitions}, func(w *world) {
		var readers []reader
		got := map[string]bool{}
		var err error
		for err == nil {
			w.fill(uint64(len(readers)%partitions), 1)
			r := reader{id: session.ID{Stream: stream, Name: fmt.Sprint(strings.Repeat("x", 100), len(readers))}}
			r.fence = w.open(r.id, session.TakeFree).Fence
			if err = r.step(w, got); err == nil {
				readers = append(readers, r)
			}
			if len(readers) > most/100 {
				w.Fatalf("%d sessions fit into %d bytes", len(readers), most)
			}
		}
		if !errors.Is(err, session.ErrPoolFull) || len(readers) < 10 {
			w.Fatalf("%d sessions, then %v", len(readers), err)
		}
		rounds := 20
		if testing.Short() {
			rounds = 10
		}
		for round := range rounds {
			for i := range readers { // some are slower: they have unread entries of several partitions
				w.fill(uint64((i+round)%partitions), 1)
				w.fill(uint64((i+round+3)%partitions), 1)
				if _, err := w.readAfter(readers[i].id, readers[i].fence, readers[i].at, partitions); err != nil {
					w.Fatal(err)
				}
				if round%2 == i%2 {
					w.noError(readers[i].step(w, got))
				}
			}
			if size := w.poolSize(); size > most+most/32 { // numbers that rise take a byte more
				w.Fatalf("the pool has %d bytes", size)
			}
		}
		w.retire(readers[0].id, readers[0].fence)
		w.read(ann, w.open(ann, session.TakeFree).Fence, 1) // there is room again
		for i := range readers[1:] {
			before := len(got)
			for range 9 {
				w.noError(readers[i+1].step(w, got))
			}
			if len(got) == before {
				w.Errorf("session %d gets nothing", i)
			}
		}
	})
}

// Before a session is refused, the pool forgets old ranges of all sessions. Their numbers stay
// counted.
func TestAPoolThatIsTooLargeForgetsProcessedRangesFirst(t *testing.T) {
	const most = 800
	each(t, session.Config{MaxPool: most, Ranges: 64}, session.Pool{Partitions: 2, Window: 1}, func(w *world) {
		f, at := w.open(ann, session.TakeFree).Fence, uint64(0)
		for w.poolSize() < most-50 {
			w.fill(at%2, 1)
			w.read(ann, f, 1)
			w.commit(ann, f, at, at+1)
			at++
		}
		w.fill(0, 1)
		long := session.ID{Stream: stream, Name: strings.Repeat("x", 100)}
		w.is(w.read(long, w.open(long, session.TakeFree).Fence, 1), fmt.Sprintf(" 1:m%d", w.ends))
		if size := w.poolSize(); size > most {
			w.Errorf("the pool has %d bytes", size)
		}
		_, err := w.readAfter(ann, f, 0, 1)
		first := w.expired(err).First
		if first < 2 || first > at {
			w.Fatalf("the first number is %d", first)
		}
		page, err := w.readAfter(ann, f, first-1, 1)
		w.noError(err)
		w.is(page, fmt.Sprintf(" %d:m%d", first, first))
		w.fill(1, 1)
		w.is(w.read(ann, f, 1), fmt.Sprintf(" %d:m%d", at+1, w.ends))
	})
}

func TestRangesWhoseEntriesHaveExpiredAreForgottenOnlyIfTheyAreProcessed(t *testing.T) {
	each(t, session.Config{}, session.Pool{Partitions: 2, Window: 2}, func(w *world) {
		w.fill(0, 2)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 2)
		w.commit(ann, f, 0, 2)
		w.fill(1, 2)
		w.read(ann, f, 2) // 3 and 4, unread
		w.now = w.now.Add(2 * time.Hour)
		w.fill(0, 1)
		if o := w.open(ann, session.TakeNow); o.First != 5 || o.Last != 4 {
			w.Errorf("got %+v", o)
		} else {
			f = o.Fence
		}
		_, err := w.Read(w.Context(), ann, session.Reading{Fence: f, Limit: 9})
		if e := w.expired(err); e.First != 5 {
			w.Errorf("got %+v", e)
		}
		w.commit(ann, f, 2, 4)
		w.is(w.read(ann, f, 9), " 5:m5")
		if d, err := w.Describe(w.Context(), ann); err != nil || len(d.Parts) != 1 || d.Parts[0].Number != 5 {
			w.Errorf("the pool keeps %+v, %v", d.Parts, err)
		}
	})
}

func TestEntriesThatExpireBeforeTheyAreDealtAreToldToTheSessionThatWouldHaveGotThem(t *testing.T) {
	each(t, session.Config{}, session.Pool{Partitions: 2}, func(w *world) {
		w.fill(0, 3)
		w.now = w.now.Add(2 * time.Hour) // all of this partition
		f := w.open(ann, session.TakeFree).Fence
		for range 2 {
			_, err := w.Read(w.Context(), ann, session.Reading{Fence: f, Limit: 9})
			if e := w.expired(err); e.First != 4 || e.Again {
				w.Errorf("got %+v", e)
			}
		}
		w.fill(1, 1)
		w.commit(ann, f, 0, 3)
		w.is(w.read(ann, f, 9), " 4:m4")
	})
}

// An operator who retires a session loses none of its entries silently either.
func TestExpiredEntriesOfARetiredSessionAreToldToTheNextOne(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 3)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 3)
		w.commit(ann, f, 0, 1)
		w.now = w.now.Add(2 * time.Hour)
		w.fill(0, 1)
		w.retire(ann, w.open(ann, session.TakeNow).Fence)
		f = w.open(bob, session.TakeFree).Fence
		_, err := w.Read(w.Context(), bob, session.Reading{Fence: f, Limit: 9})
		if e := w.expired(err); e.First != 3 {
			w.Errorf("got %+v", e)
		}
		w.commit(bob, f, 0, 2)
		w.is(w.read(bob, f, 9), " 3:m4")
	})
}
