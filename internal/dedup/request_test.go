package dedup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

func succeed(context.Context, *record.Attempt, record.Message) error { return nil }

// request returns a one-time request of group g.
func request(text string) record.Message {
	m := keyed(text)[0]
	m.Route = "POST /requests"
	return m
}

func (w *worker) call1(m record.Message) string {
	return fates([]record.Outcome{w.Call(context.Background(), m)})[0]
}

func TestACallTriggersBeforeACommitOnlyIfItHasEffects(t *testing.T) {
	w := newLab(t).worker(byKey)
	same(t, "fate", w.call1(keyed("a: send reply")[0]), "processed with a")
	same(t, "calls", w.calls(), []string{"load g +1 tokens", "run a", "trigger later g", "commit g v1", "trigger g"})
	m := keyed("b: reply")[0]
	m.Group = "h"
	same(t, "fate", w.call1(m), "processed with b")
	same(t, "calls", w.calls(), []string{"load h +1 tokens", "run b", "commit h v1", "mark 1"})
	same(t, "delays", []int64{w.triggers[0].Delay.Milliseconds(), w.triggers[1].Delay.Milliseconds()}, []int64{900_000, 0})
}

func TestACrashAfterTheCommitOfACallStrandsNothing(t *testing.T) {
	l := newLab(t)
	dead := l.worker(byKey)
	dead.at = dies("commit", failsAfter)
	same(t, "fate", dead.call1(keyed("a: send")[0]), "retry")
	l.publish(byKey)
	same(t, "arrived", l.arrived("out"), []string{"s/g/1"})
	same(t, "the caller's next try", l.worker(byKey).call1(keyed("a: send")[0]), "duplicate")
}

func TestACallThatCanNotTriggerDoesNotCommit(t *testing.T) {
	w := newLab(t).worker(byKey)
	w.at = always("trigger later", failsAfter)
	same(t, "fate", w.call1(keyed("a: send blob=k")[0]), "retry")
	same(t, "version", w.group().Version, 0)
	same(t, "staged", len(w.staged), 0)
}

func TestARequestIsStoredRunOnceAndReplayed(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	r := request("a: send reply")
	same(t, "unknown", w.call1(r), "rejected unknown")
	token, fresh, err := w.Issue(t.Context(), r)
	if err != nil || !fresh || token.Request == nil || string(token.Request.Body) != "send reply" {
		t.Fatalf("got %+v, %v, %v", token, fresh, err)
	}
	same(t, "first", w.call1(r), "processed with a")
	same(t, "second", w.call1(r), "duplicate with a")
	l.publish(byKey)
	same(t, "third", w.call1(r), "duplicate with a")
	same(t, "request kept", l.token(r).Request == nil, true)
}

func TestARequestToANumberedStreamIsAdmittedByItsToken(t *testing.T) {
	w := newLab(t).worker(bySequence)
	w.process(numbered("2")...)
	r := request("a: send reply")
	same(t, "unknown", w.call1(r), "rejected unknown")
	w.issue(r)
	same(t, "first", w.call1(r), "processed with a")
	same(t, "second", w.call1(r), "duplicate with a")
	same(t, "the sequence goes on", w.process(numbered("1")...), []string{"processed"})
	same(t, "state", string(w.group().State), "a,p/0/1,p/0/2,")
}

func TestAMessageWithTheKeyOfARequestIsKeyReuse(t *testing.T) {
	w := newLab(t).worker(byKey)
	w.issue(request("a"))
	same(t, "fate", w.process(keyed("a")...), []string{"rejected key-reuse"})
}

func TestADeletedRequestIsGone(t *testing.T) {
	for _, body := range []string{": send reply", ": reply", ""} {
		for _, ran := range []bool{false, true} {
			l := newLab(t)
			w := l.worker(byKey)
			r := request("a" + body)
			w.issue(r)
			if ran {
				w.call1(r)
			}
			for range 2 {
				if err := w.Forget(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			same(t, "call", w.call1(r), "rejected deleted")
			state, err := w.Status(t.Context(), r)
			if err != nil || state.Status != admission.StatusDeleted || state.Reply != nil {
				t.Errorf("got %+v, %v", state, err)
			}
			var refused *record.RefusedError
			if _, _, err := w.Issue(t.Context(), r); !errors.As(err, &refused) || refused.Reason != record.ReasonDeleted {
				t.Errorf("issue: got %v", err)
			}
			same(t, "left", len(l.group().Pending), 0)
			if ran && strings.Contains(body, "send") {
				same(t, "arrived", l.arrived("out"), []string{"s/g/1"})
			}
		}
	}
}

func TestDeletingWhatIsUnknownIsRefused(t *testing.T) {
	w := newLab(t).worker(byKey)
	var refused *record.RefusedError
	if err := w.Forget(t.Context(), request("a")); !errors.As(err, &refused) || refused.Reason != record.ReasonUnknown {
		t.Errorf("got %v", err)
	}
	if err := w.Forget(t.Context(), record.Message{Stream: "none", ID: "a"}); !errors.Is(err, record.ErrNoStream) {
		t.Errorf("got %v", err)
	}
	w.at = always("load", failsBefore)
	if err := w.Forget(t.Context(), request("a")); !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Forget(ctx, request("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// deletes runs a DELETE in another process, and fails the test if that is refused.
func (l *lab) deletes(r record.Message) func() {
	return func() {
		l.t.Helper()
		if err := l.worker(byKey).Forget(l.t.Context(), r); err != nil {
			l.t.Errorf("delete: %v", err)
		}
	}
}

func TestADeleteDuringACallNeverGetsStuckAndStaysDeleted(t *testing.T) {
	for _, body := range []string{": send reply", ": reply"} {
		for _, moment := range []string{"load", "run", "trigger later", "commit", "swap issued done", "load +1", "trigger g", "load g", "send", "clear"} {
			t.Run(moment+body, func(t *testing.T) {
				l := newLab(t)
				r := request("a" + body)
				l.worker(byKey).issue(r)
				w := l.worker(byKey)
				w.at = between(moment, l.deletes(r))
				fate := w.call1(r)
				if err := w.publishOnce(); err != nil {
					t.Error(err)
				}
				if fate != "processed with a" && fate != "rejected deleted" {
					t.Errorf("call: %s", fate)
				}
				if len(l.arrived("out")) > 0 != (fate == "processed with a" && strings.Contains(body, "send")) {
					t.Errorf("call: %s, and arrived: %v", fate, l.arrived("out"))
				}
				if err := l.worker(byKey).Forget(t.Context(), r); err != nil {
					t.Error(err)
				}
				same(t, "afterwards", l.worker(byKey).call1(r), "rejected deleted")
				same(t, "left", len(l.group().Pending), 0)
			})
		}
	}
}

func TestALateMarkDoesNotRestoreADeletedRequest(t *testing.T) {
	for _, c := range []struct{ name, body, moment string }{
		{"the caller's", ": reply", "swap issued done"},
		{"a publisher", ": send reply", "swap issued done"},
		{"a publisher, before it looks", ": send reply", "load +1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			r := request("a" + c.body)
			l.worker(byKey).issue(r)
			w := l.worker(byKey)
			w.at = between(c.moment, l.deletes(r))
			same(t, "call", w.call1(r), "processed with a")
			if err := w.publishOnce(); err != nil {
				t.Error(err)
			}
			same(t, "afterwards", l.worker(byKey).call1(r), "rejected deleted")
		})
	}
}

func TestACallWhoseRequestIsDeletedBeforeItsCommitDoesNotCommit(t *testing.T) {
	for _, at := range []func(string) fault{
		func(string) fault { return works },
		once("swap issued done deleted", failsAfter),
		once("commit", failsBefore),
		once("commit", failsAfter),
		once("swap issued issued deleted", failsAfter),
		once("swap issued done deleted", failsBefore),
		dies("swap issued done deleted", failsBefore),
		dies("commit", failsBefore), // and the client deletes again
	} {
		l := newLab(t)
		r := request("a: send")
		l.worker(byKey).issue(r)
		w := l.worker(byKey)
		w.at = between("commit", func() {
			d := l.worker(byKey)
			d.at = at
			if d.Forget(t.Context(), r) != nil {
				l.deletes(r)()
			}
		})
		same(t, "call", w.call1(r), "rejected deleted")
		same(t, "state", string(l.group().State), "")
	}
}

func TestACallOfARequestThatIsBeingDeletedIsDecidedByACommit(t *testing.T) {
	l := newLab(t)
	r := request("a: send")
	late := l.worker(byKey)
	late.issue(r)
	late.at = between("commit", func() {
		l.dyingDelete(r)
		same(t, "another call", l.worker(byKey).call1(r), "rejected deleted")
	})
	same(t, "call", late.call1(r), "rejected deleted")
	same(t, "state", string(l.group().State), "")
}

func TestADeleteThatAlwaysConflictsReturnsAnError(t *testing.T) {
	l := newLab(t)
	r := request("a")
	w := l.worker(byKey)
	w.issue(r)
	w.at = always("commit", failsBefore)
	if err := w.Forget(t.Context(), r); !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
	b := request("b")
	w.issue(b)
	w.at = always("swap", failsBefore)
	if err := w.Forget(t.Context(), b); !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
}

func TestAFailedMarkOfARequestSettlesNothing(t *testing.T) {
	for _, call := range []string{"swap issued done", "load +1"} {
		l := newLab(t)
		r := request("a: reply")
		w := l.worker(byKey)
		w.issue(r)
		w.at = always(call, failsBefore)
		same(t, "fate", w.call1(r), "retry")
		w.at = nil
		same(t, "fate", w.call1(r), "duplicate with a")
		same(t, "token", l.token(r).State, record.Done)
	}
}

func TestOneTimeRequestsThatRaceEndInOneState(t *testing.T) {
	l := newLab(t)
	for n := range 40 {
		r := request("r" + string(rune('A'+n)) + ": send reply")
		l.worker(byKey).issue(r)
		var all sync.WaitGroup
		var mu sync.Mutex
		var got []string
		for range 3 {
			all.Go(func() {
				fate := l.worker(byKey).call1(r)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, strings.Fields(fate)[0])
			})
		}
		all.Go(l.deletes(r))
		all.Go(func() { _, _, _ = l.worker(byKey).Issue(t.Context(), r) })
		all.Go(func() { _ = l.worker(byKey).publishOnce() })
		all.Wait()
		runs := len(slices.DeleteFunc(got, func(fate string) bool { return fate != "processed" }))
		if runs > 1 {
			t.Errorf("%s ran %d times", r.ID, runs)
		}
		same(t, "afterwards", l.worker(byKey).call1(r), "rejected deleted")
	}
	l.publish(byKey)
	same(t, "left", len(l.group().Pending), 0)
	same(t, "each run arrived", len(l.arrived("out")), strings.Count(string(l.group().State), ","))
}
