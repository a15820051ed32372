package dedup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// The states of these streams expire with their groups, so that a test sees every expiry. The
// streams of state_test.go keep theirs.
var byKey = record.Stream{Name: "s", StateRetention: record.DefaultGroupRetention}

func TestANewMessageIsLoadedRunCommittedMarkedAndThenAcknowledged(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a: reply")...), []string{"processed with a"})
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "run a", "commit g v1", "mark 1"})
	same(t, "token", w.token(keyed("a")[0]).State, record.Done)
}

func TestAMessageWithEffectsTriggersPublishingBeforeItIsAcknowledged(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a: send")...), []string{"processed"})
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "run a", "commit g v1", "trigger g"})
	same(t, "token", w.token(keyed("a")[0]).State, record.Absent)
}

func TestADuplicateCostsOneReadAndGetsTheSameReply(t *testing.T) {
	for _, body := range []string{": reply", ": send reply"} {
		l := newLab(t)
		l.worker(byKey).process(keyed("a" + body)...)
		l.publish(byKey)
		w := l.worker(byKey)
		same(t, "fates", w.process(keyed("a"+body)...), []string{"duplicate with a"})
		same(t, "calls", w.calls(), []string{"load g +1 tokens"})
	}
}

func TestADuplicateOfAnUnpublishedMessageTriggersAgain(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a: send reply")...)
	w := l.worker(byKey)
	same(t, "fates", w.process(keyed("a: send reply")...), []string{"duplicate with a"})
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "trigger g"})
}

func TestADuplicateOfAnUnmarkedMessageMarksIt(t *testing.T) {
	l := newLab(t)
	dead := l.worker(byKey)
	dead.at = dies("mark", failsBefore)
	same(t, "fates", dead.process(keyed("a: reply")...), []string{"retry"})
	w := l.worker(byKey)
	same(t, "fates", w.process(keyed("a: reply")...), []string{"duplicate with a"})
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "mark 1"})
}

func TestMessagesOfOneGroupShareACommitAndKeepTheirOrder(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a: send", "b", "c: send=out+side")...), []string{"processed", "processed", "processed"})
	same(t, "calls", w.calls(), []string{"load g +3 tokens", "run a", "run b", "run c", "commit g v1", "mark 1", "trigger g"})
	same(t, "record", summary(w.group()), "v1 state=a,b,c, pending=[1 a 1 effects][2 b 0 effects][3 c 1 effects]")
}

func TestAFailingHandlerCommitsThePrefixAndStopsItsGroup(t *testing.T) {
	for _, failure := range []string{"fail", "panic"} {
		w := newLab(t).worker(byKey)
		outcomes := w.Process(t.Context(), keyed("a: send", "b: send "+failure, "c: send"))
		same(t, "fates", fates(outcomes), []string{"processed", "retry", "retry"})
		same(t, "record", summary(w.group()), "v1 state=a, pending=[1 a 1 effects]")
		if !errors.As(outcomes[1].Err, new(*record.HandlerError)) || errors.As(outcomes[2].Err, new(*record.HandlerError)) {
			t.Errorf("errors: %v, then %v", outcomes[1].Err, outcomes[2].Err)
		}
	}
}

func TestAGroupKeepsItsOrderInABatchWithAnother(t *testing.T) {
	w := newLab(t).worker(byKey)
	batch := keyed("a: fail", "b", "c")
	batch[1].Group = "h"
	same(t, "fates", w.process(batch...), []string{"retry", "processed", "retry"})
	same(t, "runs of c", slices.Contains(w.calls(), "run c"), false)
}

func TestAFailedAttemptLeavesNoTraceInTheState(t *testing.T) {
	l := newLab(t)
	l.scripts["b"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.State[0] = 'X'
		return errHandler
	}
	w := l.worker(byKey)
	w.process(keyed("a")...)
	same(t, "fates", w.process(keyed("c", "b")...), []string{"processed", "retry"})
	same(t, "state", string(w.group().State), "a,c,")
}

// doubtful returns a worker whose commit is not applied, although its error leaves that open, and
// whose handler fails message a when it is retried.
func (l *lab) doubtful() *worker {
	w := l.worker(byKey)
	w.at = both(once("commit", failsBefore), nth(2, "load", func() fault {
		l.scripts["a"] = func(context.Context, *record.Attempt, record.Message) error { return errHandler }
		return works
	}))
	return w
}

func TestAnUncommittedMessageIsNotMarked(t *testing.T) {
	w := newLab(t).doubtful() // the copy is decided by an entry of the plan itself
	same(t, "fates", w.process(keyed("a", "a")...), []string{"retry", "retry"})
	same(t, "token", w.token(keyed("a")[0]).State, record.Absent)
}

func TestAHandlersErrorCanBeUnwrapped(t *testing.T) {
	w := newLab(t).worker(byKey)
	o := w.Process(t.Context(), keyed("a: fail"))[0]
	if !errors.Is(o.Err, errHandler) || o.Settled() {
		t.Errorf("got %+v", o)
	}
	o = w.Process(t.Context(), keyed("a: panic"))[0]
	var failed *record.HandlerError
	if !errors.As(o.Err, &failed) || len(failed.Stack) == 0 || failed.Error() != "handle message: panic: the handler panics" {
		t.Errorf("got %+v", o)
	}
}

func TestARefusedMessageDoesNotBlockItsGroup(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fates", w.process(keyed("a", "b: reject", "c")...), []string{"processed", "rejected rejected", "processed"})
	same(t, "state", string(w.group().State), "a,c,")
}

func TestGroupsOfABatchDoNotBlockEachOther(t *testing.T) {
	w := newLab(t).worker(byKey)
	batch := keyed("a: fail", "b", "c")
	batch[1].Group, batch[2].Group = "h", "i"
	same(t, "fates", w.process(batch...), []string{"retry", "processed", "processed"})
}

func TestAKeyIsRefusedForAnotherContent(t *testing.T) {
	t.Run("within a batch", func(t *testing.T) {
		w := newLab(t).worker(byKey)
		same(t, "fates", w.process(keyed("a", "a: other", "a")...), []string{"processed", "rejected key-reuse", "duplicate"})
	})
	t.Run("while it is pending", func(t *testing.T) {
		w := newLab(t).worker(byKey)
		w.process(keyed("a: send")...)
		same(t, "fates", w.process(keyed("a: other")...), []string{"rejected key-reuse"})
	})
	t.Run("while it is remembered", func(t *testing.T) {
		l := newLab(t)
		l.worker(byKey).process(keyed("a: send")...)
		l.publish(byKey)
		same(t, "fates", l.worker(byKey).process(keyed("a: other", "a: send")...), []string{"rejected key-reuse", "duplicate"})
	})
	t.Run("once it is issued", func(t *testing.T) {
		w := newLab(t).worker(byKey)
		if _, _, err := w.Issue(t.Context(), keyed("a")[0]); err != nil {
			t.Fatal(err)
		}
		same(t, "fates", w.process(keyed("a: other", "a")...), []string{"rejected key-reuse", "processed"})
	})
}

func TestAKeyInTwoGroupsOfABatchIsRunInOne(t *testing.T) {
	l := newLab(t)
	batch := append(keyed("a", "b"), keyed("a", "c")...)
	batch[2].Group, batch[3].Group = "h", "h"
	same(t, "fates", l.worker(byKey).process(batch...), []string{"processed", "processed", "retry", "retry"})
	same(t, "when it comes again", l.worker(byKey).process(batch[2:]...), []string{"rejected key-reuse", "processed"})
	same(t, "state of g", string(l.record("g").State), "a,b,")
	same(t, "state of h", string(l.record("h").State), "c,")
}

func TestTheSameKeyOfAnotherPrincipalIsAnotherMessage(t *testing.T) {
	w := newLab(t).worker(byKey)
	batch := append(keyed("a: reply"), keyed("a: other")...)
	batch[1].Principal = "mallory"
	same(t, "fates", w.process(batch...), []string{"processed with a", "processed"})
}

func TestAKeyIsNewAgainAfterItsRetention(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream record.Stream
		after  time.Duration
	}{
		{"of the stream", record.Stream{Name: "s", Retention: time.Hour}, time.Hour},
		{"by default", byKey, record.DefaultRetention},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			m := keyed("a")[0]
			other := keyed("b")[0] // removes the leftover of a from the record
			l.worker(c.stream).process(m)
			l.worker(c.stream).process(other)
			l.pass(c.after - 1)
			same(t, "before", l.worker(c.stream).process(m), []string{"duplicate"})
			l.pass(1)
			same(t, "after", l.worker(c.stream).process(m), []string{"processed"})
		})
	}
}

func TestAMessageThatIsOlderThanItsRetentionIsRefused(t *testing.T) {
	l := newLab(t)
	m := keyed("a")[0]
	m.Accepted = l.clock()
	l.pass(record.DefaultRetention - 1)
	late := m
	late.ID = "b"
	same(t, "in time", l.worker(byKey).process(m), []string{"processed"})
	l.pass(1)
	same(t, "fates", l.worker(byKey).process(late), []string{"rejected expired"})
}

func TestALostConditionMeansLoadingAgainAndNeverADuplicate(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	w.at = between("commit", func() { l.worker(byKey).process(keyed("b")...) })
	same(t, "fates", w.process(keyed("a")...), []string{"processed"})
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "run a", "commit g v1", "load g +1 tokens", "run a", "load +1 tokens", "commit g v2", "mark 1"})
	same(t, "state", string(l.group().State), "b,a,")
}

func TestACommitWithALostReplyIsFoundInThePendingEntries(t *testing.T) {
	w := newLab(t).worker(byKey)
	w.at = once("commit", failsAfter)
	same(t, "fates", w.process(keyed("a: reply", "b: send", "a: reply")...), []string{"processed with a", "processed", "duplicate with a"})
	same(t, "record", summary(w.group()), "v1 state=a,b, pending=[1 a 0 effects][2 b 1 effects]")
}

func TestAMessageIsStillProcessedByThisCallWhenALaterPartIsContended(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	commits := 0
	w.at = func(call string) fault {
		if !strings.HasPrefix(call, "commit") {
			return works
		}
		commits++
		if commits == 2 {
			l.worker(byKey).process(keyed("x")...)
		}
		if commits == 1 {
			return failsAfter
		}
		return works
	}
	const big = ": kb=200 send"
	same(t, "fates", w.process(keyed("a"+big, "b"+big)...), []string{"processed", "processed"})
	same(t, "state", string(l.group().State), "a,x,b,")
}

func TestTheTokensAreReadAfterTheGroup(t *testing.T) {
	// If tokens were read first, a message that another worker finishes between the two reads would
	// look new in both.
	l := newLab(t)
	w := l.worker(byKey)
	w.at = between("load", func() {
		l.worker(byKey).process(keyed("a: send")...)
		l.publish(byKey)
	})
	same(t, "fates", w.process(keyed("a: send")...), []string{"duplicate"})
	same(t, "first call", w.calls()[0], "load g +1 tokens")
}

func TestAWorkerGivesUpAGroupAfterManyConflicts(t *testing.T) {
	w := newLab(t).worker(byKey)
	w.at = always("commit", failsBefore)
	o := w.Process(t.Context(), keyed("a"))[0]
	if o.Settled() || !errors.Is(o.Err, errInjected) {
		t.Errorf("got %+v", o)
	}
	calls := w.calls()
	same(t, "commits", counted(calls, "commit g v1"), 12)
	same(t, "runs, as long as the first commit may have been applied", counted(calls, "run a"), 1)
}

func TestNothingIsSettledIfAMarkOrATriggerFails(t *testing.T) {
	for _, c := range []struct{ body, call string }{{"", "mark"}, {": send", "trigger"}} {
		for _, f := range []fault{failsBefore, failsAfter} {
			w := newLab(t).worker(byKey)
			w.at = always(c.call, f)
			same(t, "fates", w.process(keyed("a"+c.body)...), []string{"retry"})
			w.at = nil
			same(t, "fates", w.process(keyed("a"+c.body)...), []string{"duplicate"})
		}
	}
}

func TestACancelledBatchIsRetriedAndBlamesNoHandler(t *testing.T) {
	for _, stream := range []record.Stream{byKey, {Name: "s", Stateless: true, Unordered: true}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		l := newLab(t)
		w := l.worker(stream)
		l.scripts["a"] = func(context.Context, *record.Attempt, record.Message) error { cancel(); return nil }
		for i, o := range w.Process(ctx, keyed("a", "b")) {
			if stream.Stateless && i == 0 {
				// recorded, or it would be sent again
				same(t, "the one that was sent", o.Kind, record.Processed)
				continue
			}
			if o.Settled() || errors.As(o.Err, new(*record.HandlerError)) {
				t.Errorf("message %d: got %+v", i, o)
			}
		}
		same(t, "runs", slices.Contains(w.calls(), "run b"), false)
		state := "a,"
		if stream.Stateless {
			state = ""
		}
		same(t, "what was done in time", string(l.group().State), state)
	}
}

func TestALeftoverIsRemovedByTheNextCommitWhenItsTokenIsDone(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a")...)
	same(t, "left", summary(l.group()), "v1 state=a, pending=[1 a 0 effects]")
	w := l.worker(byKey)
	w.process(keyed("b")...)
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "run b", "load +1 tokens", "commit g v2", "mark 1"})
	same(t, "left", summary(l.group()), "v2 state=a,b, pending=[2 b 0 effects]")
}

func TestALeftoverThatIsNotMarkedIsMarkedBeforeItIsRemoved(t *testing.T) {
	for _, c := range []struct {
		name string
		wait time.Duration
	}{{"because its worker died", 0}, {"because it is long ago", record.DefaultRetention + time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			dead := l.worker(byKey)
			dead.at = dies("mark", failsBefore)
			dead.process(keyed("a: reply")...)
			l.pass(c.wait)
			w := l.worker(byKey)
			w.process(keyed("b: send")...)
			same(t, "calls", w.calls(), []string{"load g +1 tokens", "run b", "load +1 tokens", "mark 1", "commit g v2", "trigger g"})
			same(t, "left", summary(l.group()), "v2 state=a,b, pending=[2 b 1 effects]")
			same(t, "token", string(l.token(keyed("a")[0]).Reply.Body), "a")
		})
	}
}

func TestALeftoverStaysIfItsTokenCanNotBeRead(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("a")...)
	w := l.worker(byKey)
	w.at = always("load +1", failsBefore)
	same(t, "fates", w.process(keyed("b")...), []string{"retry"})
	same(t, "left", summary(l.group()), "v1 state=a, pending=[1 a 0 effects]")
}

func TestAMessageThatBreaksARuleIsRefused(t *testing.T) {
	w := newLab(t).worker(byKey)
	batch := keyed("a", "", "c")
	batch[2].Stream = "unknown"
	same(t, "fates", w.process(batch...), []string{"processed", "rejected invalid", "rejected invalid"})
}

func TestAnEffectThatCanNeverBeSentFailsTheHandler(t *testing.T) {
	for _, stream := range []record.Stream{byKey, {Name: "s", Stateless: true, Unordered: true}} {
		for _, body := range []string{": send=nowhere", ": blob=bad"} {
			w := newLab(t).worker(stream)
			o := w.Process(t.Context(), keyed("a"+body))[0]
			if !errors.As(o.Err, new(*record.HandlerError)) {
				t.Errorf("%s: got %+v", body, o)
			}
		}
	}
}

func TestTheLeftoversOfABatchAreReadTogether(t *testing.T) {
	batch := func(id string) (messages []record.Message) {
		for _, group := range []string{"a", "b", "c"} {
			messages = append(messages, record.Message{Stream: "s", Group: group, ID: id + group})
		}
		return messages
	}
	l := newLab(t)
	l.worker(byKey).process(batch("first-")...)
	w := l.worker(byKey)
	same(t, "fates", slices.Compact(w.process(batch("second-")...)), []string{"processed"})
	loads := slices.DeleteFunc(w.calls(), func(call string) bool { return !strings.HasPrefix(call, "load") })
	same(t, "loads", loads, []string{"load a b c +3 tokens", "load +3 tokens"})
}
