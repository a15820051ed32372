package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

var bySequence = record.Stream{Name: "s", Admission: record.BySequence, StateRetention: record.DefaultGroupRetention}

func TestANumberedMessageNeedsNoToken(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	same(t, "fates", w.process(numbered("1: send", "2")...), []string{"processed", "processed"})
	same(t, "calls", w.calls(), []string{"load g", "run p/0/1", "run p/0/2", "commit g v1", "trigger g"})
	l.publish(bySequence)
	same(t, "a duplicate", w.process(numbered("1: send")...), []string{"duplicate"})
	same(t, "calls", w.calls(), []string{"load g"})
	same(t, "record", summary(w.group()), "v1 state=p/0/1,p/0/2, pending= p/0 next=3")
}

func TestAHeldMessageWaitsForItsPredecessor(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	same(t, "fates", w.process(numbered("3: send", "2: send")...), []string{"held", "held"})
	same(t, "calls", w.calls(), []string{"load g", "commit g v1 hold 0/3 hold 0/2"})
	same(t, "record", summary(w.group()), "v1 state= pending= p/0 next=1 held=[{2 3}]")
	same(t, "expires", w.group().Expires, time.Time{})

	same(t, "fates", w.process(numbered("1: send")...), []string{"processed"})
	same(t, "calls", w.calls(), []string{
		"load g", "run p/0/1", "held g 0/2 x2", "run p/0/2", "run p/0/3", "commit g v2 unhold 0/2 unhold 0/3", "trigger g",
	})
	same(t, "record", summary(w.group()), "v2 state=p/0/1,p/0/2,p/0/3, pending=[1 p/0/1 1 effects][2 p/0/2 1 effects][3 p/0/3 1 effects] p/0 next=4")
}

func TestABatchIsProcessedInTheOrderOfItsNumbers(t *testing.T) {
	w := newLab(t).worker(bySequence)
	same(t, "fates", w.process(numbered("4", "2", "3", "1")...), []string{"processed", "processed", "processed", "processed"})
	same(t, "state", string(w.group().State), "p/0/1,p/0/2,p/0/3,p/0/4,")
}

func TestADuplicateRunsHeldMessagesThatAreNext(t *testing.T) {
	// A record in which 2 could run, as another version of this code might leave it.
	l := newLab(t)
	w := l.worker(bySequence)
	w.process(numbered("2")...)
	loaded := l.group()
	next := loaded
	next.Version, next.Sources = 2, map[string]record.Source{"p": {Next: 2, Held: record.Ranges{{First: 2, Last: 2}}}}
	if err := l.store.Commit(t.Context(), record.Commit{Loaded: loaded, Next: next}); err != nil {
		t.Fatal(err)
	}
	w.calls()
	same(t, "fates", w.process(numbered("1")...), []string{"duplicate"})
	same(t, "calls", w.calls(), []string{"load g", "held g 0/2 x1", "run p/0/2", "commit g v3 unhold 0/2"})
}

func TestAHeldDeliveryRunsHeldMessagesThatAreNext(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("3", "4")...)
	same(t, "fates", w.process(numbered("6", "1", "2")...), []string{"held", "processed", "processed"})
	same(t, "record", summary(w.group()), "v2 state=p/0/1,p/0/2,p/0/3,p/0/4, pending= p/0 next=5 held=[{6 6}]")
}

func TestADuplicateTriggersPendingEffects(t *testing.T) {
	l := newLab(t)
	dead := l.worker(bySequence)
	dead.at = dies("trigger", failsBefore)
	dead.process(numbered("1: send", "3: send")...)
	for _, text := range []string{"1: send", "3: send", "4"} {
		w := l.worker(bySequence)
		w.process(numbered(text)...)
		if calls := w.calls(); !slices.Contains(calls, "trigger g") {
			t.Errorf("%s: %v", text, calls)
		}
	}
}

func TestAnAcknowledgementWaitsForTheReplyOfAMessageThatWasHeld(t *testing.T) {
	// The delivery of message 2 was acknowledged when it was held. The worker that runs it dies
	// before it can mark its token.
	l := newLab(t)
	l.worker(bySequence).process(numbered("2: reply")...)
	dead := l.worker(bySequence)
	dead.at = dies("mark", failsBefore)
	dead.process(numbered("1")...)
	w := l.worker(bySequence)
	same(t, "fates", w.process(numbered("1")...), []string{"duplicate"})
	l.publish(bySequence)
	state, err := w.Status(t.Context(), numbered("2")[0])
	if err != nil || state.Status != admission.StatusDone || state.Reply == nil {
		t.Errorf("got %+v, %v", state, err)
	}
	same(t, "record", summary(l.group()), "v2 state=p/0/1,p/0/2, pending= p/0 next=3")
}

func TestHoldingIsAConditionalWrite(t *testing.T) {
	// While 2 is about to be held, its predecessor is processed. Without the condition, 2 would be
	// held forever.
	l := newLab(t)
	w := l.worker(bySequence)
	w.at = between("commit", func() { l.worker(bySequence).process(numbered("1")...) })
	same(t, "fates", w.process(numbered("2")...), []string{"processed"})
	same(t, "record", summary(l.group()), "v2 state=p/0/1,p/0/2, pending= p/0 next=3")
}

func TestANewSourceMustStartAtOne(t *testing.T) {
	w := newLab(t).worker(bySequence)
	same(t, "fates", w.process(numbered("7", "q/3/2")...), []string{"held", "held"})
	same(t, "record", summary(w.group()), "v1 state= pending= p/0 next=1 held=[{7 7}] q/3 next=1 held=[{2 2}]")
}

func TestSourcesAreScopedByPrincipal(t *testing.T) {
	w := newLab(t).worker(bySequence)
	batch := append(numbered("1: reply"), numbered("1: other reply")...)
	batch[1].Principal = "mallory"
	same(t, "fates", w.process(batch...), []string{"processed with p/0/1", "processed with p/0/1"})
}

func TestASourceCountsSeparatelyInEachGroup(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	batch := append(numbered("1: reply"), numbered("1: reply reply")...)
	batch[1].Group = "h"
	same(t, "fates", w.process(batch...), []string{"processed with p/0/1", "processed with p/0/1"})
	for _, m := range batch {
		if state, err := w.Status(t.Context(), m); err != nil || state.Status != admission.StatusDone || state.Token.Fingerprint != m.Fingerprint() {
			t.Errorf("%s: got %+v, %v", m.Group, state, err)
		}
	}
}

func TestANumberIsRefusedForAnotherContent(t *testing.T) {
	t.Run("while it is held", func(t *testing.T) {
		w := newLab(t).worker(bySequence)
		same(t, "fates", w.process(numbered("2: send", "2", "2: send")...), []string{"held", "rejected key-reuse", "held"})
		same(t, "fates", w.process(numbered("2", "2: send")...), []string{"rejected key-reuse", "held"})
	})
	t.Run("when its turn has come", func(t *testing.T) {
		w := newLab(t).worker(bySequence)
		w.process(numbered("2: send")...)
		same(t, "fates", w.process(numbered("1", "2")...), []string{"processed", "rejected key-reuse"})
		same(t, "record", summary(w.group()), "v2 state=p/0/1,p/0/2, pending=[1 p/0/2 1 effects] p/0 next=3")
	})
	t.Run("while it is pending", func(t *testing.T) {
		w := newLab(t).worker(bySequence)
		same(t, "fates", w.process(numbered("1: send", "1")...), []string{"processed", "rejected key-reuse"})
		same(t, "fates", w.process(numbered("1")...), []string{"rejected key-reuse"})
	})
}

func TestAHeldMessageThatIsRedeliveredWhenItIsNextRunsOnce(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("2: send")...)
	w.calls()
	same(t, "fates", w.process(numbered("1", "2: send")...), []string{"processed", "processed"})
	same(t, "calls", w.calls(), []string{"load g", "run p/0/1", "held g 0/2 x1", "run p/0/2", "commit g v2 unhold 0/2", "trigger g"})
	same(t, "bytes held", w.group().Sources["p"].HeldBytes, 0)
}

func TestAHeldMessageThatFailsIsReturnedToItsQueue(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("2: fail", "3")...)
	w.calls()
	same(t, "fates", w.process(numbered("1")...), []string{"processed"})
	same(t, "calls", w.calls(), []string{"load g", "run p/0/1", "held g 0/2 x2", "run p/0/2", "return p/0/2", "commit g v2 unhold 0/2"})
	same(t, "record", summary(w.group()), "v2 state=p/0/1, pending= p/0 next=2 held=[{3 3}]")
	same(t, "returned", w.returned[0].Identity(), "p/0/2")
}

func TestARefusedHeldMessageIsDeadLettered(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("2: reject", "3")...)
	same(t, "fates", w.process(numbered("1")...), []string{"processed"})
	same(t, "dead letters", w.lettered(), []string{"p/0/2 rejected"})
	same(t, "record", summary(w.group()), "v2 state=p/0/1, pending= p/0 next=2 held=[{3 3}]")
}

func TestAHeldMessageStaysHeldIfItCanNotBeReturned(t *testing.T) {
	for _, c := range []struct{ body, call string }{{"fail", "return"}, {"reject", "dead"}} {
		for _, f := range []fault{failsBefore, failsAfter} {
			w := newLab(t).worker(bySequence)
			w.process(numbered("2: " + c.body)...)
			w.at = always(c.call, f)
			same(t, "fates", w.process(numbered("1")...), []string{"retry"})
			same(t, "record", summary(w.group()), "v1 state= pending= p/0 next=1 held=[{2 2}]")
		}
	}
}

func TestAFailedCopyOfAHeldMessageReturnsTheHeldOne(t *testing.T) {
	// Its own delivery may be acknowledged by another worker that saw it as held.
	w := newLab(t).worker(bySequence)
	w.process(numbered("2: fail")...)
	w.calls()
	same(t, "fates", w.process(numbered("1", "2: fail")...), []string{"processed", "retry"})
	same(t, "calls", w.calls(), []string{"load g", "run p/0/1", "held g 0/2 x1", "run p/0/2", "return p/0/2", "commit g v2 unhold 0/2"})
	same(t, "record", summary(w.group()), "v2 state=p/0/1, pending= p/0 next=2")
}

func TestARefusedNumberIsAGap(t *testing.T) {
	w := newLab(t).worker(bySequence)
	same(t, "fates", w.process(numbered("1: reject", "2")...), []string{"rejected rejected", "held"})
	same(t, "redriven", w.process(numbered("1")...), []string{"processed"})
	same(t, "state", string(w.group().State), "p/0/1,p/0/2,")
}

func TestAFailingNumberBlocksLaterOnesButNotHeldOnesOfOtherSources(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(depending(numbered("q/0/1")[0], "p", 1)...)
	same(t, "fates", w.process(numbered("1", "2: fail", "3", "r/0/1")...), []string{"processed", "retry", "retry", "retry"})
	same(t, "record", summary(w.group()), "v2 state=p/0/1,q/0/1, pending= p/0 next=2 q/0 next=2")
}

func TestAFailingNumberIsNotOvertakenByItsDependents(t *testing.T) {
	w := newLab(t).worker(bySequence)
	same(t, "fates", w.process(numbered("2", "1: fail")...), []string{"retry", "retry"})
	same(t, "version", w.group().Version, 0)
}

func TestAMessageWaitsForItsDependencies(t *testing.T) {
	after := func(source string, n uint64) record.Message { return depending(numbered("q/0/1")[0], source, n)[0] }
	t.Run("in its batch", func(t *testing.T) {
		w := newLab(t).worker(bySequence)
		same(t, "fates", w.process(append([]record.Message{after("p", 2)}, numbered("1", "2")...)...), []string{"processed", "processed", "processed"})
		same(t, "state", string(w.group().State), "p/0/1,p/0/2,q/0/1,")
	})
	t.Run("across batches", func(t *testing.T) {
		w := newLab(t).worker(bySequence)
		same(t, "fates", w.process(after("p", 2)), []string{"held"})
		same(t, "fates", w.process(numbered("1")...), []string{"processed"})
		same(t, "state", string(w.group().State), "p/0/1,")
		same(t, "fates", w.process(numbered("2")...), []string{"processed"})
		same(t, "state", string(w.group().State), "p/0/1,p/0/2,q/0/1,")
	})
	t.Run("held, of a source that comes earlier by name", func(t *testing.T) {
		w := newLab(t).worker(bySequence)
		m := depending(numbered("a/0/1")[0], "p", 2)[0]
		same(t, "fates", w.process(append(numbered("2"), m)...), []string{"held", "held"})
		same(t, "fates", w.process(numbered("1")...), []string{"processed"})
		same(t, "state", string(w.group().State), "p/0/1,p/0/2,a/0/1,")
	})
	t.Run("held, in a chain against the order of their names", func(t *testing.T) {
		w := newLab(t).worker(bySequence)
		for _, link := range []struct{ id, on string }{{"a/0/1", "b"}, {"b/0/1", "c"}, {"c/0/1", "p"}} {
			same(t, link.id, w.process(depending(numbered(link.id)[0], link.on, 1)...), []string{"held"})
		}
		same(t, "fates", w.process(numbered("1")...), []string{"processed"})
		same(t, "state", string(w.group().State), "p/0/1,c/0/1,b/0/1,a/0/1,")
	})
	t.Run("but not for itself, nor for nothing", func(t *testing.T) {
		w := newLab(t).worker(bySequence)
		m := numbered("1")[0]
		m.DependsOn = map[string]uint64{"p": 1, "q": 0, "nobody": 0}
		same(t, "fates", w.process(m), []string{"processed"})
	})
	t.Run("of the same principal", func(t *testing.T) {
		w := newLab(t).worker(bySequence)
		m := after("p", 1)
		m.Principal = "mallory"
		w.process(numbered("1")...)
		same(t, "fates", w.process(m), []string{"held"})
	})
}

func TestAMessageHeldForADependencyRunsWithTheHeldOnesAfterIt(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(append(depending(numbered("q/0/1: send")[0], "p", 1), numbered("q/0/2: send")...)...)
	same(t, "fates", w.process(numbered("1: send")...), []string{"processed"})
	same(t, "state", string(w.group().State), "p/0/1,q/0/1,q/0/2,")
}

func TestACommitDeletesNoMoreHeldMessagesThanATransactionAllows(t *testing.T) {
	var behind []record.Message
	for n := 2; n <= 250; n++ {
		behind = append(behind, numbered(fmt.Sprint(n))...)
	}
	for _, c := range []struct {
		name string
		last []record.Message
	}{
		{"drained", numbered("1")},
		{"delivered again with their predecessor", append(numbered("1"), behind...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLab(t).worker(bySequence)
			if got := w.process(behind...); slices.ContainsFunc(got, func(fate string) bool { return fate != "held" }) {
				t.Fatalf("got %v", got)
			}
			same(t, "version", w.group().Version, 3)
			got := w.process(c.last...)
			if slices.ContainsFunc(got, func(fate string) bool { return fate == "retry" || fate == "held" }) {
				t.Errorf("got %v", got)
			}
			g := w.group()
			same(t, "next", g.Sources["p"].Next, 251)
			same(t, "state", len(strings.Split(string(g.State), ",")), 251)
			same(t, "held", g.HasHeld(), false)
		})
	}
}

func TestAStaleViewOfHeldMessagesIsLoadedAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		held    string
		deliver string
		other   string
		state   string
	}{
		{"drained by another worker", "2", "1", "1", "p/0/1,p/0/2,"},
		{"given back by another worker", "2: fail", "1", "1", "p/0/1,"},
		{"delivered again", "2", "2", "1", "p/0/1,p/0/2,"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			l.worker(bySequence).process(numbered(c.held)...)
			w := l.worker(bySequence)
			w.at = between("held", func() { l.worker(bySequence).process(numbered(c.other)...) })
			same(t, "fates", w.process(numbered(c.deliver)...), []string{"duplicate"})
			same(t, "state", string(l.group().State), c.state)
		})
	}
}

func TestAHeldMessageIsReadAsItWasSent(t *testing.T) {
	l := newLab(t)
	w := l.worker(bySequence)
	m := numbered("2: send")[0]
	m.Principal, m.Headers, m.ContentType = "alice", map[string]string{"a": "b"}, "text/plain"
	first := numbered("1")[0]
	first.Principal = "alice"
	var got record.Message
	l.scripts["p/0/2"] = func(_ context.Context, _ *record.Attempt, m record.Message) error { got = m; return nil }
	w.process(m)
	w.process(first)
	same(t, "message", got, m)
}

func TestAFailureToReadHeldMessagesSettlesNothing(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("2")...)
	w.at = always("held", failsBefore)
	for _, batch := range [][]record.Message{numbered("1"), numbered("2"), numbered("1", "2"), numbered("p/1/1")} {
		for i, o := range w.Process(t.Context(), batch) {
			if o.Settled() || !errors.Is(o.Err, errInjected) {
				t.Errorf("%s: got %+v", batch[i].Identity(), o)
			}
		}
	}
	same(t, "record", summary(w.group()), "v1 state= pending= p/0 next=1 held=[{2 2}]")
}

func TestAHeldMessageThatBreaksANewRuleIsCorruptAndNotLost(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("2")...)
	loaded := w.group()
	next := loaded
	next.Version++
	m := numbered("2")[0]
	m.Headers = map[string]string{"": "x"}
	if err := w.store.Commit(t.Context(), record.Commit{Loaded: loaded, Next: next, Hold: []record.Held{{Message: m}}}); err != nil {
		t.Fatal(err)
	}
	o := w.Process(t.Context(), numbered("1"))[0]
	if o.Settled() || !errors.Is(o.Err, record.ErrCorrupt) {
		t.Errorf("got %+v", o)
	}
	same(t, "record", summary(w.group()), "v2 state= pending= p/0 next=1 held=[{2 2}]")
}

func TestANumberedStreamRefusesMessagesWithoutANumber(t *testing.T) {
	w := newLab(t).worker(bySequence)
	same(t, "fates", w.process(keyed("a")...), []string{"rejected invalid"})
}

func TestADuplicateOfANumberedMessageWithAReplyWritesNothing(t *testing.T) {
	l := newLab(t)
	same(t, "first", l.worker(bySequence).process(numbered("1: reply")...), []string{"processed with p/0/1"})
	w := l.worker(bySequence)
	same(t, "again", w.process(numbered("1: reply")...), []string{"duplicate with p/0/1"})
	same(t, "calls", w.calls(), []string{"load g", "load +1 tokens"})
}

func TestANumberedMessageWithoutAnEntryRemovesTheLeftoversOfOthers(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("1: reply")...)
	w.process(numbered("2")...)
	same(t, "record", summary(w.group()), "v2 state=p/0/1,p/0/2, pending= p/0 next=3")
}
