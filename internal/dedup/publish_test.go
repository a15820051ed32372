package dedup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// publishOnce publishes group g.
func (w *worker) publishOnce() error {
	return w.Publish(w.t.Context(), []record.GroupKey{groupG})[0]
}

func TestEffectsAreSentThenMarkedDoneThenCleared(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send reply", "b", "c: send")...)
	w := l.worker(byKey)
	if err := w.publishOnce(); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", w.calls(), []string{"load g", "send out s/g/1", "send out s/g/3", "mark 3", "clear g 1 2 3"})
	same(t, "reply", string(l.token(keyed("a")[0]).Reply.Body), "a")
}

func TestATriggerThatFindsNothingDoesNothing(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send")...)
	l.publish(byKey)
	w := l.worker(byKey)
	if err := w.publishOnce(); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", w.calls(), []string{"load g"})
}

func TestNumbersWithoutRepliesNeedNoMarks(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("1: send", "2: send reply")...)
	w := l.worker(bySequence)
	if err := w.publishOnce(); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", w.calls(), []string{"load g", "send out s/g/1", "send out s/g/2", "mark 1", "clear g 1 2"})
}

func TestAFailingDestinationDoesNotBlockTheOthers(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send=out+side", "b: send", "c: send=side")...)
	w := l.worker(byKey)
	w.at = always("send side", failsBefore)
	if err := w.publishOnce(); !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
	same(t, "out", l.arrived("out"), []string{"s/g/1", "s/g/2"})
	same(t, "left", summary(l.group()), "v1 state=a,b,c, pending=[1 a 1 effects][3 c 1 effects]")
	same(t, "a is done", l.token(keyed("a")[0]).State, record.Absent)
	same(t, "b is done", l.token(keyed("b")[0]).State, record.Done)
	w = l.worker(byKey)
	if err := w.publishOnce(); err != nil {
		t.Fatal(err)
	}
	same(t, "the rest", w.calls(), []string{"load g", "send side s/g/1", "send side s/g/3", "mark 2", "clear g 1 3"})
	same(t, "copies", len(l.sent), 4)
}

func TestOneEffectOfSeveralIsRemembered(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send send=side send=out+side")...)
	w := l.worker(byKey)
	w.at = nth(2, "send side", func() fault { return failsBefore })
	if err := w.publishOnce(); err == nil {
		t.Error("no error")
	}
	same(t, "side", l.arrived("side"), []string{"s/g/2"})
	same(t, "out", l.arrived("out"), []string{"s/g/1", "s/g/3"})
	w = l.worker(byKey)
	if err := w.publishOnce(); err != nil {
		t.Fatal(err)
	}
	same(t, "the rest", w.calls(), []string{"load g", "send side s/g/3", "mark 1", "clear g 1"})
}

func TestTheOrderOfAGroupIsKeptAfterAFailure(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send", "b: send", "c: send")...)
	w := l.worker(byKey)
	w.at = once("send out s/g/2", failsBefore)
	if err := w.publishOnce(); err == nil {
		t.Error("no error")
	}
	same(t, "sent", l.arrived("out"), []string{"s/g/1"})
	l.publish(byKey)
	same(t, "sent", l.arrived("out"), []string{"s/g/1", "s/g/2", "s/g/3"})
}

func TestAnUnmarkedEntryIsNotCleared(t *testing.T) {
	for _, f := range []fault{failsBefore, failsAfter} {
		l := newLab(t)
		l.worker(byKey).process(keyed("a: send reply")...)
		w := l.worker(byKey)
		w.at = always("mark", f)
		if err := w.publishOnce(); !errors.Is(err, errInjected) {
			t.Errorf("got %v", err)
		}
		same(t, "calls", w.calls(), []string{"load g", "send out s/g/1", "mark 1", "clear g 1.0>out"})
		same(t, "left", len(l.group().Pending), 1)
		l.publish(byKey)
		same(t, "sent", l.arrived("out"), []string{"s/g/1"})
		same(t, "left", len(l.group().Pending), 0)
	}
}

func TestATokenThatCanNotBeMarkedBlocksOnlyItsOwnGroup(t *testing.T) {
	l := newLab(t)
	bad := record.Message{Stream: "s", Group: "bad", ID: "a", Body: []byte("send")}
	good := record.Message{Stream: "s", Group: "good", ID: "b", Body: []byte("send")}
	l.worker(byKey).process(bad, good)
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Store: unmarkable{l.store, record.NewTokenKey("", "s", "a")}})
	errs := w.Publish(t.Context(), []record.GroupKey{bad.GroupKey(), good.GroupKey()})
	if !errors.Is(errs[0], errInjected) || errs[1] != nil {
		t.Errorf("got %v", errs)
	}
	same(t, "the good group", len(l.record("good").Pending), 0)
	if err := w.Publish(t.Context(), []record.GroupKey{bad.GroupKey()})[0]; !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
	same(t, "sent", len(l.arrived("out")), 2)
}

// An unmarkable store can't mark one token.
type unmarkable struct {
	record.Store
	token record.TokenKey
}

func (s unmarkable) MarkDone(ctx context.Context, tokens []record.Token) error {
	if slices.ContainsFunc(tokens, func(t record.Token) bool { return t.Key == s.token }) {
		return errInjected
	}
	return s.Store.MarkDone(ctx, tokens)
}

func TestAPublishThatCanNotLoadOrClearReturnsAnError(t *testing.T) {
	for _, call := range []string{"load", "clear"} {
		l := newLab(t)
		l.worker(byKey).process(keyed("a: send")...)
		w := l.worker(byKey)
		w.at = always(call, failsBefore)
		if err := w.publishOnce(); !errors.Is(err, errInjected) {
			t.Errorf("%s: got %v", call, err)
		}
		l.publish(byKey)
		same(t, "left", len(l.group().Pending), 0)
	}
}

func TestAClearKeepsConcurrentlyCommittedEntries(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send")...)
	w := l.worker(byKey)
	w.at = between("clear", func() { l.worker(byKey).process(keyed("b: send")...) })
	if err := w.publishOnce(); err != nil {
		t.Fatal(err)
	}
	same(t, "left", summary(l.group()), "v2 state=a,b, pending=[2 b 1 effects]")
}

func TestACommitDoesNotRestoreConcurrentlyClearedEntries(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send")...)
	w := l.worker(byKey)
	w.at = between("commit", func() { l.publish(byKey) })
	same(t, "fates", w.process(keyed("b: send")...), []string{"processed"})
	same(t, "left", summary(l.group()), "v2 state=a,b, pending=[2 b 1 effects]")
}

func TestTwoPublishersSendTheSameEffectsUnderTheSameIdentities(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send", "b: send")...)
	w := l.worker(byKey)
	w.at = between("send out s/g/2", func() { l.publish(byKey) })
	if err := w.publishOnce(); err != nil {
		t.Fatal(err)
	}
	same(t, "identities", l.arrived("out"), []string{"s/g/1", "s/g/2"})
	same(t, "copies", len(l.sent), 4)
}

func TestGroupsArePublishedTogetherAndFailSeparately(t *testing.T) {
	l := newLab(t)
	batch := keyed("a: send", "b: send=side")
	batch[1].Group = "h"
	l.worker(byKey).process(batch...)
	w := l.worker(byKey)
	w.at = always("send side", failsBefore)
	groupH := record.GroupKey{Stream: "s", Group: "h"}
	errs := w.Publish(t.Context(), []record.GroupKey{groupG, groupH, groupG})
	if errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("got %v", errs)
	}
	same(t, "left in g", len(l.record("g").Pending), 0)
	same(t, "left in h", len(l.record("h").Pending), 1)
}

// refuser refuses every delivery.
type refuser struct{}

func (refuser) Send(_ context.Context, ds []record.Delivery) []error {
	errs := make([]error, len(ds))
	for i := range errs {
		errs[i] = &record.RefusedError{Reason: record.ReasonGone, Detail: "410"}
	}
	return errs
}

func TestAnEffectThatItsDestinationRefusesGoesToTheDeadLetterQueueAndCountsAsSent(t *testing.T) {
	l := newLab(t)
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Senders: map[string]record.Sender{"out": refuser{}}})
	w.process(keyed("a: send")...)
	w.at = always("dead", failsAfter)
	if err := w.publishOnce(); !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
	same(t, "left", len(l.group().Pending), 1)
	w.at = nil
	if err := w.publishOnce(); err != nil {
		t.Error(err)
	}
	same(t, "left", len(l.group().Pending), 0)
	same(t, "dead letters", l.lettered(), []string{"s/g/1 gone", "s/g/1 gone"})
	letter := l.dead[1]
	same(t, "letter", []string{letter.To, letter.Delivery.Identity, letter.Detail}, []string{"out", "s/g/1", "410"})

	redriven := l.worker(byKey)
	if err := redriven.Deliver(t.Context(), letter.To, *letter.Delivery); err != nil {
		t.Error(err)
	}
	same(t, "redriven", l.arrived("out"), []string{"s/g/1"})
	if err := redriven.Deliver(t.Context(), "nowhere", *letter.Delivery); err == nil {
		t.Error("delivered nowhere")
	}
}

// silent returns fewer results than it got deliveries.
type silent struct{}

func (silent) Send(context.Context, []record.Delivery) []error { return nil }

func TestADestinationWithTooFewResultsHasNotSent(t *testing.T) {
	l := newLab(t)
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Senders: map[string]record.Sender{"out": silent{}}})
	w.process(keyed("a: send")...)
	if err := w.publishOnce(); err == nil {
		t.Error("no error")
	}
	same(t, "left", len(l.group().Pending), 1)
}

func TestAnEffectWaitsForADestinationThatIsNoLongerConfigured(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send=out+side", "b: blob=k")...)
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Senders: map[string]record.Sender{"out": silent{}}})
	if err := w.publishOnce(); err == nil || !strings.Contains(err.Error(), "send to side: no such destination") {
		t.Errorf("got %v", err)
	}
	l.publish(byKey)
	same(t, "arrived", l.arrived("side"), []string{"s/g/1"})
}

func TestASequencedDestinationGetsOneTwoThreeForEachTarget(t *testing.T) {
	l := newLab(t)
	l.scripts["b"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.Send(record.Effect{To: []string{"next"}, Group: "other"})
		a.Send(record.Effect{To: []string{"next", "next", "out"}})
		return nil
	}
	l.worker(byKey).process(keyed("a: send=next", "b", "c: send=out")...)
	l.worker(byKey).process(keyed("d: send=out+next")...)
	l.publish(byKey)
	type numbered struct {
		Identity, Target string
		Sequence         uint64
	}
	var next, out []numbered
	for _, d := range l.sent {
		n := numbered{d.Identity, d.Target, d.Sequence}
		if d.To == "next" {
			next = append(next, n)
		} else {
			out = append(out, n)
		}
	}
	same(t, "next", next, []numbered{{"s/g/1", "g", 1}, {"s/g/2", "other", 1}, {"s/g/3", "g", 2}, {"s/g/5", "g", 3}})
	same(t, "out", out, []numbered{{"s/g/3", "g", 0}, {"s/g/4", "g", 0}, {"s/g/5", "g", 0}})
}

func TestAnEffectWithoutDestinationsIsCleared(t *testing.T) {
	l := newLab(t)
	l.scripts["a"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.Send(record.Effect{})
		return nil
	}
	l.worker(byKey).process(keyed("a")...)
	l.publish(byKey)
	same(t, "left", summary(l.group()), "v1 state=a, pending=")
	same(t, "token", l.token(keyed("a")[0]).State, record.Done)
}

func TestAGroupOfAStreamThatIsNoLongerConfiguredIsPublished(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send")...)
	other := byKey
	other.Name = "other"
	if err := l.worker(other).publishOnce(); err != nil {
		t.Fatal(err)
	}
	same(t, "expires", l.group().Expires, l.clock().Add(record.DefaultGroupRetention))
}
