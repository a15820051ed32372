package dedup_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// timersOf returns the timers of group g as "name number".
func (l *lab) timersOf() []string {
	out := []string{}
	for name, timer := range l.group().Timers {
		out = append(out, fmt.Sprintf("%s %d", name, timer.Number))
	}
	slices.Sort(out)
	return out
}

// fired returns the messages of timers that the queue was given.
func (l *lab) fired() []record.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []record.Message
	for _, d := range l.delayed {
		if d.Delivery == nil {
			out = append(out, d.Message)
		}
	}
	return out
}

// committed processes messages and publishes their effects.
func (l *lab) committed(s record.Stream, messages ...record.Message) {
	l.t.Helper()
	for i, fate := range l.worker(s).process(messages...) {
		if !strings.HasPrefix(fate, "processed") {
			l.t.Fatalf("message %d: got %q, want that it is processed", i, fate)
		}
	}
	l.publish(s)
}

// first returns a message that every admission takes once.
func first(l *lab, s record.Stream, body string) record.Message {
	switch s.Admission {
	case record.BySequence:
		return numbered("1: " + body)[0]
	case record.ByToken:
		m := keyed("a: " + body)[0]
		if _, _, err := l.worker(s).Issue(l.t.Context(), m); err != nil {
			l.t.Fatal(err)
		}
		return m
	case record.ByKey:
	}
	return keyed("a: " + body)[0]
}

func TestATimerFiresOnceWithoutAToken(t *testing.T) {
	for name, s := range map[string]record.Stream{"key": byKey, "token": byToken, "sequence": bySequence} {
		for _, commitsDone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, done in a commit %v", name, commitsDone), func(t *testing.T) {
				l := newLab(t)
				l.commitsDone = commitsDone
				l.committed(s, first(l, s, "set=remind/1h"))
				same(t, "timers", l.timersOf(), []string{"remind 1"})
				messages := l.fired()
				if len(messages) != 1 || !messages[0].NotBefore.Equal(l.clock().Add(time.Hour)) || !messages[0].Accepted.Equal(messages[0].NotBefore) {
					t.Fatalf("got %+v, want one message that is due in an hour", messages)
				}
				w := l.worker(s)
				same(t, "fates in one batch", w.process(messages[0], messages[0]), []string{"processed", "duplicate"})
				for _, call := range w.calls() {
					if strings.HasPrefix(call, "mark") || strings.HasPrefix(call, "swap") || strings.Contains(call, "tokens") {
						t.Errorf("call %q, want none of tokens", call)
					}
				}
				same(t, "timers after it fired", l.timersOf(), []string{})
				l.publish(s)
				same(t, "fate of a copy", l.worker(s).process(messages[0]), []string{"duplicate"})
				same(t, "sent", l.arrived("out"), []string{"s/g/2"})
			})
		}
	}
}

func TestACancelThatIsCommittedFirstWins(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: set=remind/1h")...)
	l.committed(byKey, keyed("b: cancel=remind cancel=none")...)
	same(t, "timers", l.timersOf(), []string{})
	same(t, "fate", l.worker(byKey).process(l.fired()...), []string{"duplicate"})
	same(t, "sent", l.arrived("out"), nil)
}

func TestACancelOfTheSameBatchWinsOverTheMessageBehindIt(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: set=remind/1h")...)
	same(t, "fates", l.worker(byKey).process(append(keyed("b: cancel=remind"), l.fired()...)...), []string{"processed", "duplicate"})
}

func TestATimerThatIsSetAgainFiresAtItsNewTimeOnly(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: set=remind/1h", "b: set=remind/2h")...)
	same(t, "timers", l.timersOf(), []string{"remind 2"})
	same(t, "fates", l.worker(byKey).process(l.fired()...), []string{"duplicate", "processed"})
}

func TestATimerThatFiresMaySetItselfAgain(t *testing.T) {
	l := newLab(t)
	l.scripts["timer:1767225600000:1"] = func(_ context.Context, a *record.Attempt, m record.Message) error {
		return a.SetTimer(m.Timer, time.Hour, record.Effect{})
	}
	l.committed(byKey, keyed("a: set=remind/1h")...)
	l.committed(byKey, l.fired()...)
	same(t, "timers", l.timersOf(), []string{"remind 2"})
	same(t, "fates", l.worker(byKey).process(l.fired()...), []string{"duplicate", "processed"})
}

func TestATimerOfARefusedMessageFiresWhenItIsRedriven(t *testing.T) {
	l := newLab(t)
	l.scripts["timer:1767225600000:1"] = func(context.Context, *record.Attempt, record.Message) error { return &record.RejectError{Detail: "no"} }
	l.committed(byKey, keyed("a: set=remind/1h")...)
	same(t, "fate", l.worker(byKey).process(l.fired()...), []string{"rejected rejected"})
	same(t, "timers", l.timersOf(), []string{"remind 1"})
	delete(l.scripts, "timer:1767225600000:1")
	same(t, "fate of the redriven one", l.worker(byKey).process(l.fired()...), []string{"processed"})
}

func TestATimerDoesNotFireInAnotherIncarnationOfItsGroup(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: set=remind/1h")...)
	old := l.fired()[0]
	l.pass(time.Second)
	if err := l.worker(byKey).DropGroup(t.Context(), groupG); err != nil {
		t.Fatal(err)
	}
	same(t, "fate after the drop", l.worker(byKey).process(old), []string{"duplicate"})
	l.committed(byKey, keyed("b: set=remind/1h")...)
	same(t, "timers", l.timersOf(), []string{"remind 1"})
	same(t, "fates", l.worker(byKey).process(l.fired()...), []string{"duplicate", "processed"})
}

func TestASenderCannotTakeTheNameOfATimersMessage(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: set=remind/1h")...)
	forged := keyed("timer:1767225600000:1: send")[0]
	forged.Body = []byte("other")
	same(t, "fates", l.worker(byKey).process(forged, l.fired()[0]), []string{"processed", "processed"})
}

func TestACopyOfATimersMessagePublishesWhatACrashLeft(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: set=remind/1h")...)
	w := l.worker(byKey)
	w.at = always("trigger", failsBefore)
	same(t, "fate", w.process(l.fired()...), []string{"retry"})
	same(t, "timers", l.timersOf(), []string{})
	l.committedAgain(byKey, "duplicate", l.fired()...)
	same(t, "sent", l.arrived("out"), []string{"s/g/2"})
}

// committedAgain processes messages that are known, and publishes.
func (l *lab) committedAgain(s record.Stream, want string, messages ...record.Message) {
	l.t.Helper()
	same(l.t, "fate", l.worker(s).process(messages...), []string{want})
	l.publish(s)
}

func TestTheLostAnswerOfACommitRunsATimerOnce(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: set=remind/1h")...)
	w := l.worker(byKey)
	w.at = nth(1, "commit", func() fault { return failsAfter })
	w.process(l.fired()...)
	l.publish(byKey)
	same(t, "state", string(l.group().State), "a,timer:1767225600000:1,")
	same(t, "sent", l.arrived("out"), []string{"s/g/2"})
}

func TestAnEffectIsPendingUntilTheQueueHoldsIt(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: after=1h set=remind/2h send")...)
	w := l.worker(byKey)
	w.at = always("delay", failsBefore)
	if err := w.publishOnce(); err == nil {
		t.Error("no error of the queue")
	}
	same(t, "left", summary(l.group()), "v1 state=a, pending=[1 a 3 effects]")
	l.publish(byKey)
	same(t, "left", summary(l.group()), "v1 state=a, pending=")
	var got []string
	for _, d := range l.delayed {
		got = append(got, fmt.Sprintf("%s in %s", d.Identity(), d.NotBefore.Sub(l.clock())))
	}
	same(t, "delayed", got, []string{"s/g/1@out in 1h0m0s", "s/g/timer:1767225600000:3 in 2h0m0s"})
	same(t, "sent", l.arrived("out"), []string{"s/g/2"})
}

func TestADelayedEffectIsDeliveredUnderItsIdentity(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: after=1h")...)
	d := l.delayed[0]
	if err := l.worker(byKey).Deliver(t.Context(), d.To, *d.Delivery); err != nil {
		t.Fatal(err)
	}
	same(t, "sent", l.arrived("out"), []string{"s/g/1"})
	if !l.sent[0].Redriven {
		t.Error("the destination is not told that later effects may have been sent before")
	}
}

func TestADelayedEffectTakesNoNumberOfASequence(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: after=1h/next", "b: send=next")...)
	same(t, "sequence", l.sent[0].Sequence, 1)
	same(t, "sequence of the delayed one", l.delayed[0].Delivery.Sequence, 0)
}

func TestADestinationThatNeedsNumbersTakesNoDelayedEffect(t *testing.T) {
	l := newLab(t)
	w := l.workerOf(dedup.Config{Streams: []record.Stream{byKey}, Senders: map[string]record.Sender{"out": destination{nil, "out"}}, Numbered: map[string]bool{"out": true}})
	out := w.Process(t.Context(), keyed("a: after=1h"))
	if err := out[0].Err; err == nil || !strings.Contains(err.Error(), "ordered by numbers") {
		t.Errorf("got %v, want an error about numbers", err)
	}
}

func TestAHandlerThatCanHaveNoTimersIsTold(t *testing.T) {
	small := byKey
	small.MaxBody = 3
	stateless := byKey
	stateless.Stateless = true
	relayed := stateless
	relayed.Unordered = true
	for name, c := range map[string]struct {
		s    record.Stream
		want string
	}{
		"stateless": {stateless, "a stateless handler has no timers"}, "no group record": {relayed, "a stateless handler has no timers"},
		"a body that the stream does not take": {small, "at most 3 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			m := keyed("a: set=remind/1h")[0]
			if c.s.MaxBody > 0 {
				m.Body = nil
			}
			l := newLab(t)
			l.scripts["a"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
				return a.SetTimer("remind", time.Hour, record.Effect{Body: []byte("send")})
			}
			out := l.worker(c.s).Process(t.Context(), []record.Message{m})
			if err := out[0].Err; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAGroupHasAtMostAThousandTimers(t *testing.T) {
	l := newLab(t)
	var body strings.Builder
	for i := range record.MaxTimers + 1 {
		fmt.Fprintf(&body, "set=timer%d/1h ", i)
	}
	out := l.worker(byKey).Process(t.Context(), keyed("a: "+body.String()))
	if err := out[0].Err; err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("got %v, want an error with the limit", err)
	}
}

func TestARecordIsKeptForItsTimers(t *testing.T) {
	l := newLab(t)
	l.committed(byKey, keyed("a: set=remind/8000h")...)
	retention := record.DefaultGroupRetention
	for _, pass := range []time.Duration{8000 * time.Hour, retention - time.Second} {
		l.pass(pass)
		same(t, "timers", l.timersOf(), []string{"remind 1"})
	}
	same(t, "fate of a late redrive", l.worker(byKey).process(l.fired()...), []string{"processed"})
	l.publish(byKey)
	l.pass(retention)
	same(t, "version after the retention", l.group().Version, 0)
}

func TestTheEndOfALogCancelsTheTimersOfItsGroup(t *testing.T) {
	l := newLab(t)
	s := byKey
	s.LogRetention = time.Hour
	end := keyed("b")[0]
	end.End = true
	l.committed(s, keyed("a: set=remind/1h")[0], end)
	same(t, "timers", l.timersOf(), []string{})
	same(t, "fate", l.worker(s).process(l.fired()...), []string{"duplicate"})
}

func TestTheMessageOfATimerCannotBeSkipped(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: set=remind/1h")...)
	if _, err := l.worker(byKey).Skip(t.Context(), groupG, 1); err == nil || !strings.Contains(err.Error(), "cancel the timer") {
		t.Errorf("got %v, want an error that says how to end the timer", err)
	}
}
