package dedup_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// years is longer than anything but a state is kept.
const years = 10 * 365 * 24 * time.Hour

// keeping returns a stream whose states have no retention.
func keeping(s record.Stream) record.Stream {
	s.StateRetention = 0
	return s
}

func TestAStateIsKeptUntilItsHandlerDeletesIt(t *testing.T) {
	for name, body := range map[string]string{"without effects": "", "with an effect": "send", "with a timer": "set=remind/1h"} {
		for _, kept := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				l := newLab(t)
				s := keeping(byKey)
				w := l.workerOf(dedup.Config{Streams: []record.Stream{s}, KeepDone: kept})
				l.scripts["delete"] = func(_ context.Context, a *record.Attempt, m record.Message) error {
					a.State = nil
					m.Body = []byte(body)
					return l.follow(a, m)
				}
				w.process(keyed("g: " + body)...)
				l.publish(s)
				l.pass(years)
				if n, err := l.store.Expire(t.Context(), 100); err != nil {
					t.Fatal(n, err)
				}
				same(t, "fate of the next message", w.process(keyed("b: "+body)...), []string{"processed"})
				l.publish(s)
				if g := l.group(); string(g.State) != "g,b," || !g.Expires.IsZero() || g.MissingExpiry() {
					t.Errorf("the state is %q, and expires %s", g.State, g.Expires)
				}
				same(t, "fate", w.process(keyed("delete")...), []string{"processed"})
				w.process(l.fired()...)
				l.publish(s)
				if g := l.group(); len(g.State) > 0 || g.Expires.IsZero() {
					t.Errorf("the state is %q, and the record expires %s", g.State, g.Expires)
				}
			})
		}
	}
}

func TestAStateIsKeptForTheRetentionOfItsStream(t *testing.T) {
	const month = record.DefaultGroupRetention
	l := newLab(t)
	s := keeping(byKey)
	s.StateRetention = 3 * month
	w := l.worker(s)
	for _, id := range []string{"a", "b: send"} {
		w.process(keyed(id)...)
		l.publish(s)
		same(t, "expires", l.group().Expires, l.clock().Add(3*month))
		l.pass(3*month - 1)
	}
	same(t, "state", string(l.group().State), "a,b,")
	l.pass(1)
	same(t, "version", l.group().Version, 0)
}

func TestNumbersGoOnInAGroupWhoseStateIsKept(t *testing.T) {
	l := newLab(t)
	w := l.worker(keeping(bySequence))
	w.process(numbered("1")...)
	l.pass(years)
	same(t, "a copy, and the next number", w.process(numbered("1", "2")...), []string{"duplicate", "processed"})
	same(t, "record", summary(l.group()), "v2 state=p/0/1,p/0/2, pending= p/0 next=3")
}

// Only the state that a commit finds counts, and not what the present handler does with states.
func TestTheStateOfAnEarlierHandlerIsKeptByAForwarder(t *testing.T) {
	for name, s := range map[string]record.Stream{"key": byKey, "sequence": bySequence} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.worker(keeping(s)).process(keyedOrNumbered(s, 1))
			state := string(l.group().State)
			forwarder := keeping(s)
			forwarder.Stateless, forwarder.LogMessages, forwarder.LogRetention = true, true, time.Hour
			l.worker(forwarder).process(keyedOrNumbered(s, 2))
			l.publish(forwarder)
			l.pass(years)
			same(t, "state", string(l.group().State), state)
		})
	}
}

func keyedOrNumbered(s record.Stream, n int) record.Message {
	if s.Admission == record.BySequence {
		return numbered([]string{"1: send", "2: send"}[n-1])[0]
	}
	return keyed([]string{"a: send", "b: send"}[n-1])[0]
}

func TestAStateThatBelongsToALogExpiresWithItsGroup(t *testing.T) {
	l := newLab(t)
	s := keeping(byKey)
	s.LogState = func(state []byte) bool { return strings.HasPrefix(string(state), "a,") }
	l.worker(s).process(keyed("a")...)
	same(t, "expires", l.group().Expires, l.clock().Add(record.DefaultGroupRetention))
	l.pass(record.DefaultGroupRetention)
	l.worker(s).process(keyed("b")...)
	if g := l.group(); string(g.State) != "b," || !g.Expires.IsZero() {
		t.Errorf("the state is %q, and expires %s", g.State, g.Expires)
	}
}

// An older version gave each record an expiry.
func TestTheNextCommitOfAGroupTakesTheExpiryOfItsStateAway(t *testing.T) {
	for name, body := range map[string]string{"idle": "", "pending": "send"} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.worker(byKey).process(keyed("a: " + body)...)
			l.pass(record.DefaultGroupRetention - time.Hour)
			now := keeping(byKey)
			l.worker(now).process(keyed("b")...)
			l.publish(now)
			if g := l.group(); string(g.State) != "a,b," || !g.Expires.IsZero() {
				t.Errorf("the state is %q, and expires %s", g.State, g.Expires)
			}
		})
	}
}

// A publisher that read a group before it had a state clears it afterwards.
func TestAClearOfAnEarlierViewDoesNotLetAStateExpire(t *testing.T) {
	l := newLab(t)
	l.commitsDone = true // so that b leaves no entry
	s := keeping(byKey)
	l.scripts["a"] = func(_ context.Context, a *record.Attempt, m record.Message) error {
		a.State = nil
		return l.follow(a, m)
	}
	l.worker(s).process(keyed("a: send")...)
	other := l.worker(s)
	w := l.worker(s)
	w.at = nth(1, "clear", func() fault {
		other.process(keyed("b")...)
		return works
	})
	publishAll(t, w)
	if g := l.group(); string(g.State) != "b," || len(g.Pending) > 0 || !g.Expires.IsZero() {
		t.Errorf("the record is %s, and expires %s", summary(g), g.Expires)
	}
	l.pass(years)
	same(t, "state", string(l.group().State), "b,")
}

// The other way round: a publisher that read a group with a state clears it when the state is gone.
func TestARecordThatLostItsStateBeforeAClearExpires(t *testing.T) {
	l := newLab(t)
	l.commitsDone = true // so that b leaves no entry
	s := keeping(byKey)
	l.scripts["b"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.State = nil
		return nil
	}
	l.worker(s).process(keyed("a: send")...)
	other := l.worker(s)
	w := l.worker(s)
	w.at = nth(1, "clear", func() fault {
		other.process(keyed("b")...)
		return works
	})
	publishAll(t, w)
	same(t, "expires", l.group().Expires, l.clock().Add(record.DefaultGroupRetention))
}

func TestAStateIsNotKeptForLessThanItsGroup(t *testing.T) {
	for _, s := range []record.Stream{{Retention: 2 * years, StateRetention: years}, {GroupRetention: time.Hour, StateRetention: time.Minute}, {StateRetention: time.Hour}, {GroupRetention: time.Minute, LogRetention: time.Hour, StateRetention: time.Minute}} {
		s.Name, s.Handler = "s", func(context.Context, *record.Attempt, record.Message) error { return nil }
		if _, err := record.NewStreams([]record.Stream{s}); err == nil || !strings.Contains(err.Error(), "StateRetention (state.retain) is") {
			t.Errorf("%v: got %v", s.StateRetention, err)
		}
	}
}
