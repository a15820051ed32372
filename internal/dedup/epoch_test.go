package dedup_test

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func TestAHigherEpochStartsAtOneAndFencesTheOldOne(t *testing.T) {
	w := newLab(t).worker(bySequence)
	same(t, "fates", w.process(numbered("p/1/1", "p/1/2", "p/2/1", "p/1/3", "p/2/2")...),
		[]string{"processed", "processed", "processed", "rejected stale-epoch", "processed"})
	same(t, "fates", w.process(numbered("p/1/3", "p/1/1", "p/2/1")...), []string{"rejected stale-epoch", "rejected stale-epoch", "duplicate"})
	same(t, "record", summary(w.group()), "v1 state=p/1/1,p/1/2,p/2/1,p/2/2, pending= p/2 next=3")
}

func TestAHigherEpochFencesTheOldOneBeforeItsFirstMessageRuns(t *testing.T) {
	for _, batch := range [][]record.Message{numbered("p/2/2", "p/1/2"), numbered("p/1/2", "p/2/2")} {
		w := newLab(t).worker(bySequence)
		w.process(numbered("p/1/1")...)
		for i, fate := range w.process(batch...) {
			same(t, batch[i].Identity(), fate, map[uint64]string{1: "processed", 2: "held"}[batch[i].Epoch])
		}
		same(t, "fates", w.process(numbered("p/2/1")...), []string{"processed"})
		same(t, "fates", w.process(numbered("p/1/3")...), []string{"rejected stale-epoch"})
	}
}

func TestEarlyMessagesOfTwoEpochsDoNotMix(t *testing.T) {
	for _, c := range []struct {
		name  string
		batch []record.Message
		want  []string
	}{
		{"old one first", numbered("p/1/3", "p/2/5"), []string{"rejected stale-epoch", "held"}},
		{"new one first", numbered("p/2/5", "p/1/3"), []string{"held", "rejected stale-epoch"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLab(t).worker(bySequence)
			w.process(numbered("p/1/1")...)
			same(t, "fates", w.process(c.batch...), c.want)
			same(t, "record", summary(w.group()), "v2 state=p/1/1, pending= p/2 next=1 held=[{5 5}]")
			same(t, "fates", w.process(numbered("p/2/1", "p/2/2", "p/2/3", "p/2/4")...), []string{"processed", "processed", "processed", "processed"})
			same(t, "next", w.group().Sources["p"].Next, 6)
		})
	}
}

func TestAHigherEpochInABatchWithTheLastMessagesOfTheOldOne(t *testing.T) {
	for name, c := range map[string]struct{ second, fate string }{
		"that run":    {"p/1/2", "processed"},
		"that do not": {"p/1/2: reject", "rejected rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLab(t).worker(bySequence)
			w.process(numbered(c.second, "p/1/3")...)
			same(t, "fates", w.process(numbered("p/1/1", c.second, "p/2/1")...), []string{"processed", c.fate, "processed"})
			same(t, "held", len(w.group().Sources["p"].Held), 0)
		})
	}
}

func TestHeldMessagesOfAnOldEpochAreDeadLetteredBeforeTheyAreDeleted(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("p/1/3", "p/1/5")...)
	w.calls()
	same(t, "fates", w.process(numbered("p/2/1")...), []string{"processed"})
	same(t, "calls", w.calls(), []string{
		"load g", "held g 1/3 x99", "run p/2/1", "dead p/1/3 stale-epoch p/1/5 stale-epoch", "commit g v2 unhold 1/3 unhold 1/5",
	})
	same(t, "record", summary(w.group()), "v2 state=p/2/1, pending= p/2 next=2")
}

func TestAnOldEpochStaysHeldWhileTheDeadLetterQueueFails(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("p/1/3")...)
	w.at = always("dead", failsBefore)
	same(t, "fates", w.process(numbered("p/2/1")...), []string{"retry"})
	same(t, "record", summary(w.group()), "v1 state= pending= p/1 next=1 held=[{3 3}]")
}

func TestACopyOfAnEvictedMessageInTheSameBatchIsRefused(t *testing.T) {
	for _, c := range []struct{ name, newer, fate string }{
		{"while the newer one is refused", "p/2/1: reject", "rejected rejected"},
		{"while the newer one is far ahead", "p/2/20000", "held"},
		{"while the newer one is held", "p/2/2", "held"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLab(t).worker(bySequence)
			w.process(numbered("p/1/3")...)
			same(t, "fates", w.process(numbered(c.newer, "p/1/3")...), []string{c.fate, "rejected stale-epoch"})
			same(t, "epoch", w.group().Sources["p"].Epoch, 2)
		})
	}
}

func TestManyHeldMessagesOfAnOldEpochAreEvictedInSeveralCommits(t *testing.T) {
	w := newLab(t).worker(bySequence)
	var old []record.Message
	for n := uint64(2); n < 202; n++ {
		old = append(old, record.Message{Stream: "s", Group: "g", Source: "p", Epoch: 1, Sequence: n})
	}
	w.process(old...)
	same(t, "fates", w.process(numbered("p/2/1")...), []string{"processed"})
	same(t, "dead letters", len(w.lettered()), 200)
	same(t, "record", summary(w.group()), "v6 state=p/2/1, pending= p/2 next=2")
}

func TestAnEvictionOnAStaleViewRefusesNothing(t *testing.T) {
	// Between the load of the group and the read of held messages, another worker drains 2 and
	// holds 4.
	l := newLab(t)
	l.worker(bySequence).process(numbered("p/1/2")...)
	w := l.worker(bySequence)
	w.at = between("held", func() { l.worker(bySequence).process(numbered("p/1/1", "p/1/4")...) })
	same(t, "fates", w.process(numbered("p/2/1")...), []string{"processed"})
	same(t, "dead letters", w.lettered(), []string{"p/1/4 stale-epoch"})
	same(t, "state", string(l.group().State), "p/1/1,p/1/2,p/2/1,")
}

func TestACommittedMessageOfAnOldEpochIsADuplicateWhileItIsPending(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	w.at = nth(1, "commit", func() fault {
		w.at = between("load", func() { l.worker(bySequence).process(numbered("p/2/1")...) })
		return failsAfter
	})
	same(t, "fates", w.process(numbered("p/1/1: send")...), []string{"processed"})
	same(t, "fates", w.process(numbered("p/1/1: send")...), []string{"duplicate"})
}

func TestASourceIsForgottenWithItsGroup(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("1", "2")...)
	l.pass(record.DefaultGroupRetention)
	w := l.worker(bySequence)
	same(t, "fates", w.process(numbered("2")...), []string{"held"})
	l.pass(2 * record.DefaultGroupRetention) // a record with held messages does not expire
	same(t, "fates", w.process(numbered("1")...), []string{"processed"})
}

func TestARecreatedGroupUsesANewEpochForSequencedDestinations(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	w.process(keyed("a: send=next", "b: send=next+out")...)
	l.publish(byKey)
	l.pass(record.DefaultGroupRetention)
	w.process(keyed("c: send=next")...)
	l.publish(byKey)
	var got []record.Delivery
	for _, d := range l.sent {
		if d.To == "next" {
			got = append(got, record.Delivery{Identity: d.Identity, Number: d.Number, Incarnation: d.Incarnation, Sequence: d.Sequence})
		}
	}
	born := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, second := uint64(born.UnixMilli()), uint64(born.Add(record.DefaultGroupRetention).UnixMilli())
	same(t, "deliveries", got, []record.Delivery{
		{Identity: "s/g/1", Number: 1, Incarnation: first, Sequence: 1},
		{Identity: "s/g/2", Number: 2, Incarnation: first, Sequence: 2},
		{Identity: "s/g/1", Number: 1, Incarnation: second, Sequence: 1},
	})
}

func TestAnExpiredGroupIsACondition(t *testing.T) {
	// The record expires between the load and the commit.
	l := newLab(t)
	l.worker(byKey).process(keyed("a")...)
	w := l.worker(byKey)
	w.at = between("commit", func() { l.pass(record.DefaultGroupRetention) })
	same(t, "fates", w.process(keyed("b")...), []string{"processed"})
	same(t, "record", summary(l.group()), "v1 state=b, pending=[1 b 0 effects]")
}
