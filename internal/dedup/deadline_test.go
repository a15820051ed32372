package dedup_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A handler that uses up the whole deadline fails alone: the results of the messages before it in
// the batch are committed, marked and triggered, and its own failure is reported.
func TestAHandlerThatUsesUpTheDeadlineFailsAlone(t *testing.T) {
	for _, other := range []string{"g", "h"} {
		l := newLab(t)
		w := l.worker(byKey)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ran := make(chan struct{})
		l.scripts["a"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
			a.Send(record.Effect{To: []string{"out"}})
			close(ran)
			return nil
		}
		l.scripts["b"] = func(context.Context, *record.Attempt, record.Message) error {
			<-ran
			cancel()
			return ctx.Err()
		}
		batch := keyed("a", "b", "c")
		batch[0].Group = other
		out := w.Process(ctx, batch)
		same(t, "the one before in group "+other, out[0].Kind, record.Processed)
		if !errors.As(out[1].Err, new(*record.HandlerError)) {
			t.Errorf("with another in group %s: the one that hangs: %v", other, out[1].Err)
		}
		if out[2].Settled() || errors.As(out[2].Err, new(*record.HandlerError)) {
			t.Errorf("with another in group %s: the one behind: %+v", other, out[2])
		}
		same(t, "state", string(l.record(other).State), "a,")
		same(t, "triggers", len(l.triggers), 1)
	}
}

// If the results were discarded, every redelivery would repeat and discard them, and the group
// would never make progress.
func TestResultsBeforeTheDeadlineAreCommitted(t *testing.T) {
	t.Run("of a batch", func(t *testing.T) {
		l := newLab(t)
		ctx, cancel := context.WithCancel(t.Context())
		l.scripts["b"] = func(context.Context, *record.Attempt, record.Message) error { cancel(); return nil }
		same(t, "fates", fates(l.worker(byKey).Process(ctx, keyed("a", "b", "c"))), []string{"retry", "retry", "retry"})
		same(t, "state", string(l.group().State), "a,b,")
		same(t, "fates of the next delivery", l.worker(byKey).process(keyed("a", "b", "c")...), []string{"duplicate", "duplicate", "processed"})
	})
	t.Run("of held messages", func(t *testing.T) {
		l := newLab(t)
		l.worker(bySequence).process(numbered("2", "3", "4")...)
		ctx, cancel := context.WithCancel(t.Context())
		l.scripts["p/0/2"] = func(context.Context, *record.Attempt, record.Message) error { cancel(); return nil }
		same(t, "fates", fates(l.worker(bySequence).Process(ctx, numbered("1"))), []string{"retry"})
		same(t, "next", l.group().Sources["p"].Next, 3)
	})
	t.Run("before a blob could be staged", func(t *testing.T) {
		l := newLab(t)
		ctx, cancel := context.WithCancel(t.Context())
		l.scripts["b"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
			a.Blob("k", []byte("x"))
			a.Blob("l", []byte("x"))
			return nil
		}
		w := l.worker(byKey)
		w.at = nth(2, "stage", func() fault { cancel(); return failsBefore })
		same(t, "fates", fates(w.Process(ctx, keyed("a", "b"))), []string{"retry", "retry"})
		same(t, "state", string(l.group().State), "a,")
		if n, err := w.SweepBlobs(t.Context(), l.store, l.clock()); err != nil || n != 1 || len(l.staged) > 0 {
			t.Errorf("swept %d, %v", n, err)
		}
	})
	t.Run("behind a leftover", func(t *testing.T) {
		l := newLab(t)
		l.worker(byKey).process(keyed("old")...)
		ctx, cancel := context.WithCancel(t.Context())
		l.scripts["b"] = func(context.Context, *record.Attempt, record.Message) error { cancel(); return nil }
		w := l.worker(byKey)
		w.at = nth(2, "load", func() fault { return failsBefore })
		same(t, "fates", fates(w.Process(ctx, keyed("a", "b"))), []string{"processed", "processed"})
		same(t, "state", string(l.group().State), "old,a,b,")
	})
	t.Run("of gaps", func(t *testing.T) {
		s := gapped(record.GapSkip)
		s.Bounds.Distance = 5
		l := newLab(t)
		l.worker(s).process(numbered("2", "q/0/100")...)
		l.pass(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		w := l.worker(s)
		w.at = func(call string) fault {
			if !strings.HasPrefix(call, "held g 0/100") {
				return works
			}
			cancel()
			return failsBefore
		}
		if err := w.CloseGaps(ctx, groupG); !errors.Is(err, errInjected) {
			t.Errorf("got %v", err)
		}
		same(t, "next", l.group().Sources["p"].Next, 2)
		same(t, "dead letters", len(l.lettered()), 0)
	})
	t.Run("before more held messages could be read", func(t *testing.T) {
		l := newLab(t)
		l.worker(bySequence).process(numbered("2")...)
		ctx, cancel := context.WithCancel(t.Context())
		w := l.worker(bySequence)
		w.at = nth(1, "held", func() fault { cancel(); return failsBefore })
		same(t, "fates", fates(w.Process(ctx, numbered("1"))), []string{"retry"})
		same(t, "next", l.group().Sources["p"].Next, 2)
	})
}

func TestAFailureBeforeTheDeadlineCommitsNothingOfItsPlan(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("2")...)
	w := l.worker(bySequence)
	w.at = once("held", failsBefore)
	same(t, "fates", w.process(numbered("1")...), []string{"processed"})
	same(t, "commits", l.group().Version, 2)
}
