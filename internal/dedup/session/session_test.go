package session_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

func TestASessionIsReadFromItsCursorUntilItCommits(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 3)
		o := w.open(ann, session.TakeFree)
		if o.Cursor != 0 || o.Fence != o.Life || o.Fence != uint64(w.now.UnixMilli()) {
			w.Errorf("got %+v", o)
		}
		w.is(w.read(ann, o.Fence, 2), " 1:m1 2:m2")
		w.is(w.read(ann, o.Fence, 2), " 1:m1 2:m2")
		w.commit(ann, o.Fence, 0, 2)
		w.is(w.read(ann, o.Fence, 2), " 3:m3")
		w.commit(ann, o.Fence, 2, 3)
		w.is(w.read(ann, o.Fence, 2), "")
		w.fill(0, 1)
		w.is(w.read(ann, o.Fence, 2), " 4:m4")
	})
}

func TestAnEntryHasItsPlaceInTheLog(t *testing.T) {
	each(t, session.Config{}, session.Pool{Window: 2}, func(w *world) {
		w.fill(0, 4)
		w.read(ann, w.open(ann, session.TakeFree).Fence, 2)
		page := w.read(bob, w.open(bob, session.TakeFree).Fence, 2)
		w.is(page, " 1:m3 2:m4")
		if e := page.Entries[1]; e.Offset.Number != 4 || e.Offset.Incarnation != uint64(w.now.UnixMilli()) || e.Group != session.Partition(stream, 0) {
			w.Errorf("got %+v", e)
		}
		text, err := page.Entries[1].AppendJSON(nil, 1, "")
		if want := `{"number":2,"offset":"0000000000001_0000000000000004",`; err != nil || !strings.HasPrefix(string(text), want) {
			w.Errorf("got %s, %v", text, err)
		}
		var x struct {
			Number uint64
			Offset string
		}
		w.noError(cbor.Unmarshal(page.Entries[1].AppendCBOR(nil, 1, ""), &x))
		if x.Number != 2 || x.Offset != "0000000000001_0000000000000004" {
			w.Errorf("got %+v", x)
		}
	})
}

func TestEachEntryIsDealtToOneSessionOnly(t *testing.T) {
	each(t, session.Config{}, session.Pool{Window: 1, Partitions: 2}, func(w *world) {
		w.fill(0, 2)
		w.fill(1, 1)
		a, b := w.open(ann, session.TakeFree).Fence, w.open(bob, session.TakeFree).Fence
		w.is(w.read(ann, a, 10), " 1:m1")
		w.is(w.read(bob, b, 10), " 1:m2")
		w.is(w.read(ann, a, 10), " 1:m1")
		w.commit(bob, b, 0, 1)
		w.is(w.read(bob, b, 10), " 2:m3")
		w.commit(ann, a, 0, 1)
		w.is(w.read(ann, a, 10), "")
	})
}

func TestEveryOpenHasAFenceOfItsOwnAndOnlyTheLastHolds(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 1)
		old := w.open(ann, session.TakeMine).Fence
		w.read(ann, old, 1)
		now := w.open(ann, session.TakeMine).Fence
		if now <= old {
			w.Fatalf("fence %d follows %d", now, old)
		}
		_, err := w.Read(w.Context(), ann, session.Reading{Fence: old, Limit: 1})
		if e := fails[session.FencedError](w, err); e.Fence != now || e.Holder != "of ann" {
			w.Errorf("got %+v", e)
		}
		fails[session.FencedError](w, w.Commit(w.Context(), ann, session.Commit{Fence: old, From: 0, To: 1}))
		_, err = w.Fail(w.Context(), ann, session.Failure{Fence: old, At: 1, Try: 1})
		fails[session.FencedError](w, err)
		fails[session.FencedError](w, w.Release(w.Context(), ann, old))
		_, err = w.Renew(w.Context(), ann, old)
		fails[session.FencedError](w, err)
		fails[session.FencedError](w, w.Retire(w.Context(), ann, session.Retirement{Fence: old}))
		w.is(w.read(ann, now, 1), " 1:m1")
	})
}

func TestASessionThatIsHeldIsTakenOnlyByItsHolderOrByForce(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		first, err := w.Open(w.Context(), ann, session.Opening{Holder: "one", Lease: time.Minute})
		if err != nil || !first.LeaseUntil.Equal(w.now.Add(time.Minute)) {
			w.Fatal(first, err)
		}
		w.now = w.now.Add(20 * time.Second)
		for _, take := range []session.Take{session.TakeFree, session.TakeMine} {
			_, err = w.Open(w.Context(), ann, session.Opening{Holder: "two", Take: take})
			if e := fails[session.HeldError](w, err); e.Holder != "one" || e.RetryAfter != 40*time.Second {
				w.Errorf("got %+v", e)
			}
		}
		if _, err = w.Open(w.Context(), ann, session.Opening{Holder: "one"}); err == nil {
			w.Error("free takes a session from an earlier open of the same holder")
		}
		if _, err = w.Open(w.Context(), ann, session.Opening{Holder: "two", Take: session.TakeNow}); err != nil {
			w.Error(err)
		}
	})
}

func TestASessionIsFreeAfterItsLeaseOrItsRelease(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.open(ann, session.TakeFree)
		w.now = w.now.Add(30 * time.Second)
		o := w.open(ann, session.TakeFree)
		w.now = w.now.Add(20 * time.Second)
		if until, err := w.Renew(w.Context(), ann, o.Fence); err != nil || !until.Equal(w.now.Add(30*time.Second)) {
			w.Errorf("renewed until %s, %v", until, err)
		}
		w.now = w.now.Add(20 * time.Second)
		_, err := w.Open(w.Context(), ann, session.Opening{Holder: "two"})
		fails[session.HeldError](w, err)
		for range 2 {
			if err := w.Release(w.Context(), ann, o.Fence); err != nil {
				w.Error(err)
			}
		}
		w.open(ann, session.TakeFree)
	})
}

func TestTheSameCommitAgainIsNoErrorAndAnotherOneIsMoved(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 3)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 3)
		for range 2 {
			w.commit(ann, f, 0, 2)
		}
		w.commit(ann, f, 2, 2)
		for _, c := range []session.Commit{{From: 0, To: 3}, {From: 1, To: 2}, {From: 0, To: 1}} {
			c.Fence = f
			if e := fails[session.MovedError](w, w.Commit(w.Context(), ann, c)); e.Cursor != 2 {
				w.Errorf("%+v: got %+v", c, e)
			}
		}
		if o := w.open(ann, session.TakeNow); o.Cursor != 2 || o.First != 1 || o.Last != 3 {
			w.Errorf("got %+v", o)
		}
	})
}

func TestACommitBeyondTheDealtEntriesIsRefused(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 2)
		f := w.open(ann, session.TakeFree).Fence
		if e := fails[session.AheadError](w, w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 0, To: 1})); e.Last != 0 {
			w.Errorf("got %+v", e)
		}
		w.read(ann, f, 1)
		if e := fails[session.AheadError](w, w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 0, To: 3})); e.Last != 2 {
			w.Errorf("got %+v", e)
		}
		_, err := w.readAfter(ann, f, 3, 1)
		fails[session.AheadError](w, err)
	})
}

func TestTheConsumersStateIsWrittenWithItsCursor(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 2)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 2)
		if err := w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 0, To: 1, State: []byte("one")}); err != nil {
			w.Fatal(err)
		}
		w.commit(ann, f, 1, 2)
		if o := w.open(ann, session.TakeNow); string(o.State) != "one" || o.Cursor != 2 {
			w.Errorf("got %+v", o)
		}
	})
}

func TestAStoreThatWasRestoredReadsItsEntriesAgain(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 3)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 3)
		w.commit(ann, f, 0, 3)
		w.fill(0, 1)
		w.is(w.read(ann, f, 3), " 4:m4")
		page, err := w.readAfter(ann, f, 1, 3)
		if err != nil {
			w.Fatal(err)
		}
		w.is(page, " 2:m2 3:m3 4:m4")
		w.commit(ann, f, 3, 1)
		w.is(w.read(ann, f, 1), " 2:m2")
	})
}

func TestANumberWhoseRangeIsDroppedIsExpired(t *testing.T) {
	each(t, session.Config{Ranges: 1}, session.Pool{Partitions: 2, Window: 2}, func(w *world) {
		w.fill(0, 2)
		f := w.open(ann, session.TakeFree).Fence
		w.is(w.read(ann, f, 2), " 1:m1 2:m2")
		w.commit(ann, f, 0, 2)
		w.fill(1, 1)
		w.is(w.read(ann, f, 2), " 3:m3")
		_, err := w.readAfter(ann, f, 1, 2)
		if e := fails[session.ExpiredError](w, err); e.First != 3 || e.Again {
			w.Errorf("got %+v", e)
		}
		if e := fails[session.ExpiredError](w, w.Commit(w.Context(), ann, session.Commit{Fence: f, From: 2, To: 1})); e.First != 3 {
			w.Errorf("got %+v", e)
		}
		w.commit(ann, f, 2, 3)
	})
}

func TestRangesThatAreNotProcessedAreNeverDropped(t *testing.T) {
	each(t, session.Config{Ranges: 1}, session.Pool{Partitions: 2}, func(w *world) {
		w.fill(0, 2)
		w.fill(1, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.is(w.read(ann, f, 3), " 1:m1 2:m2 3:m3")
		w.fill(0, 1)
		w.is(w.read(ann, f, 4), " 1:m1 2:m2 3:m3 4:m4")
	})
}

func TestEntriesThatTheLogHasForgottenAreExpiredAndNeverSkipped(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 2)
		f := w.open(ann, session.TakeFree).Fence
		w.now = w.now.Add(30 * time.Minute)
		w.fill(0, 2)
		w.now = w.now.Add(40 * time.Minute)
		_, err := w.Read(w.Context(), ann, session.Reading{Fence: f, Limit: 10})
		if e := fails[session.ExpiredError](w, err); e.First != 3 {
			w.Errorf("got %+v", e)
		}
		w.commit(ann, f, 0, 2)
		w.is(w.read(ann, f, 10), " 3:m3 4:m4")
	})
}

func TestAnEntryThatFailsTooOftenStopsTheConsumer(t *testing.T) {
	each(t, session.Config{}, session.Pool{Attempts: 2}, func(w *world) {
		w.fill(0, 2)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 2)
		fail := func(at, try uint64) session.Failed {
			w.Helper()
			out, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: at, Try: try})
			if err != nil {
				w.Fatal(err)
			}
			return out
		}
		for range 3 { // repeated
			if got := fail(1, 1); got != (session.Failed{Tries: 1}) {
				w.Errorf("got %+v", got)
			}
		}
		if o := w.open(ann, session.TakeNow); o.Tries != 1 || o.At != 1 {
			w.Errorf("got %+v", o)
		} else {
			f = o.Fence
		}
		_, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 1, Try: 3})
		fails[record.InvalidError](w, err)
		for range 2 {
			if got := fail(1, 2); got != (session.Failed{Tries: 2, Stop: true}) {
				w.Errorf("got %+v", got)
			}
		}
		w.commit(ann, f, 0, 1)
		if got := fail(2, 1); got != (session.Failed{Tries: 1}) {
			w.Errorf("got %+v", got)
		}
		_, err = w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 1, Try: 1})
		fails[session.MovedError](w, err)
		_, err = w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 3, Try: 1})
		fails[session.AheadError](w, err)
	})
}

func TestADeadLetterIsMarkedForTheLifeOfTheSession(t *testing.T) {
	each(t, session.Config{Queues: &queues{}}, session.Pool{Attempts: 1, DeadLetter: true}, func(w *world) {
		w.fill(0, 3)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 3)
		for range 2 {
			out, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 2, Try: 1})
			if err != nil || out != (session.Failed{Tries: 1, Dead: true}) {
				w.Errorf("got %+v, %v", out, err)
			}
		}
		o := w.open(ann, session.TakeNow)
		if diff := cmp.Diff(record.Ranges{{First: 2, Last: 2}}, o.Dead); diff != "" {
			w.Error(diff)
		}
		w.is(w.read(ann, o.Fence, 3), " 1:m1 2:m2x 3:m3")
		w.retire(ann, o.Fence)
		w.is(w.read(bob, w.open(bob, session.TakeFree).Fence, 3), " 1:m1 2:m3")
		again := w.open(ann, session.TakeFree)
		if len(again.Dead) > 0 || again.Life <= o.Life || again.Fence <= o.Fence || again.Cursor != 0 {
			w.Errorf("the new life after %+v is %+v", o, again)
		}
	})
}

func TestUnreadEntriesOfARetiredSessionAreDealtBeforeOthers(t *testing.T) {
	each(t, session.Config{}, session.Pool{Window: 3}, func(w *world) {
		w.fill(0, 4)
		f := w.open(ann, session.TakeFree).Fence
		w.is(w.read(ann, f, 3), " 1:m1 2:m2 3:m3")
		w.commit(ann, f, 0, 1)
		for range 2 {
			w.retire(ann, f)
		}
		_, err := w.Read(w.Context(), ann, session.Reading{Fence: f, Limit: 1})
		if !errors.Is(err, session.ErrRetired) {
			w.Errorf("got %v", err)
		}
		b := w.open(bob, session.TakeFree).Fence
		w.is(w.read(bob, b, 10), " 1:m2 2:m3 3:m4")
		w.retire(bob, b)
		w.is(w.read(ann, w.open(ann, session.TakeFree).Fence, 2), " 1:m2 2:m3")
	})
}

func TestRetireTakesTheNumberOfTheConsumersStore(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 3)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 3)
		w.commit(ann, f, 0, 1)
		number := uint64(4)
		fails[session.AheadError](w, w.Retire(w.Context(), ann, session.Retirement{Fence: f, Cursor: &number}))
		number = 2
		if err := w.Retire(w.Context(), ann, session.Retirement{Fence: f, Cursor: &number}); err != nil {
			w.Fatal(err)
		}
		w.is(w.read(bob, w.open(bob, session.TakeFree).Fence, 10), " 1:m3")
	})
}

// A retire that dies after it has closed the session is finished by a sweep, or by the next open.
func TestAClosedSessionIsFinishedByTheNextOpenAndByASweep(t *testing.T) {
	for name, finish := range map[string]func(w *world){
		"open":  func(w *world) { w.open(ann, session.TakeFree) },
		"sweep": func(w *world) { w.noError(w.Finish(w.Context(), ann)) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, session.Config{}, session.Pool{}, func(w *world) {
				w.fill(0, 2)
				f := w.open(ann, session.TakeFree).Fence
				w.read(ann, f, 2)
				broken := &failing{Store: w.store, after: 1}
				if err := w.on(broken).Retire(w.Context(), ann, session.Retirement{Fence: f}); !errors.Is(err, errBroken) {
					w.Fatal(err)
				}
				b := w.open(bob, session.TakeFree).Fence
				w.is(w.read(bob, b, 2), "")
				w.now = w.now.Add(2 * time.Minute) // a retired session would be forgotten
				finish(w)
				w.is(w.read(bob, b, 2), " 1:m1 2:m2")
			})
		})
	}
}

// The deal has loaded the session when it is closed: the pool does not know its name yet.
func TestNothingIsDealtToASessionThatIsClosedMeanwhile(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		b := w.open(bob, session.TakeFree).Fence
		store := &failing{Store: w.store, before: func() { w.retire(ann, f) }}
		_, err := w.on(store).Read(w.Context(), ann, session.Reading{Fence: f, Limit: 1})
		if !errors.Is(err, session.ErrRetired) {
			w.Errorf("got %v", err)
		}
		w.is(w.read(bob, b, 1), " 1:m1")
	})
}

func TestTheEndComesAfterAllSessionsHaveProcessedTheirEntries(t *testing.T) {
	each(t, session.Config{}, session.Pool{Partitions: 2, Window: 2}, func(w *world) {
		w.fill(0, 2)
		w.fill(1, 1)
		w.end(0)
		a, b := w.open(ann, session.TakeFree).Fence, w.open(bob, session.TakeFree).Fence
		w.is(w.read(ann, a, 2), " 1:m1 2:m2")
		w.is(w.read(bob, b, 2), " 1:m3")
		w.commit(bob, b, 0, 1)
		w.commit(ann, a, 0, 2)
		w.is(w.read(bob, b, 2), "") // the other log goes on
		w.end(1)
		w.is(w.read(bob, b, 2), "") // the pool has not seen the cursor of the other session
		w.is(w.read(ann, a, 2), " 3:end END")
		w.is(w.read(bob, b, 2), " 2:end END")
		w.commit(bob, b, 1, 2)
		page := w.read(bob, b, 2)
		w.is(page, " END")
		if o := w.open(bob, session.TakeNow); !o.Ended || o.Last != 1 || o.Cursor != 2 {
			w.Errorf("got %+v", o)
		}
		_, err := w.Open(w.Context(), session.ID{Stream: stream, Name: "new"}, session.Opening{})
		if !errors.Is(err, session.ErrEnded) {
			w.Errorf("got %v", err)
		}
	})
}

func TestTheEndWaitsForARetiredSessionsEntries(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 1)
		w.end(0)
		a, b := w.open(ann, session.TakeFree).Fence, w.open(bob, session.TakeFree).Fence
		w.read(ann, a, 1)
		w.is(w.read(bob, b, 1), "")
		w.retire(ann, a)
		w.is(w.read(bob, b, 1), " 1:m1")
		w.commit(bob, b, 0, 1)
		w.is(w.read(bob, b, 1), " 2:end END")
	})
}

// A consumer's store that was restored after the end has entries that nobody would read any more.
func TestEntriesThatAreReturnedAfterTheEndAreNotDealt(t *testing.T) {
	each(t, session.Config{Queues: &queues{}}, session.Pool{}, func(w *world) {
		w.fill(0, 1)
		w.end(0)
		a, b := w.open(ann, session.TakeFree).Fence, w.open(bob, session.TakeFree).Fence
		w.read(ann, a, 1)
		w.commit(ann, a, 0, 1)
		w.is(w.read(ann, a, 1), " 2:end END")
		number := uint64(0)
		if err := w.Retire(w.Context(), ann, session.Retirement{Fence: a, Cursor: &number}); err != nil {
			w.Fatal(err)
		}
		w.is(w.read(bob, b, 1), " 1:end END")
	})
}

func TestAPartitionBelongsToOneSessionUntilThatHasProcessedIt(t *testing.T) {
	each(t, session.Config{}, session.Pool{Partitions: 2, ByPartition: true, Window: 10}, func(w *world) {
		w.fill(0, 2)
		w.fill(1, 1)
		a, b := w.open(ann, session.TakeFree).Fence, w.open(bob, session.TakeFree).Fence
		w.is(w.read(ann, a, 10), " 1:m1 2:m2 3:m3")
		w.fill(0, 1)
		w.fill(1, 1)
		w.now = w.now.Add(time.Hour - time.Second) // the lease has ended long ago
		w.is(w.read(bob, b, 10), "")
		w.commit(ann, a, 0, 2)
		w.is(w.read(ann, a, 1), " 3:m3")
		w.is(w.read(bob, b, 10), "") // the pool does not know that the first partition is processed
		w.commit(ann, a, 2, 3)
		w.is(w.read(ann, a, 1), " 4:m4")
		w.is(w.read(bob, b, 10), "") // both have one entry more for the first session
		w.commit(ann, a, 3, 5)
		w.is(w.read(ann, a, 1), "")
		w.fill(0, 1)
		w.fill(1, 1)
		w.is(w.read(bob, b, 10), " 1:m6")
		w.is(w.read(ann, a, 10), " 6:m7")
		w.retire(ann, a)
		w.is(w.read(bob, b, 10), " 1:m6 2:m7")
	})
}

func TestASessionOfASingleLogHasTheNumbersOfTheLog(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		id := session.ID{Stream: "orders", Group: "room", Name: "ann"}
		key := record.GroupKey{Stream: "orders", Group: "room"}
		f := w.open(id, session.TakeFree).Fence
		w.is(w.read(id, f, 10), "")
		fails[session.AheadError](w, w.Commit(w.Context(), id, session.Commit{Fence: f, From: 0, To: 1}))
		w.append(key, "a", "b", "c")
		w.is(w.read(id, f, 2), " 1:a 2:b")
		w.commit(id, f, 0, 2)
		w.is(w.read(id, f, 2), " 3:c")
		fails[session.AheadError](w, w.Commit(w.Context(), id, session.Commit{Fence: f, From: 2, To: 4}))
		w.append(key, "end")
		w.is(w.read(id, f, 2), " 3:c 4:end END")
		w.retire(id, f)
		o := w.open(id, session.TakeFree)
		if o.Cursor != 0 || o.Fence <= f {
			w.Errorf("got %+v", o)
		}
		w.is(w.read(id, o.Fence, 1), " 1:a")
	})
}

func TestALogThatHasBegunAgainIsNotContinued(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		id := session.ID{Stream: "orders", Group: "room", Name: "ann"}
		key := record.GroupKey{Stream: "orders", Group: "room"}
		w.append(key, "a", "b")
		f := w.open(id, session.TakeFree).Fence
		w.read(id, f, 1)
		w.now = w.now.Add(25 * time.Hour) // the record has expired
		w.append(key, "c", "d", "e")
		if e := fails[session.ExpiredError](w, w.Commit(w.Context(), id, session.Commit{Fence: f, From: 0, To: 1})); !e.Again {
			w.Errorf("got %+v", e)
		}
		_, err := w.Read(w.Context(), id, session.Reading{Fence: f, Limit: 1})
		if e := fails[session.ExpiredError](w, err); !e.Again || e.First != 1 {
			w.Errorf("got %+v", e)
		}
	})
}

func TestTheRecordOfARetiredSessionIsForgottenAndItsFencesAreNot(t *testing.T) {
	each(t, session.Config{Keep: time.Hour}, session.Pool{}, func(w *world) {
		old := w.open(ann, session.TakeFree)
		b := w.open(bob, session.TakeFree)
		w.retire(ann, old.Fence)
		w.now = w.now.Add(time.Hour)
		fails[session.FencedError](w, w.Release(w.Context(), ann, old.Fence))
		if o := w.open(ann, session.TakeFree); o.Fence <= old.Fence || o.Life <= old.Life {
			w.Errorf("%+v is followed by %+v", old, o)
		}
		w.now = w.now.Add(10 * 365 * 24 * time.Hour)
		if o := w.open(bob, session.TakeFree); o.Life != b.Life {
			w.Errorf("an open session was forgotten: %+v", o)
		}
	})
}

func TestNamesAreChecked(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		for _, id := range []session.ID{{Stream: stream}, {Name: "a"}, {Stream: stream, Name: "a\x1fb"}, {Stream: stream, Group: "\x1f", Name: "a"}, {Stream: stream, Name: "\xff"}} {
			_, err := w.Open(w.Context(), id, session.Opening{})
			fails[record.InvalidError](w, err)
		}
		if _, err := w.Open(w.Context(), session.ID{Stream: "other", Name: "a"}, session.Opening{}); !errors.Is(err, session.ErrNoPool) {
			w.Errorf("got %v", err)
		}
	})
}

func TestADamagedRecordIsAnError(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		for _, key := range []record.GroupKey{{Stream: "~sessions", Group: stream + "/ann"}, {Stream: "~pools", Group: stream}} {
			w.open(ann, session.TakeNow)
			w.fill(0, 1)
			w.read(ann, w.open(ann, session.TakeNow).Fence, 1)
			groups, _, err := w.store.Load(w.Context(), []record.GroupKey{key}, nil)
			if err != nil || groups[0].Version == 0 {
				w.Fatal(groups, err)
			}
			for _, state := range []string{"", "\x02", string(groups[0].State[:5]), string(groups[0].State) + "x"} {
				next := groups[0]
				next.Version, next.State = groups[0].Version+1, []byte(state)
				w.noError(w.store.Commit(w.Context(), record.Commit{Loaded: groups[0], Next: next, Attempt: "x"}))
				if _, err := w.Open(w.Context(), ann, session.Opening{Take: session.TakeNow}); !errors.Is(err, record.ErrCorrupt) {
					w.Errorf("%q: got %v", state, err)
				}
				back := next
				back.Version, back.State = next.Version+1, groups[0].State
				w.noError(w.store.Commit(w.Context(), record.Commit{Loaded: next, Next: back, Attempt: "y"}))
				groups[0] = back
			}
		}
	})
}

func TestASessionIsDescribed(t *testing.T) {
	each(t, session.Config{}, session.Pool{Partitions: 2}, func(w *world) {
		if d, err := w.Describe(w.Context(), ann); err != nil || d.Fence != 0 || !d.LeaseUntil.IsZero() {
			w.Errorf("got %+v, %v", d, err)
		}
		w.fill(1, 2)
		w.open(ann, session.TakeFree)
		f := w.open(ann, session.TakeNow).Fence
		w.read(ann, f, 2)
		w.commit(ann, f, 0, 1)
		w.fill(0, 1)
		w.read(ann, f, 3)
		start := uint64(w.now.UnixMilli())
		want := session.Description{
			Fence: f, Life: f - 1, Holder: "of ann", LastHolder: "of ann", LeaseUntil: w.now.Add(30 * time.Second), Cursor: 1,
			Parts: []session.Part{
				{Number: 1, Group: session.Partition(stream, 1), First: log.Offset{Incarnation: start, Number: 1}, Count: 2},
				{Number: 3, Group: session.Partition(stream, 0), First: log.Offset{Incarnation: start, Number: 1}, Count: 1},
			},
		}
		d, err := w.Describe(w.Context(), ann)
		if diff := cmp.Diff(want, d, cmpopts.EquateEmpty()); err != nil || diff != "" {
			w.Error(diff, err)
		}
		w.retire(ann, f)
		if d, err := w.Describe(w.Context(), ann); err != nil || !d.Closed || !d.Returned || len(d.Parts) > 0 {
			w.Errorf("got %+v, %v", d, err)
		}
		if d, err := w.Describe(w.Context(), session.ID{Stream: "orders", Group: "room", Name: "ann"}); err != nil || d.Fence != 0 {
			w.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestNobodyHoldsASessionThatDoesNotExist(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 1)
		_, err := w.Read(w.Context(), ann, session.Reading{Limit: 1})
		fails[session.FencedError](w, err)
		fails[session.FencedError](w, w.Release(w.Context(), ann, 0))
	})
}
