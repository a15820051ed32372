package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

func limited(l record.Limits) record.Stream {
	s := bySequence
	s.Limits = l
	return s
}

func TestNewSourcesBeyondTheLimitAreRefusedAndKnownOnesContinue(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	same(t, "an old source", w.process(numbered("1", "3")...), []string{"processed", "held"})
	for n := range 12 {
		var batch []record.Message
		for i := range 100 {
			batch = append(batch, numbered(fmt.Sprintf("made-up-%d/0/%d", n*100+i, i%2+1))...)
		}
		w.process(batch...)
	}
	same(t, "sources", len(w.group().Sources), 1000)
	same(t, "one more", w.process(numbered("q/0/1", "q/0/2")...), []string{"rejected limit", "rejected limit"})
	same(t, "those that are known", w.process(numbered("2: send", "1", "made-up-5/0/1", "made-up-5/1/1")...), []string{"processed", "duplicate", "processed", "processed"})
	same(t, "the old source", w.group().Sources["p"].Next, 4)
}

func TestTheTotalSizeOfSourceNamesIsLimited(t *testing.T) {
	w := newLab(t).worker(limited(record.Limits{Names: 10}))
	same(t, "fates", w.process(numbered("12345/0/1", "123456/0/1", "67890/0/1", "1/0/1", "12345/0/2")...),
		[]string{"processed", "rejected limit", "processed", "rejected limit", "processed"})
}

func TestABatchThatReachesTheLimitIsRefusedFromThereOn(t *testing.T) {
	w := newLab(t).worker(limited(record.Limits{Sources: 2}))
	same(t, "fates", w.process(numbered("a/0/2", "b/0/2", "c/0/1", "d/0/1", "b/0/1")...),
		[]string{"rejected limit", "rejected limit", "processed", "processed", "rejected limit"})
}

func TestAnIdleSourceIsForgottenOnlyToMakeRoomAndOnlyAfterItsRetention(t *testing.T) {
	stream := limited(record.Limits{Sources: 3})
	l := newLab(t)
	w := l.worker(stream)
	w.process(numbered("a/0/1", "b/0/1")...)
	l.pass(time.Hour)
	w.process(numbered("c/0/1")...)
	l.pass(record.DefaultGroupRetention - time.Hour)
	w.process(numbered("a/0/2", "c/0/2")...) // keeps the group alive
	same(t, "too early", w.process(numbered("d/0/1")...), []string{"rejected limit"})
	l.pass(time.Second)
	same(t, "b has been idle for long enough", w.process(numbered("d/0/1", "a/0/3")...), []string{"processed", "processed"})
	same(t, "record", summary(w.group()), "v4 state=a/0/1,b/0/1,c/0/1,a/0/2,c/0/2,d/0/1,a/0/3, pending= a/0 next=4 c/0 next=3 d/0 next=2")
	same(t, "nobody else has", w.process(numbered("b/0/2")...), []string{"rejected limit"})
}

func TestAnIdleSourceContinuesIfThereIsRoom(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	w.process(numbered("a/0/1", "b/0/1")...)
	for range 10 {
		l.pass(record.DefaultGroupRetention / 2)
		w.process(numbered(fmt.Sprintf("a/0/%d", w.group().Sources["a"].Next), fmt.Sprintf("c%d/0/1", w.group().Version))...)
	}
	same(t, "b", w.process(numbered("b/0/1", "b/0/2")...), []string{"duplicate", "processed"})
}

func TestASourceIsNotForgottenWhileItMayBeNeeded(t *testing.T) {
	for _, c := range []struct {
		name  string
		first []string
		then  []record.Message
		fates []string
	}{
		{"by what is held", []string{"a/0/1", "b/0/2"}, numbered("c/0/1"), []string{"rejected limit"}},
		{"by what is pending", []string{"a/0/1: send", "b/0/1: send"}, numbered("c/0/1"), []string{"rejected limit"}},
		{"by the batch", []string{"a/0/1", "b/0/1"}, numbered("c/0/1", "a/0/2", "b/0/2"), []string{"rejected limit", "processed", "processed"}},
		{"by what depends on it", []string{"a/0/1", "b/0/1"}, slices.Concat(numbered("c/0/1"), depending(numbered("b/0/2")[0], "a", 1)), []string{"rejected limit", "processed"}},
		{"by a request that names it besides", []string{"a/0/1", "b/0/1"}, slices.Concat(numbered("c/0/1"), requesting(numbered("a/0/2")[0])), []string{"processed", "rejected unknown"}},
		{"by nobody", []string{"a/0/1", "b/0/1"}, numbered("c/0/1", "b/0/2"), []string{"processed", "processed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			w := l.worker(limited(record.Limits{Sources: 2}))
			w.process(numbered(c.first...)...)
			l.pass(record.DefaultGroupRetention - time.Second)
			w.process(numbered("b/0/9")...) // keeps the record
			if c.name != "by what is held" {
				w = l.worker(gapped(record.GapFail))
				l.pass(time.Minute)
				w.closeGaps()
				w = l.worker(limited(record.Limits{Sources: 2}))
			}
			l.pass(record.DefaultGroupRetention - time.Second)
			same(t, "fates", w.process(c.then...), c.fates)
		})
	}
}

// requesting returns a message as a one-time request.
func requesting(m record.Message) []record.Message {
	m.Route, m.ID = "PUT /x", "r"
	return []record.Message{m}
}

func TestAMessageWithOneTargetTooManyIsRefused(t *testing.T) {
	stream := byKey
	stream.Limits = record.Limits{Targets: 2}
	l := newLab(t)
	to := func(group string) {
		l.scripts[group] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
			a.Send(record.Effect{To: []string{"next", "out"}, Group: group})
			return nil
		}
	}
	for _, group := range []string{"x", "y", "z"} {
		to(group)
	}
	w := l.worker(stream)
	same(t, "fates", w.process(keyed("x", "y", "z", "a: send")...), []string{"processed", "processed", "rejected limit", "processed"})
	l.scripts["again"] = l.scripts["x"]
	same(t, "a known one", w.process(keyed("again")...), []string{"processed"})
	same(t, "numbers", w.group().Chained, map[string]uint64{"next/x": 2, "next/y": 1})
}

func TestHeldRangesAreLimitedTogetherAndEverySourceMayHaveOne(t *testing.T) {
	w := newLab(t).worker(limited(record.Limits{Ranges: 3}))
	same(t, "fates", w.process(numbered("2", "4", "6", "8", "3", "q/0/5", "q/0/7", "q/0/6")...),
		[]string{"held", "held", "held", "retry", "held", "held", "retry", "held"})
	o := w.Process(t.Context(), numbered("10"))[0]
	if !errors.Is(o.Err, dedup.ErrBounds) {
		t.Errorf("got %+v", o)
	}
	same(t, "the next one", w.process(numbered("1", "5")...), []string{"processed", "processed"})
}

func TestOldSkippedNumbersAreRefusedAsForgottenRatherThanDroppedAsDuplicates(t *testing.T) {
	stream := gapped(record.GapSkip)
	stream.Limits = record.Limits{Ranges: 2}
	l := newLab(t)
	w := l.worker(stream)
	for _, n := range []string{"1", "3", "5", "7", "9"} { // 2, 4, 6 and 8 are skipped
		w.process(numbered(n)...)
		l.pass(time.Minute)
		w.closeGaps()
	}
	w.process(numbered("q/0/2")...)
	l.pass(time.Minute)
	w.closeGaps()
	same(t, "record", summary(l.group()), "v11 state=p/0/1,p/0/3,p/0/5,p/0/7,p/0/9,q/0/2, pending= p/0 next=10 skipped=[{0 8}] q/0 next=3 skipped=[{1 1}]")
	same(t, "fates", w.process(numbered("4", "5", "8", "9", "10", "q/0/1")...),
		[]string{"rejected expired", "rejected expired", "rejected expired", "duplicate", "processed", "rejected skipped"})
}

func TestALoneNumberFarAheadIsHeldAndAGapPolicyActsOnIt(t *testing.T) {
	for policy, want := range map[record.GapPolicy]string{
		record.GapWait: "v1 state=p/0/1, pending= p/0 next=2 held=[{20000 20000}]",
		record.GapSkip: "v2 state=p/0/1, pending= p/0 next=2",
		record.GapFail: "v2 state=p/0/1, pending= p/0 next=2",
	} {
		t.Run(string(policy), func(t *testing.T) {
			w := newLab(t).worker(gapped(policy))
			same(t, "fates", w.process(numbered("1", "20000", "20001")...), []string{"processed", "held", "retry"})
			w.pass(time.Minute)
			w.events = nil
			w.closeGaps()
			same(t, "record", summary(w.group()), want)
			same(t, "told", w.events[0].Name, record.EventGap)
			if policy == record.GapWait {
				return
			}
			same(t, "dead letters", w.lettered(), []string{"p/0/20000 gap"})
			same(t, "in order again", w.process(numbered("2", "3")...), []string{"processed", "processed"})
		})
	}
}

func TestASmallGapIsSkippedBeforeOneThatIsTooLarge(t *testing.T) {
	w := newLab(t).worker(gapped(record.GapSkip))
	w.process(numbered("1", "20000", "5")...)
	w.pass(time.Minute)
	w.closeGaps()
	same(t, "record", summary(w.group()), "v2 state=p/0/1,p/0/5, pending= p/0 next=6 held=[{20000 20000}] skipped=[{2 4}]")
	w.pass(time.Minute)
	w.closeGaps()
	same(t, "record", summary(w.group()), "v3 state=p/0/1,p/0/5, pending= p/0 next=6 skipped=[{2 4}]")
	same(t, "dead letters", w.lettered(), []string{"p/0/20000 gap"})
}
