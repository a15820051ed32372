package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// keeper returns a worker whose engine lets the record of a group take the place of the done token
// of a message that is a group of its own.
func keeper(l *lab, stream record.Stream) *worker {
	return l.workerOf(dedup.Config{Streams: []record.Stream{stream}, KeepDone: true})
}

// own returns messages that are groups of their own: "id" or "id: body".
func own(texts ...string) []record.Message {
	out := keyed(texts...)
	for i := range out {
		out[i].Group = ""
	}
	return out
}

// publishAll has the worker itself publish what is triggered.
func publishAll(t *testing.T, w *worker) {
	t.Helper()
	for len(w.triggers) > 0 {
		key := w.triggers[0].Key
		w.triggers = w.triggers[1:]
		if err := w.Publish(t.Context(), []record.GroupKey{key})[0]; err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeptEntriesTakeThePlaceOfDoneTokens(t *testing.T) {
	for _, body := range []string{"reply", "send reply"} {
		l := newLab(t)
		w := keeper(l, byKey)
		same(t, "fates", w.process(own("a: "+body)...), []string{"processed with a"})
		publishAll(t, w)
		same(t, "token", w.token(own("a")[0]).State, record.Absent)
		same(t, "record", summary(l.record("a")), "v1 state=a, pending=[1 a 0 effects]")
		same(t, "copy", w.process(own("a: "+body)...), []string{"duplicate with a"})
		same(t, "other content", w.process(own("a: other")...), []string{"rejected key-reuse"})
		g := l.record("a")
		same(t, "done until", g.Pending[0].DoneUntil, l.clock().Add(record.DefaultRetention))
		same(t, "expiry of the record", g.Expires, l.clock().Add(record.DefaultGroupRetention))
	}
}

func TestKeptEntryCountsAsLongAsATokenWould(t *testing.T) {
	for _, body := range []string{"", "send"} {
		stream := byKey
		stream.Retention = time.Hour
		l := newLab(t)
		w := keeper(l, stream)
		w.process(own("a: " + body)...)
		l.pass(time.Minute)
		publishAll(t, w)
		left := time.Hour
		if body == "" {
			left -= time.Minute
		}
		l.pass(left - time.Second)
		same(t, "before", w.process(own("a: "+body)...), []string{"duplicate"})
		l.pass(time.Second)
		same(t, "after", w.process(own("a: other")...), []string{"processed"})
		publishAll(t, w)
		same(t, "the new message", w.process(own("a: other")...), []string{"duplicate"})
		same(t, "record", len(l.record("a").Pending), 1)
	}
}

func TestKeptEntryAnswersTheStatusOfItsMessage(t *testing.T) {
	l := newLab(t)
	stream := byKey
	stream.Retention = time.Hour
	w := keeper(l, stream)
	m := own("a: send reply")[0]
	w.issue(m)
	status := func(want admission.Status) admission.State {
		t.Helper()
		state, err := w.Status(t.Context(), record.Message{Stream: "s", ID: "a"})
		if err != nil || state.Status != want {
			t.Errorf("got %+v, %v, want %s", state, err, want)
		}
		return state
	}
	status(admission.StatusAccepted)
	w.process(m)
	status(admission.StatusCommitted)
	publishAll(t, w)
	state := status(admission.StatusDone)
	if state.Reply == nil || string(state.Reply.Body) != "a" || state.Group != "a" {
		t.Errorf("got %+v", state)
	}
	other := own("a: other")[0]
	if !state.OfOther(&other) || state.OfOther(&m) {
		t.Error("the state belongs to any content")
	}
	l.pass(time.Hour)
	status(admission.StatusUnknown)
}

func TestKeptEntryAnswersWhoeverIssuesItsToken(t *testing.T) {
	stream := byKey
	stream.Retention = time.Hour
	for _, byQueue := range []bool{true, false} {
		l := newLab(t)
		w := keeper(l, stream)
		m := own("a: reply")[0]
		if !byQueue {
			w.issue(m)
		}
		w.process(m)
		token, fresh, err := w.Issue(t.Context(), m)
		if err != nil || fresh || token.State != record.Done || string(token.Reply.Body) != "a" {
			t.Errorf("done: got %+v, %v, %v", token, fresh, err)
		}
		grouped := keyed("a: reply")[0]
		for _, reuse := range []record.Message{own("a: other")[0], grouped} {
			_, _, err = w.Issue(t.Context(), reuse)
			if refused, ok := errors.AsType[*record.RefusedError](err); !ok || refused.Reason != record.ReasonKeyReuse {
				t.Errorf("other content: got %v", err)
			}
			issued := w.IssueAll(t.Context(), []record.Message{reuse, own("b")[0]})
			if refused, ok := errors.AsType[*record.RefusedError](issued[0].Err); !ok || refused.Reason != record.ReasonKeyReuse || issued[1].Err != nil {
				t.Errorf("other content of a batch: got %+v", issued)
			}
		}
		l.pass(time.Hour)
		token, fresh, err = w.Issue(t.Context(), own("a: other")[0])
		if err != nil || !fresh || token.State != record.Issued {
			t.Errorf("when it is forgotten: got %+v, %v, %v", token, fresh, err)
		}
		_, _, err = w.Issue(t.Context(), m)
		if refused, ok := errors.AsType[*record.RefusedError](err); !ok || refused.Reason != record.ReasonKeyReuse {
			t.Errorf("the old content after the key was used again: got %v", err)
		}
	}
}

func TestKeptEntryBecomesATokenWhenItHasToGo(t *testing.T) {
	l := newLab(t)
	w := keeper(l, byKey)
	w.process(own("a: reply")...)
	until := l.record("a").Pending[0].DoneUntil
	l.pass(time.Hour)
	second := keyed("b")[0]
	second.Group = "a"
	same(t, "fates", w.process(second), []string{"processed"})
	token := w.token(own("a")[0])
	same(t, "token", token.State, record.Done)
	same(t, "its expiry", token.Expires, until)
	same(t, "record", summary(l.record("a")), "v2 state=a,b, pending=[2 b 0 effects]")
	same(t, "copies", w.process(own("a: reply")...), []string{"duplicate with a"})
	same(t, "copies", w.process(own("a: other")...), []string{"rejected key-reuse"})
}

// Entries that were committed without KeepDone are published to make room in a full record. Their
// kept form would make none.
func TestPublishRemovesEntriesThatWereNotCommittedAsKeptOnes(t *testing.T) {
	l := newLab(t)
	old := l.worker(byKey)
	old.at = dies("mark", failsBefore)
	old.process(own("a: reply")...)
	g := l.record("a")
	same(t, "left", summary(g), "v1 state=a, pending=[1 a 0 effects]")
	w := keeper(l, byKey)
	if err := w.Publish(t.Context(), []record.GroupKey{g.Key})[0]; err != nil {
		t.Fatal(err)
	}
	same(t, "record", summary(l.record("a")), "v1 state=a, pending=")
	same(t, "token", w.token(own("a")[0]).State, record.Done)
	same(t, "copy", w.process(own("a: reply")...), []string{"duplicate with a"})
}

func TestKeptEntriesOfPrincipalsShareAGroup(t *testing.T) {
	l := newLab(t)
	w := keeper(l, byKey)
	for i := range 5 {
		m := own("a: reply")[0]
		m.Principal = fmt.Sprint("tenant-", i)
		same(t, "fate", w.process(m), []string{"processed with a"})
		same(t, "copy", w.process(m), []string{"duplicate with a"})
	}
	same(t, "entries", len(l.record("a").Pending), 1)
	for i := range 5 {
		m := own("a: reply")[0]
		m.Principal = fmt.Sprint("tenant-", i)
		same(t, "late copy", w.process(m), []string{"duplicate with a"})
	}
}

func TestKeptEntriesAreNotForEveryMessage(t *testing.T) {
	short, byTokens, stateless := byKey, byToken, byKey
	short.GroupRetention, stateless.Stateless = record.IssuedRetention-1, true
	large := own(fmt.Sprintf("a: kb=%d reply", record.MaxKept>>10))[0]
	named := keyed("a")[0]
	for _, x := range []struct {
		name   string
		stream record.Stream
		m      record.Message
	}{
		{"groups that are forgotten early", short, own("a")[0]},
		{"token", byTokens, own("a")[0]},
		{"without state", stateless, record.Message{Stream: "s", ID: "a", Group: "a"}},
		{"large reply", byKey, large},
		{"other group", byKey, named},
	} {
		l := newLab(t)
		w := keeper(l, x.stream)
		w.issue(x.m)
		if got := w.Process(t.Context(), []record.Message{x.m})[0]; got.Kind != record.Processed {
			t.Errorf("%s: %+v", x.name, got)
		}
		same(t, x.name, w.token(x.m).State, record.Done)
	}
}

func TestKeptEntriesMakeRoomInAFullRecord(t *testing.T) {
	l := newLab(t)
	w := keeper(l, byKey)
	var batch []record.Message
	for i := range 20 {
		m := own("a: kb=15 reply")[0]
		m.Principal = fmt.Sprint("tenant-", i)
		batch = append(batch, m)
	}
	for i, o := range w.Process(t.Context(), batch) {
		if o.Kind != record.Processed {
			t.Errorf("message %d: %v %v", i, o.Kind, o.Err)
		}
	}
	m := own("a: kb=200 send")[0]
	m.Principal = "another"
	same(t, "fate", w.process(m), []string{"processed"})
	for i, o := range w.Process(t.Context(), batch) {
		if o.Kind != record.Duplicate {
			t.Errorf("copy %d: %v %v", i, o.Kind, o.Err)
		}
	}
}

func TestKeptEntriesAreNothingToSweep(t *testing.T) {
	l := newLab(t)
	w := keeper(l, byKey)
	w.process(own("a: send")...)
	publishAll(t, w)
	before := l.record("a")
	w.calls()
	if err := w.Sweep(context.Background(), before.Key); err != nil {
		t.Fatal(err)
	}
	same(t, "calls", w.calls(), []string{"load a", "load a"})
	same(t, "record", l.record("a"), before)
	if !before.Idle() || before.MissingExpiry() {
		t.Error("it is not idle")
	}
}

func TestKeptEntryOfAMessageIsInTheWayOfNoRequest(t *testing.T) {
	l := newLab(t)
	w := keeper(l, byKey)
	w.process(own("a")...)
	request := own("a")[0]
	request.Route = "POST /requests"
	if _, _, err := w.Issue(t.Context(), request); err == nil {
		t.Error("a request was issued under the key of a message")
	}
	same(t, "request", w.process(request), []string{"rejected key-reuse"})
	if err := w.Forget(t.Context(), request); err != nil {
		t.Errorf("delete: %v", err)
	}
	same(t, "after it was deleted", w.process(own("a")...), []string{"rejected deleted"})
}

func TestKeptEntryThatExpiredIsNoReasonToRunAnOldMessage(t *testing.T) {
	stream := byKey
	stream.Retention = time.Hour
	l := newLab(t)
	w := keeper(l, stream)
	m := own("a")[0]
	m.Accepted = l.clock()
	w.issue(m)
	w.process(m)
	l.pass(time.Hour)
	same(t, "when the entry is forgotten", w.process(m), []string{"rejected expired"})
	_, _, err := w.Issue(t.Context(), own("b")[0])
	if err != nil {
		t.Fatal(err)
	}
	late := own("b")[0]
	late.Accepted = l.clock().Add(-record.IssuedRetention)
	same(t, "when the group may be forgotten", w.process(late), []string{"rejected expired"})
}
