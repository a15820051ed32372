package dedup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

var byToken = record.Stream{Name: "s", Admission: record.ByToken, StateRetention: record.DefaultGroupRetention}

func (w *worker) issue(messages ...record.Message) {
	w.t.Helper()
	for _, m := range messages {
		if _, _, err := w.Issue(w.t.Context(), m); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestAnIssuedTokenIsProcessedOnce(t *testing.T) {
	l := newLab(t)
	w := l.worker(byToken)
	w.issue(keyed("a: send")...)
	same(t, "calls", w.calls(), []string{"swap absent issued"})
	same(t, "fates", w.process(keyed("a: send")...), []string{"processed"})
	same(t, "while it is pending", w.process(keyed("a: send")...), []string{"duplicate"})
	l.publish(byToken)
	same(t, "when it is done", w.process(keyed("a: send")...), []string{"duplicate"})
}

func TestATokenThatWasNeverIssuedIsUnknownAndNeverDroppedSilently(t *testing.T) {
	w := newLab(t).worker(byToken)
	same(t, "fates", w.process(keyed("a")...), []string{"rejected unknown"})
	same(t, "calls", w.calls(), []string{"load g +1 tokens"})
}

func TestADoneTokenThatIsForgottenIsUnknown(t *testing.T) {
	l := newLab(t)
	w := l.worker(byToken)
	w.issue(keyed("a", "b")...)
	w.process(keyed("a")...)
	w.process(keyed("b")...)
	l.pass(record.DefaultRetention)
	same(t, "fates", w.process(keyed("a")...), []string{"rejected unknown"})
}

func TestAnIssuedTokenIsKeptForItsMessage(t *testing.T) {
	l := newLab(t)
	w := l.worker(byToken)
	w.issue(keyed("a")...)
	l.pass(record.IssuedRetention - 1)
	same(t, "fates", w.process(keyed("a")...), []string{"processed"})
}

func TestIssuingAgainReturnsTheStoredToken(t *testing.T) {
	l := newLab(t)
	w := l.worker(byToken)
	m := keyed("a: reply")[0]
	for i, want := range []struct {
		fresh bool
		state record.TokenState
	}{{true, record.Issued}, {false, record.Issued}} {
		token, fresh, err := w.Issue(t.Context(), m)
		if err != nil || fresh != want.fresh || token.State != want.state {
			t.Errorf("time %d: got %v, %v, %v", i, token.State, fresh, err)
		}
	}
	w.process(m)
	token, fresh, err := w.Issue(t.Context(), m)
	if err != nil || fresh || token.State != record.Done || string(token.Reply.Body) != "a" {
		t.Errorf("when done: got %+v, %v, %v", token, fresh, err)
	}
}

func TestIssuingForOtherContentIsRefused(t *testing.T) {
	w := newLab(t).worker(byToken)
	w.issue(keyed("a")...)
	_, _, err := w.Issue(t.Context(), keyed("a: other")[0])
	var refused *record.RefusedError
	if !errors.As(err, &refused) || refused.Reason != record.ReasonKeyReuse || err.Error() != "key-reuse: the same identity was used for another content" {
		t.Errorf("got %v", err)
	}
}

func TestAFailedIssueReturnsAnError(t *testing.T) {
	for _, f := range []fault{failsBefore, failsAfter} {
		w := newLab(t).worker(byToken)
		w.at = once("swap", f)
		if _, _, err := w.Issue(t.Context(), keyed("a")[0]); !errors.Is(err, errInjected) {
			t.Errorf("got %v", err)
		}
		token, _, err := w.Issue(t.Context(), keyed("a")[0])
		if err != nil || token.State != record.Issued {
			t.Errorf("again: got %v, %v", token.State, err)
		}
	}
	w := newLab(t).worker(byToken)
	if _, _, err := w.Issue(t.Context(), record.Message{Stream: "s"}); !errors.As(err, new(*record.InvalidError)) {
		t.Errorf("invalid: got %v", err)
	}
}

func TestIssuingADeadLetterAgainForgetsItsReason(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(l *lab) func(string) fault
		want admission.Status
		fail bool
	}{
		{"alone", func(*lab) func(string) fault { return nil }, admission.StatusAccepted, false},
		{"while the message is redriven", func(l *lab) func(string) fault {
			return nth(2, "swap", func() fault { l.scripts["a"] = succeed; l.worker(byToken).process(keyed("a: fail")...); return works })
		}, admission.StatusDone, false},
		{"when the store is away", func(*lab) func(string) fault { return nth(2, "swap", func() fault { return failsBefore }) }, admission.StatusAccepted, true},
		{"when the answer is lost", func(*lab) func(string) fault { return nth(2, "swap", func() fault { return failsAfter }) }, admission.StatusAccepted, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			w := l.worker(byToken)
			m := keyed("a: fail")[0]
			w.issue(m)
			w.process(m)
			if err := w.Refuse(t.Context(), []record.Refused{{Message: m, Reason: record.ReasonAttempts}}); err != nil {
				t.Fatal(err)
			}
			w.at = c.at(l)
			token, fresh, err := w.Issue(t.Context(), m)
			if fresh || c.fail != errors.Is(err, errInjected) || !c.fail && token.Reason != "" {
				t.Errorf("got %+v, %v, %v", token, fresh, err)
			}
			state, err := w.Status(t.Context(), m)
			if err != nil || state.Status != c.want {
				t.Errorf("got %+v, %v, want %s", state, err, c.want)
			}
		})
	}
}

func TestARefusalForAnotherReasonDoesNotChangeTheToken(t *testing.T) {
	w := newLab(t).worker(byKey, record.Stream{Name: "n", Admission: record.BySequence})
	number := record.Message{Stream: "n", Source: "p", Sequence: 1}
	invalid := keyed("a")[0]
	invalid.Stream = "none"
	refused := []record.Refused{
		{Message: keyed("b")[0], Reason: record.ReasonKeyReuse},
		{Message: number, Reason: record.ReasonHandler},
		{Message: invalid, Reason: record.ReasonAttempts},
		{Delivery: &record.Delivery{}, Reason: record.ReasonAttempts},
	}
	if err := w.Refuse(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", w.calls(), []string{"trigger later g p", "dead b key-reuse p/0/1 rejected a attempts  attempts"})
	same(t, "dead letters", len(w.dead), 4)
}

func TestARefusalThatIsNotDeadLetteredIsAnError(t *testing.T) {
	w := newLab(t).worker(byKey)
	w.at = always("dead", failsAfter)
	if err := w.Refuse(t.Context(), []record.Refused{{Message: keyed("a")[0], Reason: record.ReasonHandler}}); !errors.Is(err, errInjected) {
		t.Errorf("got %v", err)
	}
	same(t, "token", w.token(keyed("a")[0]).State, record.Absent)
}

func TestARefusalWhoseReasonCanNotBeWrittenSucceeds(t *testing.T) {
	for _, call := range []string{"load", "swap"} {
		w := newLab(t).worker(byKey)
		w.at = always(call, failsBefore)
		if err := w.Refuse(t.Context(), []record.Refused{{Message: keyed("a")[0], Reason: record.ReasonHandler}}); err != nil {
			t.Errorf("%s: got %v", call, err)
		}
	}
}

func TestARefusalDoesNotOverwriteADoneToken(t *testing.T) {
	refusal := []record.Refused{{Message: keyed("a: reply")[0], Reason: record.ReasonAttempts}}
	t.Run("before", func(t *testing.T) {
		w := newLab(t).worker(byKey)
		w.process(keyed("a: reply")...)
		if err := w.Refuse(t.Context(), refusal); err != nil {
			t.Fatal(err)
		}
		same(t, "token", w.token(keyed("a")[0]).State, record.Done)
	})
	t.Run("meanwhile", func(t *testing.T) {
		l := newLab(t)
		w := l.worker(byKey)
		w.at = between("swap", func() { l.worker(byKey).process(keyed("a: reply")...) })
		if err := w.Refuse(t.Context(), refusal); err != nil {
			t.Fatal(err)
		}
		same(t, "token", w.token(keyed("a")[0]).State, record.Done)
	})
}

func TestTheStatusOfAMessage(t *testing.T) {
	l := newLab(t)
	w := l.worker(byKey)
	m := keyed("a: send reply")[0]
	id := record.Message{Stream: "s", ID: "a"}
	status := func(want admission.Status, group, reply string) {
		t.Helper()
		state, err := w.Status(t.Context(), id)
		if err != nil || state.Status != want || state.Group != group || reply != "" && (state.Reply == nil || string(state.Reply.Body) != reply) {
			t.Errorf("got %+v, %v, want %s", state, err, want)
		}
	}
	status(admission.StatusUnknown, "a", "")
	w.issue(m)
	status(admission.StatusAccepted, "g", "")
	w.process(m)
	status(admission.StatusCommitted, "g", "a")
	l.publish(byKey)
	status(admission.StatusDone, "g", "a")
	l.pass(record.DefaultRetention)
	status(admission.StatusUnknown, "a", "")
}

func TestTheStatusOfANumber(t *testing.T) {
	l := newLab(t)
	w := l.worker(gapped(record.GapSkip))
	status := func(id string, want admission.Status) {
		t.Helper()
		state, err := w.Status(t.Context(), record.Message{Stream: "s", Group: "g", ID: id})
		if err != nil || state.Status != want {
			t.Errorf("%s: got %+v, %v, want %s", id, state, err, want)
		}
	}
	w.process(numbered("1", "2: send", "4: reply")...)
	status("p/0/1", admission.StatusDone)
	status("p/0/2", admission.StatusCommitted)
	status("p/0/3", admission.StatusUnknown)
	status("p/0/4", admission.StatusHeld)
	status("p/1/1", admission.StatusUnknown)
	l.pass(time.Minute)
	w.closeGaps()
	status("p/0/3", admission.StatusRejected)
	status("p/0/4", admission.StatusDone)
	for _, id := range []string{"p", "p/1", "p/x/1", "p/1/x", "/1/1"} {
		if state, err := w.Status(t.Context(), record.Message{Stream: "s", Group: "g", ID: id}); err == nil && state.Status != admission.StatusUnknown {
			t.Errorf("%s: got %+v", id, state)
		}
	}
	state, err := w.Status(t.Context(), numbered("4")[0])
	if err != nil || state.Status != admission.StatusDone || string(state.Reply.Body) != "p/0/4" {
		t.Errorf("by number: got %+v, %v", state, err)
	}
}

func TestAStatusThatCanNotBeReadIsAnError(t *testing.T) {
	w := newLab(t).worker(byKey)
	for _, n := range []int{1, 2} {
		w.at = nth(n, "load", func() fault { return failsBefore })
		if _, err := w.Status(t.Context(), keyed("a")[0]); !errors.Is(err, errInjected) {
			t.Errorf("load %d: got %v", n, err)
		}
	}
	if _, err := w.Status(t.Context(), record.Message{Stream: "none", ID: "a"}); !errors.Is(err, record.ErrNoStream) {
		t.Errorf("stream: got %v", err)
	}
	if _, err := w.Status(t.Context(), record.Message{Stream: "s"}); !errors.As(err, new(*record.InvalidError)) {
		t.Errorf("id: got %v", err)
	}
}

func TestTheReplyOfANumberExpiresWithItsGroup(t *testing.T) {
	s := bySequence
	s.Retention, s.StateRetention = 60*24*time.Hour, 60*24*time.Hour
	l := newLab(t)
	l.scripts["p/0/1"] = func(_ context.Context, a *record.Attempt, m record.Message) error {
		a.State = nil
		return l.follow(a, m)
	}
	w := l.worker(s)
	w.process(numbered("1: reply")...)
	l.pass(31 * 24 * time.Hour)
	other := numbered("1: reply kb=1")[0]
	state, err := w.Status(t.Context(), other)
	if err != nil || state.OfOther(&other) {
		t.Errorf("another message under the number: %+v, %v", state, err)
	}
	same(t, "fates", w.process(other), []string{"processed with p/0/1"})
}
