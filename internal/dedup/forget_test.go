package dedup_test

import (
	"errors"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// dyingDelete begins to delete a request in another process, which dies before the commit.
func (l *lab) dyingDelete(r record.Message) {
	l.t.Helper()
	w := l.worker(byKey)
	w.at = dies("commit", failsBefore)
	if err := w.Forget(l.t.Context(), r); err == nil {
		l.t.Error("its worker has died")
	}
}

// beingDeleted returns a lab with a request whose delete was abandoned.
func beingDeleted(t *testing.T) (*lab, record.Message) {
	t.Helper()
	l := newLab(t)
	r := request("a: send")
	l.worker(byKey).issue(r)
	l.dyingDelete(r)
	return l, r
}

func TestACallFinishesAnAbandonedDelete(t *testing.T) {
	l, r := beingDeleted(t)
	l.pass(30*24*time.Hour - time.Minute)
	w := l.worker(byKey)
	same(t, "call", w.call1(r), "rejected deleted")
	l.pass(time.Hour) // the issued token would expire now
	state, err := w.Status(t.Context(), r)
	if err != nil || state.Status != admission.StatusDeleted {
		t.Errorf("status %q, %v", state.Status, err)
	}
	if _, _, err := w.Issue(t.Context(), r); err == nil {
		t.Error("what somebody was told is deleted was put again")
	}
	same(t, "the request is kept", l.token(r).Request != nil, false)
}

func TestACallThatCommitsBeforeAnAbandonedDeleteWins(t *testing.T) {
	l := newLab(t)
	r := request("a: send reply")
	late := l.worker(byKey)
	late.issue(r)
	late.at = between("commit", func() { l.dyingDelete(r) })
	same(t, "call", late.call1(r), "processed with a")
	same(t, "another call", l.worker(byKey).call1(r), "duplicate with a")
	l.publish(byKey)
	same(t, "arrived", l.arrived("out"), []string{"s/g/1"})
	same(t, "when it is done", l.worker(byKey).call1(r), "duplicate with a")
}

func TestADeleteThatCanNotBeFinishedIsNotReported(t *testing.T) {
	for _, call := range []string{"commit", "swap issued done deleted"} {
		l, r := beingDeleted(t)
		w := l.worker(byKey)
		w.at = always(call, failsBefore)
		same(t, "fate", w.call1(r), "retry")
		if state, err := w.Status(t.Context(), r); err != nil || state.Status != admission.StatusAccepted {
			t.Errorf("status %q, %v", state.Status, err)
		}
		w.at = nil
		same(t, "fate", w.call1(r), "rejected deleted")
	}
}

func TestOtherContentIsNotToldOfADeleteInProgress(t *testing.T) {
	l, r := beingDeleted(t)
	w := l.worker(byKey)
	same(t, "a message", w.process(keyed("a", "b")...), []string{"rejected key-reuse", "processed"})
	other := r
	other.Body = []byte("other")
	var refused *record.RefusedError
	if _, _, err := w.Issue(t.Context(), other); !errors.As(err, &refused) || refused.Reason != record.ReasonKeyReuse {
		t.Errorf("put: %v", err)
	}
	same(t, "a call", w.call1(other), "rejected key-reuse")
	if token := l.token(r); !token.Deleting() {
		t.Errorf("it is %+v", token)
	}
}

func TestADeleteThatBeginsWhilePublishingMakesRoomIsNoticed(t *testing.T) {
	l := newLab(t)
	r := request("a: kb=200 send")
	w := l.worker(byKey)
	w.issue(r)
	w.process(keyed("x: kb=200 send")...)
	w.at = between("send", func() { l.dyingDelete(r) })
	batch := append([]record.Message{r}, keyed("b")...)
	same(t, "fates", w.process(batch...), []string{"retry", "retry"})
	same(t, "fates", w.process(batch...), []string{"rejected deleted", "processed"})
}
