package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// An ender is the queue of a stream's partitions. It records the ends that are put on it.
type ender struct {
	took  []string
	fails string // the group for which it fails
	check func(m record.Message)
}

func (q *ender) Enqueue(_ context.Context, m record.Message) error {
	q.took = append(q.took, m.GroupName()+" "+m.Identity())
	if q.check != nil {
		q.check(m)
	}
	if m.GroupName() == q.fails {
		return errBroken
	}
	return nil
}

func poolKey() record.GroupKey { return record.GroupKey{Stream: "~pools", Group: stream} }

func TestAStreamIsClosedBeforeItsEndIsSent(t *testing.T) {
	q := &ender{}
	each(t, session.Config{Enqueue: q.Enqueue}, session.Pool{Partitions: 2}, func(w *world) {
		s := record.Stream{Name: stream, Partitions: 2}
		*q = ender{check: func(m record.Message) {
			if closed, err := w.Closed(w.Context(), stream); err != nil || !closed {
				w.Errorf("the end of %s is sent, and the stream is open: %v", m.GroupName(), err)
			}
			if err := errors.Join(m.Validate(), s.Place(&m)); !m.OnlyEnds() || m.Principal == "" || err != nil {
				w.Errorf("the end is not valid: %+v, %v", m, err)
			}
		}}
		if closed, err := w.Closed(w.Context(), stream); err != nil || closed {
			w.Errorf("closed %t, %v", closed, err)
		}
		w.noError(w.EndStream(w.Context(), stream))
		if !slices.Equal(q.took, []string{"0 end/0", "1 end/1"}) {
			w.Errorf("sent %s", q.took)
		}
		w.now = w.now.AddDate(10, 0, 0)
		if closed, err := w.Closed(w.Context(), stream); err != nil || !closed {
			w.Errorf("the stream is open again: %v", err)
		}
		if err := w.EndStream(w.Context(), "other"); !errors.Is(err, session.ErrNoPool) {
			w.Errorf("got %v", err)
		}
	})
}

func TestTheEndIsSentAgainUntilEveryLogHasIt(t *testing.T) {
	q := &ender{}
	each(t, session.Config{Enqueue: q.Enqueue, Numbered: map[string]bool{stream: true}}, session.Pool{Partitions: 2}, func(w *world) {
		*q = ender{}
		w.noError(w.SweepEnds(w.Context()))
		if len(q.took) > 0 {
			w.Errorf("an open stream is ended: %s", q.took)
		}
		w.fill(0, 1)
		q.fails = "0"
		if err := w.EndStream(w.Context(), stream); !errors.Is(err, errBroken) {
			w.Errorf("got %v", err)
		}
		w.end(1)
		q.took, q.fails = nil, ""
		w.noError(w.SweepEnds(w.Context()))
		w.noError(w.Sweep(w.Context(), record.GroupKey{Stream: "~pools", Group: stream + "/end"}))
		w.noError(w.EndStream(w.Context(), stream))
		if !slices.Equal(q.took, []string{"0 end/0", "0 end/0", "0 end/0"}) {
			w.Errorf("sent %s", q.took)
		}
		w.end(0)
		q.took = nil
		w.noError(w.SweepEnds(w.Context()))
		if len(q.took) > 0 {
			w.Errorf("sent to ended logs: %s", q.took)
		}
	})
}

func TestAStreamWhoseClosingIsUnknownSendsNoEnd(t *testing.T) {
	q := &ender{}
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		*q = ender{}
		if err := w.with(&failing{Store: w.store, fail: true}, session.Config{Enqueue: q.Enqueue}).EndStream(w.Context(), stream); !errors.Is(err, errBroken) || len(q.took) > 0 {
			w.Errorf("got %v, sent %s", err, q.took)
		}
		if err := w.EndStream(w.Context(), stream); err == nil {
			w.Error("a stream without a queue is ended")
		}
	})
}

func TestTheEndOfAPoolHasOneEffect(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q, Enqueue: (&ender{}).Enqueue}, session.Pool{Destinations: []string{"mail"}}, func(w *world) {
		q.triggers = nil
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.is(w.read(ann, f, 2), " 1:m1")
		w.end(0)
		w.is(w.read(ann, f, 2), " 1:m1")
		w.commit(ann, f, 0, 1)
		if sent := w.publish(poolKey()); len(sent)+len(q.triggers) > 0 {
			w.Errorf("before the end: sent %s, triggered %s", sent, q.triggers)
		}
		w.is(w.read(ann, f, 2), " 2:end END")
		if want := []string{"~pools/work 15m0s", "~pools/work 0s"}; !slices.Equal(q.triggers, want) {
			w.Errorf("triggered %s", q.triggers)
		}
		w.commit(ann, f, 1, 2)
		w.is(w.read(ann, f, 2), " END")
		w.noError(w.EndStream(w.Context(), stream))
		w.noError(w.SweepEnds(w.Context()))
		w.retire(ann, f)
		if sent := w.publish(poolKey()); !slices.Equal(sent, []string{`~pools/work/1 {"stream":"work"} 0`}) {
			w.Errorf("sent %s", sent)
		}
	})
}

// The effect of the end and the end are one write: if it fails, neither is there.
func TestTheEndThatIsNotWrittenHasNoEffect(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q, Enqueue: (&ender{}).Enqueue}, session.Pool{Destinations: []string{"mail"}}, func(w *world) {
		q.fails = errBroken
		w.end(0)
		f := w.open(ann, session.TakeFree).Fence
		if _, err := w.Read(w.Context(), ann, session.Reading{Fence: f, Limit: 1}); !errors.Is(err, errBroken) {
			w.Errorf("got %v", err)
		}
		if o := w.open(ann, session.TakeNow); o.Ended || len(w.publish(poolKey())) > 0 {
			w.Errorf("got %+v", o)
		}
	})
}

func TestTheSweepEndsAPoolWhoseSessionsDoNotReadAnyMore(t *testing.T) {
	each(t, session.Config{Enqueue: (&ender{}).Enqueue}, session.Pool{Window: 2}, func(w *world) {
		w.fill(0, 3)
		a, b := w.open(ann, session.TakeFree).Fence, w.open(bob, session.TakeFree).Fence
		w.is(w.read(ann, a, 2), " 1:m1 2:m2")
		w.is(w.read(bob, b, 2), " 1:m3")
		w.commit(bob, b, 0, 1)
		w.noError(w.EndStream(w.Context(), stream))
		w.noError(w.SweepEnds(w.Context()))
		w.is(w.read(bob, b, 2), "") // the log goes on
		w.end(0)
		w.commit(ann, a, 0, 1)
		w.noError(w.SweepEnds(w.Context()))
		w.is(w.read(bob, b, 2), "") // the other session is not drained
		w.commit(ann, a, 1, 2)
		w.noError(w.Release(w.Context(), ann, a))
		w.noError(w.SweepEnds(w.Context()))
		w.is(w.read(bob, b, 2), " 2:end END")
	})
}

// A closed session whose entries are not returned yet may return some.
func TestTheEndWaitsForTheReturnOfAClosedSession(t *testing.T) {
	each(t, session.Config{Enqueue: (&ender{}).Enqueue}, session.Pool{}, func(w *world) {
		w.fill(0, 1)
		a, b := w.open(ann, session.TakeFree).Fence, w.open(bob, session.TakeFree).Fence
		w.read(ann, a, 1)
		w.commit(ann, a, 0, 1)
		w.noError(w.EndStream(w.Context(), stream))
		w.end(0)
		zero := uint64(0)
		if err := w.on(&failing{Store: w.store, after: 1}).Retire(w.Context(), ann, session.Retirement{Fence: a, Cursor: &zero}); !errors.Is(err, errBroken) {
			w.Fatal(err)
		}
		w.noError(w.SweepEnds(w.Context()))
		w.is(w.read(bob, b, 1), "")
		w.noError(w.Sweep(w.Context(), keyOfAnn))
		w.is(w.read(bob, b, 1), " 1:m1")
		w.commit(bob, b, 0, 1)
		w.noError(w.SweepEnds(w.Context()))
		w.is(w.read(bob, b, 1), " 2:end END")
	})
}

func TestEntriesThatAreReturnedAfterTheEndAreDeadLetters(t *testing.T) {
	q := &queues{}
	each(t, session.Config{Queues: q, Enqueue: (&ender{}).Enqueue}, session.Pool{}, func(w *world) {
		q.letters, q.fails = nil, nil
		w.fill(0, 3)
		w.noError(w.EndStream(w.Context(), stream))
		w.end(0)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 3)
		w.commit(ann, f, 0, 3)
		w.is(w.read(ann, f, 1), " 4:end END")
		one := uint64(1) // the consumer's store was restored
		q.fails = errBroken
		if err := w.Retire(w.Context(), ann, session.Retirement{Fence: f, Cursor: &one}); !errors.Is(err, errBroken) {
			w.Errorf("got %v", err)
		}
		q.letters, q.fails = nil, nil
		for range 2 {
			w.noError(w.SweepEnds(w.Context()))
			w.noError(w.Sweep(w.Context(), keyOfAnn))
		}
		late := "/0 its session was retired after the end of its stream"
		if want := []string{"ended " + w.letterOf(0, 2) + late, "ended " + w.letterOf(0, 3) + late}; !slices.Equal(q.shown(), want) {
			w.Errorf("got %s", strings.Join(q.shown(), ", "))
		}
		if d, err := w.Describe(w.Context(), ann); err != nil || !d.Returned {
			w.Errorf("got %+v, %v", d, err)
		}
	})
}

func TestTheSweepLeavesRecordsOfOthersAlone(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		for _, key := range []record.GroupKey{
			poolKey(), {Stream: "~pools", Group: "other/end"}, {Stream: "~sessions", Group: "other/ann"}, {Stream: "~sessions", Group: "damaged"}, {Stream: stream, Group: "0/end"},
		} {
			if err := w.Sweep(w.Context(), key); err != nil {
				w.Error(fmt.Errorf("%s: %w", key.Path(), err))
			}
		}
	})
}
