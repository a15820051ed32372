package dedup_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

func TestBeyondTheBoundsAMessageStaysInItsQueue(t *testing.T) {
	for _, c := range []struct {
		name        string
		bounds      record.Bounds
		fits, fails []record.Message
	}{
		{"count", record.Bounds{Count: 2}, numbered("2", "3"), numbered("4")},
		{"distance", record.Bounds{Distance: 5}, numbered("6"), numbered("7")},
		{"bytes", record.Bounds{Bytes: 10}, numbered("2: 12345", "3: 12345"), numbered("4: 1")},
		{"count of one source", record.Bounds{Count: 1}, numbered("2", "q/0/2"), numbered("3", "q/0/3")},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream := bySequence
			stream.Bounds = c.bounds
			w := newLab(t).worker(stream)
			got := w.process(c.fits...)
			same(t, "within", slices.Compact(got), []string{"held"})
			before := summary(w.group())
			for _, o := range w.Process(t.Context(), c.fails) {
				if o.Settled() || !errors.Is(o.Err, dedup.ErrBounds) {
					t.Errorf("beyond: got %+v", o)
				}
			}
			same(t, "record", summary(w.group()), before)
			same(t, "what is held already", slices.Compact(w.process(c.fits...)), []string{"held"})
		})
	}
}

// If it went back to its queue, it could come after the end of the stream.
func TestAStreamWithPartitionsHoldsEveryEarlyMessage(t *testing.T) {
	stream := bySequence
	stream.Partitions, stream.LogRetention, stream.LogMessages = 1, time.Hour, true
	stream.Bounds = record.Bounds{Count: 1, Bytes: 1, Distance: 1}
	stream.Limits = record.Limits{Ranges: 2}
	w := newLab(t).worker(stream)
	early := numbered("90", "30: 1234567890", "91", "60: 1234567890", "20000")
	for i := range early {
		early[i].Group = ""
	}
	same(t, "fates", w.process(early[:4]...), []string{"held", "held", "held", "rejected limit"})
	o := w.Process(t.Context(), early[4:])[0]
	if o.Kind != record.Rejected || o.Reason != record.ReasonLimit || !strings.Contains(o.Detail, "ranges of missing numbers") {
		t.Errorf("one range too many: %+v", o)
	}
}

func TestAMessageBeyondTheBoundsBlocksNoOther(t *testing.T) {
	w := newLab(t).worker(bySequence)
	same(t, "fates", w.process(numbered("1", "3", "10003", "10002")...), []string{"processed", "held", "retry", "held"})
}

func TestTheBoundsAreFreeAgainAfterADrain(t *testing.T) {
	stream := bySequence
	stream.Bounds = record.Bounds{Count: 2, Bytes: 20}
	w := newLab(t).worker(stream)
	for _, batch := range [][]record.Message{numbered("2: 1234567890", "3: 1234567890"), numbered("1"), numbered("5: 1234567890", "6: 1234567890"), numbered("4")} {
		if got := w.process(batch...); slices.Contains(got, "retry") {
			t.Errorf("got %v", got)
		}
	}
	same(t, "record", summary(w.group()), "v4 state=p/0/1,p/0/2,p/0/3,p/0/4,p/0/5,p/0/6, pending= p/0 next=7")
}

func TestTheBoundsCountOnlyHeldMessages(t *testing.T) {
	stream := bySequence
	stream.Bounds = record.Bounds{Bytes: 20}
	w := newLab(t).worker(stream)
	for _, c := range []struct{ message, fate string }{
		{"2: 1234567890", "held"}, {"4: 1234567890", "held"}, {"5: 1234567890", "retry"}, {"1", "processed"}, {"5: 1234567890", "held"}, {"6: 1", "retry"},
	} {
		same(t, c.message, w.process(numbered(c.message)...), []string{c.fate})
	}
	same(t, "bytes", w.group().Sources["p"].HeldBytes, 20)
}

func TestEffectsThatFillTheRecordArePublishedFirst(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a: kb=200 send", "b: kb=200 send")...), []string{"processed", "processed"})
	same(t, "calls", w.calls(), []string{
		"load g +2 tokens", "run a", "run b", "commit g v1", // b found no room
		"run b", "load g", "send out s/g/1", "mark 1", "clear g 1",
		"load g +1 tokens", "run b", "commit g v2", "trigger g",
	})
	same(t, "record", summary(w.group()), "v2 state=a,b, pending=[2 b 1 effects]")
}

func TestABatchOfLargeEffectsIsProcessedInOneCall(t *testing.T) {
	for _, body := range []string{": kb=200 send", ": kb=200 reply"} {
		var batch []record.Message
		for id := 'a'; id < 'a'+20; id++ {
			batch = append(batch, keyed(string(id)+body)...)
		}
		l := newLab(t)
		got := l.worker(byKey).Process(t.Context(), batch)
		if slices.ContainsFunc(got, func(o record.Outcome) bool { return o.Kind != record.Processed }) {
			t.Fatalf("got %+v", got)
		}
		l.publish(byKey)
		if body == ": kb=200 send" {
			same(t, "arrived", len(l.arrived("out")), 20)
		}
	}
}

func TestAnAttemptLargerThanMaxPendingIsCommittedAlone(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a: send", "b: kb=300 send", "c: send")...), []string{"processed", "processed", "processed"})
	w.publish(byKey)
	same(t, "arrived", w.arrived("out"), []string{"s/g/1", "s/g/2", "s/g/3"})
}

func TestAFullGroupThatCanNotBePublishedIsNotAddedTo(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	w.process(keyed("a: kb=200 send")...)
	w.at = always("send", failsBefore)
	o := w.Process(t.Context(), keyed("b: kb=200 send"))[0]
	if o.Settled() || !errors.Is(o.Err, errInjected) {
		t.Errorf("got %+v", o)
	}
	same(t, "record", summary(w.group()), "v1 state=a, pending=[1 a 1 effects]")
	same(t, "a duplicate there", w.process(keyed("a: kb=200 send")...), []string{"duplicate"})
}

func TestHeldMessagesWithLargeEffectsAreDrainedInSeveralCommits(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	w.process(numbered("2: kb=200 send", "3: kb=200 send", "4: kb=200 send")...)
	same(t, "fates", w.process(numbered("1")...), []string{"processed"})
	l.publish(bySequence)
	same(t, "arrived", l.arrived("out"), []string{"s/g/1", "s/g/2", "s/g/3"})
	same(t, "record", summary(l.group()), "v4 state=p/0/1,p/0/2,p/0/3,p/0/4, pending= p/0 next=5")
}

func TestAGroupExpiresOnlyWhenItIsIdle(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	after := func() time.Duration {
		if l.group().Expires.IsZero() {
			return 0
		}
		return l.group().Expires.Sub(l.clock())
	}
	w.process(numbered("1")...)
	same(t, "idle", after(), record.DefaultGroupRetention)
	w.process(numbered("2: send")...)
	same(t, "pending", after(), 0)
	l.publish(bySequence)
	same(t, "published", after(), record.DefaultGroupRetention)
	w.process(numbered("4")...)
	same(t, "held", after(), 0)
	w.process(numbered("3: send")...)
	l.publish(bySequence)
	same(t, "drained", after(), record.DefaultGroupRetention)
}

func TestAGroupExpiresAlsoAfterARaceOfClearAndCommit(t *testing.T) {
	lost := func(t *testing.T) *lab {
		t.Helper()
		l := newLab(t)
		l.worker(bySequence).process(numbered("1: send")...)
		w := l.worker(bySequence)
		w.at = between("commit", func() { l.publish(bySequence) })
		w.process(numbered("2")...) // loaded before the clear
		if !l.group().Expires.IsZero() {
			t.Fatal("the race was not lost")
		}
		return l
	}
	t.Run("by its trigger", func(t *testing.T) {
		l := lost(t)
		l.publish(bySequence)
		same(t, "expires", l.group().Expires, l.clock().Add(record.DefaultGroupRetention))
	})
	t.Run("by a sweep", func(t *testing.T) {
		l := lost(t)
		if err := l.worker(bySequence).Sweep(t.Context(), groupG); err != nil {
			t.Fatal(err)
		}
		same(t, "expires", l.group().Expires, l.clock().Add(record.DefaultGroupRetention))
	})
}

// A pool counts the entries of its partitions. If the record of one began again, entries that were
// not dealt yet would have no reader, and nobody would know.
func TestThePartitionOfAPoolIsNeverForgotten(t *testing.T) {
	for _, together := range []bool{false, true} {
		pooled := logging(byKey)
		pooled.Partitions = 2
		l := newLab(t)
		l.commitsTogether = together
		w := l.worker(pooled)
		message := func(partition uint64, id string) record.Message {
			m := keyed(id)[0]
			m.Group = record.InPartition(partition, "")
			return m
		}
		same(t, "fates", w.process(message(0, "a"), message(0, "b: send"), message(1, "d")), []string{"processed", "processed", "processed"})
		first := l.record("0")
		l.publish(pooled)
		l.pass(50 * 365 * 24 * time.Hour)
		same(t, "fates", w.process(message(0, "c"), message(1, "e")), []string{"processed", "processed"})
		same(t, "entries of the other", l.record("1").Log.Last, 2)
		if g := l.record("0"); g.Incarnation != first.Incarnation || g.Log.Last != 3 {
			t.Errorf("the log began again: incarnation %d, then %d with %d entries", first.Incarnation, g.Incarnation, g.Log.Last)
		}
	}
}
