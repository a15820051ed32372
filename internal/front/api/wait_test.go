package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

func TestAWaitingCallerGetsTheHandlersReply(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		body       string
		wantStatus int
		wantBody   string
		headers    []string
	}{
		{"reply", 409, "not enough money\x00", []string{"Content-Type: text/plain", "X-Why: a | b"}},
		{"binary", 201, "\xff\x00", []string{"Content-Type: "}},
		{"sneaky", 200, "whole", []string{"Connection: ", "Content-Length: 5"}},
		{"nothing", 200, `{"id":"nothing","stream":"orders","group":"nothing","status":"done"}` + "\n", []string{"Content-Type: application/json"}},
	} {
		first := w.send("POST", orders, c.body, "Idempotency-Key: "+c.body, "Prefer: wait=10")
		want(t, first, c.wantStatus, c.wantBody, append(c.headers, "Preference-Applied: wait=10", "Idempotent-Replayed: false")...)
		again := w.send("POST", orders, c.body, "Idempotency-Key: "+c.body, "Prefer: wait=10")
		want(t, again, c.wantStatus, c.wantBody, append(c.headers, "Preference-Applied: wait=10", "Idempotent-Replayed: true")...)
	}
	if date := w.send("POST", orders, "sneaky", "Idempotency-Key: sneaky", "Prefer: wait=10").header.Get("Date"); date == "never" {
		t.Error("the handler set Date")
	}
}

func TestAWaitingCallerReceivesTheRejection(t *testing.T) {
	w := newWorld(t)
	got := w.send("POST", orders, "refuse", "Idempotency-Key: a", "Prefer: wait=10")
	wantProblem(t, got, problem.Rejected)
}

func TestARefusedMessageIsRefusedAgainWithoutTheHandler(t *testing.T) {
	w := newWorld(t)
	want(t, w.send("POST", orders, "refuse", "Idempotency-Key: a"), 202, `{"id":"a","stream":"orders","group":"a","status":"accepted"}`+"\n")
	w.settled()
	want(t, w.send("GET", orders+"/a", ""), 200, `{"id":"a","stream":"orders","group":"a","status":"rejected","reason":"rejected","detail":"not a transfer"}`+"\n")
	for applied, header := range map[string][]string{"wait=10": {"Prefer: wait=10"}, "": nil} { // it gets one answer
		got := w.send("POST", orders, "refuse", append(header, "Idempotency-Key: a")...)
		wantProblem(t, got, problem.Rejected)
		if !strings.Contains(got.body, "not a transfer") || got.header.Get("Idempotent-Replayed") != "true" || got.header.Get("Preference-Applied") != applied {
			t.Errorf("%s %s", got.header, got.body)
		}
	}
	wantProblem(t, w.send("POST", orders, "reply", "Idempotency-Key: a", "Prefer: wait=10"), problem.KeyReuse)
	if n := w.queue.taken.Load(); n != 1 {
		t.Errorf("enqueued %d times", n)
	}
}

func TestANumberedCallerCanWait(t *testing.T) {
	w := newWorld(t)
	want(t, w.send("POST", chat, "reply", "Once-Source: alice", "Once-Sequence: 1", "Prefer: wait=10"), 409, "not enough money\x00")
	want(t, w.send("POST", chat, "x", "Once-Source: alice", "Once-Sequence: 2", "Prefer: wait=10"), 200,
		`{"id":"alice/0/2","stream":"chat","group":"alice","status":"done"}`+"\n")
}

func TestANumberedMessageIsNotAnsweredWithTheReplyOfOtherContent(t *testing.T) {
	w := newWorld(t)
	for source, c := range map[string]struct {
		body   string
		status int // of the reply
	}{"alice": {"send and reply", 201}, "bob": {"send", 200}} {
		number := []string{"Once-Source: " + source, "Once-Sequence: 1", "Prefer: wait=10"}
		w.send("POST", chat, c.body, number[:2]...)
		w.settled() // and to be published
		m := w.queue.message()
		if state, err := w.engine.Status(t.Context(), m); err != nil || state.Status != admission.StatusCommitted || state.OfOther(&m) {
			t.Errorf("%s: got %+v, %v", c.body, state, err)
		}
		wantProblem(t, w.send("POST", chat, "another", number...), problem.KeyReuse)
		if err := w.engine.Publish(t.Context(), []record.GroupKey{{Stream: "chat", Group: source}})[0]; err != nil {
			t.Fatal(err)
		}
		if got := w.send("POST", chat, c.body, number...); got.status != c.status {
			t.Errorf("%s, published: got %d %s", c.body, got.status, got.body)
		}
		again := w.send("POST", chat, "another", number...)
		if c.body == "send" { // no record says whether it was sent, so the answer does not say so either
			want(t, again, 200, `{"id":"bob/0/1","stream":"chat","group":"bob","status":"done"}`+"\n")
			continue
		}
		wantProblem(t, again, problem.KeyReuse)
		want(t, w.send("GET", chat+"/alice%2F0%2F1", ""), 200, `{"id":"alice/0/1","stream":"chat","group":"alice","status":"done","reply":{"status":201}}`+"\n")
	}
}

func TestACallerWhoseWaitTimesOutGets202(t *testing.T) {
	w := newWorld(t, func(_ *world, o *api.Options) {
		o.Await = func(context.Context, record.Message) (admission.State, error) {
			return admission.State{}, context.DeadlineExceeded
		}
	})
	want(t, w.send("POST", orders, "x", "Idempotency-Key: a", "Prefer: wait=1"), 202,
		`{"id":"a","stream":"orders","group":"a","status":"accepted"}`+"\n", "Location: "+orders+"/a", "Preference-Applied: wait=1")
}

func TestAFaultWhileWaitingLeavesTheMessageAccepted(t *testing.T) {
	w := newWorld(t, func(_ *world, o *api.Options) {
		o.Await = func(context.Context, record.Message) (admission.State, error) { return admission.State{}, errAway }
	})
	got := w.send("POST", orders, "x", "Idempotency-Key: a", "Prefer: wait=10")
	if got.status != 202 || w.queue.taken.Load() != 1 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestAReplyOfNoStatusIsAnInternalError(t *testing.T) {
	w := newWorld(t)
	wantProblem(t, w.send("POST", orders, "nonsense", "Idempotency-Key: a", "Prefer: wait=10"), problem.Internal)
}

func TestPreferIsParsedByTheStandard(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  int
	}{
		{nil, 0},
		{[]string{"wait=10"}, 10},
		{[]string{"respond-async, WAIT = 10; x=y"}, 10},
		{[]string{"respond-async", "wait=10"}, 10},
		{[]string{"wait=3, wait=10"}, 3},
		{[]string{`wait="7"`}, 7},
		{[]string{`note="wait=5, \", wait=6", wait=8`}, 8},
		{[]string{`note="wait=5`}, 0},
		{[]string{"wait=600"}, 60},
		{[]string{"wait=0"}, 0},
		{[]string{"wait=-1"}, 0},
		{[]string{"wait=ten"}, 0},
		{[]string{"wait"}, 0},
		{[]string{"waiting=10"}, 0},
		{[]string{"wait=99999999999999999999"}, 0},
	} {
		if got := api.PreferredWait(http.Header{"Prefer": c.lines}); got != c.want {
			t.Errorf("%q: got %d, want %d", c.lines, got, c.want)
		}
	}
}

func TestWaitingEndsBeforeTheRequestsDeadline(t *testing.T) {
	now := time.Now().Add(time.Hour) // so that no context ends in the test
	for left, wanted := range map[time.Duration]string{5 * time.Second: "wait=4", 20 * time.Second: "wait=10", time.Second: ""} {
		w := newWorld(t, func(_ *world, o *api.Options) { o.Now = func() time.Time { return now } })
		inner := w.server.Config.Handler
		w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithDeadline(r.Context(), now.Add(left))
			defer cancel()
			inner.ServeHTTP(rw, r.WithContext(ctx))
		})
		got := w.send("POST", orders, "x", "Idempotency-Key: a", "Prefer: wait=10")
		if applied := got.header.Get("Preference-Applied"); applied != wanted {
			t.Errorf("with %v left: got %q, want %q", left, applied, wanted)
		}
	}
}

// looks answers calls of Status from a list, and repeats the last answer.
type looks struct {
	api.Engine
	states []admission.State
	at     []time.Duration
	start  time.Time
}

func (l *looks) Status(context.Context, record.Message) (admission.State, error) {
	l.at = append(l.at, time.Since(l.start)) // virtual time: the tests of Poll run in bubbles
	next := l.states[0]
	if len(l.states) > 1 {
		l.states = l.states[1:]
	}
	if next.Status == "" {
		return next, errAway
	}
	return next, nil
}

func TestPollPausesLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looks{start: time.Now(), states: []admission.State{{Status: admission.StatusAccepted}}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := api.Poll(l)(ctx, record.Message{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if l.at[0] != 5*time.Millisecond || l.at[1] != 15*time.Millisecond || len(l.at) < 40 || len(l.at) > 46 {
			t.Errorf("%d looks, at %v", len(l.at), l.at)
		}
	})
}

func TestPollContinuesAfterAFaultUntilTheMessageIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, last := range []admission.Status{admission.StatusDone, admission.StatusRejected, admission.StatusDeleted} {
			l := &looks{start: time.Now(), states: []admission.State{{Status: admission.StatusUnknown}, {}, {Status: admission.StatusHeld}, {Status: admission.StatusCommitted}, {Status: last}}}
			state, err := api.Poll(l)(t.Context(), record.Message{})
			if err != nil || state.Status != last || len(l.at) != 5 {
				t.Errorf("got %v, %v after %d looks", state.Status, err, len(l.at))
			}
		}
	})
}

func TestOneWaitingCallerTooManyIsRateLimitedAndNothingIsStored(t *testing.T) {
	waiting, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(_ *world, o *api.Options) {
		o.MaxWaiting = 1
		o.Await = func(context.Context, record.Message) (admission.State, error) {
			waiting <- struct{}{}
			<-release
			return admission.State{}, context.DeadlineExceeded
		}
	})
	w.send("PUT", "/v1/streams/orders/requests/r", "x")
	first := make(chan int, 1)
	go func() { first <- w.send("POST", orders, "", "Idempotency-Key: a", "Prefer: wait=10").status }()
	<-waiting
	wantProblem(t, w.send("POST", orders, "", "Idempotency-Key: b", "Prefer: wait=10"), problem.RateLimited)
	wantProblem(t, w.send("POST", "/v1/streams/orders/requests/r", ""), problem.RateLimited)
	wantProblem(t, w.send("GET", orders+"/b", ""), problem.UnknownMessage)
	if got := w.send("POST", orders, "", "Idempotency-Key: c").status; got != 202 {
		t.Errorf("a caller that does not wait got %d", got)
	}
	close(release)
	if got := <-first; got != 202 {
		t.Errorf("the first caller got %d", got)
	}
	if got := w.send("POST", "/v1/streams/orders/requests/r", "").status; got >= 400 {
		t.Errorf("after the first caller has gone: %d", got)
	}
}
