package dedup_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

func TestASkippedEffectIsADeadLetterBeforeItIsCleared(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send=out+side send", "b: send")...)
	w := l.worker(byKey)
	to, err := w.Skip(t.Context(), groupG, 1)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "destinations", to, []string{"out", "side"})
	same(t, "calls", w.calls(), []string{"load g", "dead s/g/1 undeliverable s/g/1 undeliverable", "clear g 1.0>out 1.0>side", "trigger later g"})
	same(t, "dead letters", l.lettered(), []string{"s/g/1 undeliverable", "s/g/1 undeliverable"})
	l.pass(time.Minute)
	l.publish(byKey)
	same(t, "out", l.arrived("out"), []string{"s/g/2", "s/g/3"})
	same(t, "side", l.arrived("side"), nil)
	for _, m := range keyed("a", "b") {
		same(t, m.ID, l.token(m).State, record.Done)
	}
	if d := l.dead[0].Delivery; !d.Committed.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || string(d.Effect.Body) != "a" {
		t.Errorf("the letter's effect is %+v", d)
	}
}

func TestASkipIsOnlyForTheDestinationsThatDidNotTakeTheEffect(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send=out+side")...)
	w := l.worker(byKey)
	w.at = always("send side", failsBefore)
	if err := w.publishOnce(); err == nil {
		t.Error("no error")
	}
	to, err := l.worker(byKey).Skip(t.Context(), groupG, 1)
	same(t, "destinations", to, []string{"side"})
	same(t, "left", len(l.group().Pending), 0)
	same(t, "a", l.token(keyed("a")[0]).State, record.Done)
	if err != nil {
		t.Error(err)
	}
}

func TestASkipThatFailsAnywhereLosesNothingAndCanBeRepeated(t *testing.T) {
	for _, call := range []string{"load", "dead", "mark", "clear", "trigger"} {
		for _, f := range []fault{failsBefore, failsAfter} {
			l := newLab(t)
			l.worker(byKey).process(keyed("a: send", "b: send")...)
			w := l.worker(byKey)
			w.at = dies(call, f)
			if _, err := w.Skip(t.Context(), groupG, 1); err == nil {
				t.Errorf("%s fails, and Skip does not", call)
			}
			if _, err := l.worker(byKey).Skip(t.Context(), groupG, 1); err != nil && !errors.Is(err, outbox.ErrNotPending) {
				t.Errorf("repeated after %s: %v", call, err)
			}
			l.publish(byKey)
			same(t, "sent after "+call, l.arrived("out"), []string{"s/g/2"})
			if len(l.lettered()) == 0 {
				t.Errorf("%s: the effect is neither sent nor a dead letter", call)
			}
			same(t, "left", len(l.group().Pending), 0)
		}
	}
}

// The publisher has loaded the group when the operator skips its first effect.
func TestAPublisherBesideASkipSendsTheOtherEffectsUnderTheirNumbers(t *testing.T) {
	for _, call := range []string{"send", "mark", "clear"} {
		l := newLab(t)
		l.worker(byKey).process(keyed("a: send", "b: send")...)
		w := l.worker(byKey)
		w.at = between(call, func() {
			if _, err := l.worker(byKey).Skip(t.Context(), groupG, 1); err != nil {
				t.Error(err)
			}
		})
		if err := w.publishOnce(); err != nil {
			t.Error(err)
		}
		l.publish(byKey)
		same(t, "sent", l.arrived("out"), []string{"s/g/1", "s/g/2"})
		same(t, "dead letters", l.lettered(), []string{"s/g/1 undeliverable"})
		same(t, "left", len(l.group().Pending), 0)
	}
}

func TestTheBlobsOfAMessageOutliveTheSkipOfItsEffect(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send blob=k")...)
	w := l.worker(byKey)
	if _, err := w.Skip(t.Context(), groupG, 2); err == nil || !strings.Contains(err.Error(), "a blob can't be skipped") {
		t.Errorf("skip of a blob: %v", err)
	}
	if _, err := w.Skip(t.Context(), groupG, 1); err != nil {
		t.Fatal(err)
	}
	same(t, "left", len(l.group().Pending), 1)
	l.publish(byKey)
	same(t, "objects", l.objects(), []string{"k=a"})
	same(t, "left", len(l.group().Pending), 0)
}

func TestOnlyAPendingEffectCanBeSkipped(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	w.process(keyed("a: send", "b: reply", "c: send send")...)
	if _, err := w.Skip(t.Context(), groupG, 1); err != nil {
		t.Fatal(err)
	}
	for _, number := range []uint64{0, 1, 2, 5, 1 << 63} {
		if _, err := w.Skip(t.Context(), groupG, number); !errors.Is(err, outbox.ErrNotPending) {
			t.Errorf("%d: %v", number, err)
		}
	}
	if _, err := w.Skip(t.Context(), record.GroupKey{Stream: "s", Group: "other"}, 1); !errors.Is(err, outbox.ErrNotPending) {
		t.Errorf("in another group: %v", err)
	}
	same(t, "dead letters", l.lettered(), []string{"s/g/1 undeliverable"})
}
