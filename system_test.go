package once_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

type counter struct{ N int }

func count(_ context.Context, a *once.Attempt[counter], _ once.Message) error {
	a.State.N++
	a.Reply(http.StatusOK, once.JSON(a.State.N))
	return nil
}

func hit(id string) once.Message { return once.Message{Stream: "hits", ID: id, Group: "g"} }

func TestStateStaysWithItsGroup(t *testing.T) {
	sys := oncetest.New()
	once.Handle(sys.System, "hits", count)
	other := hit("3")
	other.Group = "h"
	var got []string
	for _, o := range sys.Process(t.Context(), hit("1"), hit("2"), hit("1"), other) {
		got = append(got, o.Kind.String()+" "+string(o.Reply.Body))
	}
	if diff := cmp.Diff([]string{"processed 1", "processed 2", "duplicate 1", "processed 1"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAFailedAttemptLeavesNothing(t *testing.T) {
	for name, failing := range map[string]once.Handler[counter]{
		"an error": func(_ context.Context, a *once.Attempt[counter], _ once.Message) error {
			a.State.N = 7
			a.Send("out", once.Text("lost"))
			a.Blob("b", []byte("lost"))
			return errors.New("not now")
		},
		"a panic": func(_ context.Context, a *once.Attempt[counter], _ once.Message) error {
			a.State.N = 7
			a.Send("out", once.Text("lost"))
			panic("boom")
		},
		"a destination that is not declared": func(_ context.Context, a *once.Attempt[counter], _ once.Message) error {
			a.Send("out", once.Text("lost"))
			a.Send("elsewhere", once.Text("lost"))
			return nil
		},
		"a body that can't be encoded": func(_ context.Context, a *once.Attempt[counter], _ once.Message) error {
			a.Send("out", once.JSON(math.NaN()))
			return nil
		},
		"a body that is too large": func(_ context.Context, a *once.Attempt[counter], _ once.Message) error {
			a.Send("out", once.Bytes("", make([]byte, once.MaxBody+1)))
			return nil
		},
		"a status that is none": func(_ context.Context, a *once.Attempt[counter], _ once.Message) error {
			a.Reply(99, once.Body{})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			sys := oncetest.New("out")
			fail := true
			sys.Declare("hits", once.StreamConfig{Destinations: []string{"out"}})
			once.Handle(sys.System, "hits", func(ctx context.Context, a *once.Attempt[counter], m once.Message) error {
				if fail {
					return failing(ctx, a, m)
				}
				return count(ctx, a, m)
			})
			if o := sys.Call(t.Context(), hit("1")); o.Kind != once.Retry || o.Err == nil {
				t.Errorf("got %+v, want retry", o)
			}
			fail = false
			if o := sys.Call(t.Context(), hit("1")); o.Kind != once.Processed || string(o.Reply.Body) != "1" {
				t.Errorf("got %+v, want a first count", o)
			}
			if len(sys.Sent("out")) != 0 || sys.Blob("b") != nil {
				t.Errorf("effects of a failed attempt are visible: %v", sys.Sent("out"))
			}
		})
	}
}

func TestEffectsAppearWithTheCommit(t *testing.T) {
	sys := oncetest.New("out")
	once.Handle(sys.System, "hits", func(_ context.Context, a *once.Attempt[counter], _ once.Message) error {
		a.Send("out", once.Bytes("text/csv", []byte("a,b")).WithHeader("n", "1"))
		a.SendTo("out", "other", once.Text("x"))
		a.Blob("report", []byte("whole"))
		return nil
	})
	sys.Process(t.Context(), hit("1"), hit("1"))
	want := []oncetest.Effect{
		{Identity: "hits/g/1", Group: "g", ContentType: "text/csv", Headers: map[string]string{"n": "1"}, Body: "a,b"},
		{Identity: "hits/g/2", Group: "other", ContentType: "text/plain; charset=utf-8", Body: "x"},
	}
	if diff := cmp.Diff(want, sys.Sent("out")); diff != "" {
		t.Error(diff)
	}
	if got := string(sys.Blob("report")); got != "whole" {
		t.Errorf("blob is %q", got)
	}
}

func TestADelayedEffectCannotWaitForOthersToo(t *testing.T) {
	sys := oncetest.New("out")
	once.Handle(sys.System, "hits", func(_ context.Context, a *once.Attempt[counter], m once.Message) error {
		var delay time.Duration
		if m.ID == "2" {
			delay = time.Hour
		}
		a.SendAfter("out", delay, once.Text("x").WithDependsOn(map[string]uint64{"meter": 1}))
		return nil
	})
	if o := sys.Call(t.Context(), hit("1")); o.Kind != once.Processed || len(sys.Sent("out")) != 1 {
		t.Errorf("without a delay: %+v", o)
	}
	if o := sys.Call(t.Context(), hit("2")); o.Kind != once.Retry || len(sys.Sent("out")) != 1 || !strings.Contains(o.Err.Error(), "a delayed message can't depend on others") {
		t.Errorf("with a delay: %+v", o)
	}
}

func TestARejectedMessageHasItsReason(t *testing.T) {
	sys := oncetest.New()
	cause := errors.New("cause")
	once.Handle(sys.System, "hits", func(context.Context, *once.Attempt[once.Stateless], once.Message) error {
		err := once.Reject("not a hit", cause)
		if !errors.Is(err, cause) {
			t.Error("the cause is lost")
		}
		return err
	})
	o := sys.Call(t.Context(), hit("1"))
	if o.Kind != once.Rejected || o.Reason != "rejected" || o.Detail != "not a hit" || !o.Settled() {
		t.Errorf("got %+v", o)
	}
}

func TestAHandlerGetsIdentityAndGroupUnchanged(t *testing.T) {
	sys := oncetest.New()
	var got once.Message
	sys.Declare("hits", once.StreamConfig{Admission: once.BySequence})
	once.Handle(sys.System, "hits", func(_ context.Context, _ *once.Attempt[once.Stateless], m once.Message) error {
		got = m
		return nil
	})
	sys.Call(t.Context(), once.Message{Stream: "hits", Source: "meter", Sequence: 1})
	if got.ID != "meter/0/1" || got.Group != "meter" {
		t.Errorf("got %+v", got)
	}
}

func TestASequencedMessageIsHeldForItsPredecessor(t *testing.T) {
	sys := oncetest.New("out")
	sys.Declare("hits", once.StreamConfig{Admission: once.BySequence, Destinations: []string{"out"}})
	var kinds []once.Kind
	for _, n := range []uint64{2, 1, 2} {
		o := sys.Call(t.Context(), once.Message{Stream: "hits", Source: "s", Sequence: n, Body: []byte{'0' + byte(n)}})
		kinds = append(kinds, o.Kind)
	}
	if diff := cmp.Diff([]once.Kind{once.Held, once.Processed, once.Duplicate}, kinds); diff != "" {
		t.Error(diff)
	}
	var bodies []string
	for _, e := range sys.Sent("out") {
		bodies = append(bodies, e.Body)
	}
	if diff := cmp.Diff([]string{"1", "2"}, bodies); diff != "" {
		t.Errorf("forwarded:\n%s", diff)
	}
}

// afterState runs a handler that leaves a state, and then a second handler on the same group.
func afterState[A, B any](t *testing.T, leave A, then once.Handler[B]) (first, second once.Outcome) {
	t.Helper()
	sys := oncetest.New()
	once.Handle(sys.System, "old", func(_ context.Context, a *once.Attempt[A], _ once.Message) error {
		a.State = leave
		return nil
	})
	first = sys.Call(t.Context(), once.Message{Stream: "old", ID: "1", Group: "g"})
	next := sys.Restart()
	once.Handle(next.System, "old", then)
	return first, next.Call(t.Context(), once.Message{Stream: "old", ID: "2", Group: "g"})
}

func TestAStateThatTheTypeCannotHoldIsNeverZero(t *testing.T) {
	ran := false
	for name, run := range map[string]func() (once.Outcome, once.Outcome){
		"another type": func() (once.Outcome, once.Outcome) {
			return afterState(t, "text", func(context.Context, *once.Attempt[counter], once.Message) error { ran = true; return nil })
		},
		"an unknown field in an element of an array": func() (once.Outcome, once.Outcome) {
			return afterState(t, []struct{ N, M int }{{3, 4}}, func(context.Context, *once.Attempt[[]counter], once.Message) error { ran = true; return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := run()
			if first.Kind != once.Processed {
				t.Fatalf("got %+v", first)
			}
			if second.Kind != once.Retry || !strings.Contains(second.Err.Error(), "old#cd0aa9") {
				t.Errorf("got %+v, want an error that names the stream and a hash of the group", second)
			}
			if ran {
				t.Error("the handler ran")
			}
		})
	}
}

func TestAStateMayGainFields(t *testing.T) {
	_, second := afterState(t, counter{3}, func(_ context.Context, a *once.Attempt[struct{ N, M int }], _ once.Message) error {
		a.Reply(200, once.JSON(a.State.N))
		return nil
	})
	if second.Kind != once.Processed || string(second.Reply.Body) != "3" {
		t.Errorf("got %+v", second)
	}
}

func TestRegistrationEndsWhenTheSystemStarts(t *testing.T) {
	sys := oncetest.New()
	once.Handle(sys.System, "hits", count)
	if err := sys.Start(); err != nil {
		t.Fatal(err)
	}
	wantPanic(t, "has started", func() { once.Handle(sys.System, "more", count) })
	wantPanic(t, "has started", func() { sys.Declare("more", once.StreamConfig{}) })
}

func TestMistakesInRegistrationPanic(t *testing.T) {
	sys := oncetest.New()
	once.Handle(sys.System, "hits", count)
	sys.Declare("hits", once.StreamConfig{})
	wantPanic(t, "one handler", func() { once.Handle(sys.System, "hits", count) })
	wantPanic(t, "one handler", func() { once.Handle[counter](sys.System, "none", nil) })
	wantPanic(t, "declared twice", func() { sys.Declare("hits", once.StreamConfig{}) })
	wantPanic(t, "stream must be", func() { once.Handle(sys.System, "no/name", count) })
	for field, c := range map[string]once.StreamConfig{
		"Admission":   {Admission: "magic"},
		"Order":       {Order: "random"},
		"Gap":         {Gap: "jump"},
		"GapAfter":    {Gap: once.GapSkip},
		"Retention":   {Retention: -1},
		"HeldCount":   {HeldCount: -1},
		"Timeout":     {Timeout: 15*time.Minute + 1},
		"Concurrency": {Concurrency: 10_001},
	} {
		wantPanic(t, field, func() { sys.Declare("bad", c) })
	}
	for _, c := range []once.StreamConfig{
		{GroupRetention: -1}, {StateRetention: -1}, {GapAfter: -1}, {Retry: once.RetryPolicy{First: -1}}, {Retry: once.RetryPolicy{Max: -1}}, {Retry: once.RetryPolicy{For: -1}}, {HeldBytes: -1},
	} {
		wantPanic(t, "must not be negative", func() { sys.Declare("bad", c) })
	}
	const day = 24 * time.Hour
	for _, c := range []once.StreamConfig{
		{StateRetention: 29 * day}, {StateRetention: 31 * day, Retention: 32 * day}, {StateRetention: 31 * day, LogRetention: 32 * day}, {StateRetention: 1 * day, GroupRetention: 2 * day},
	} {
		wantPanic(t, "StateRetention must be at least", func() { sys.Declare("bad", c) })
	}
	sys.Declare("brief", once.StreamConfig{StateRetention: day, GroupRetention: day})
	wantPanic(t, "at most Max", func() { sys.Declare("bad", once.StreamConfig{Retry: once.RetryPolicy{First: 2, Max: 1}}) })
	wantPanic(t, "at most 11h", func() { sys.Declare("bad", once.StreamConfig{Retry: once.RetryPolicy{Max: 12 * time.Hour}}) })
	wantPanic(t, "at most 11h", func() { sys.Declare("bad", once.StreamConfig{Retry: once.RetryPolicy{First: 12 * time.Hour}}) })
	wantPanic(t, "at most 312h", func() { sys.Declare("bad", once.StreamConfig{Retry: once.RetryPolicy{For: 14 * 24 * time.Hour}}) })
	for _, c := range []once.StreamConfig{{Timeout: -1}, {Timeout: 99 * time.Millisecond}} {
		wantPanic(t, "Timeout must be between 100ms and 15m0s", func() { sys.Declare("bad", c) })
	}
	wantPanic(t, "Concurrency must be between 1 and 10000", func() { sys.Declare("bad", once.StreamConfig{Concurrency: -1}) })
	sys.Declare("bounded", once.StreamConfig{Timeout: 15 * time.Minute, Concurrency: 10_000})
	sys.Declare("even", once.StreamConfig{Retry: once.RetryPolicy{First: 1, Max: 1}})
}

func TestASystemDoesNotStartWithAnUnknownDestination(t *testing.T) {
	sys := oncetest.New("out")
	sys.Declare("hits", once.StreamConfig{Destinations: []string{"nowhere"}})
	err := sys.Start()
	if err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Fatalf("got %v", err)
	}
	if o := sys.Call(t.Context(), hit("1")); o.Kind != once.Retry || !errors.Is(o.Err, errors.Unwrap(err)) {
		t.Errorf("call got %+v", o)
	}
	if o := sys.Process(t.Context(), hit("1"), hit("2")); len(o) != 2 || o[1].Kind != once.Retry || o[1].Err == nil {
		t.Errorf("process got %+v", o)
	}
	if sys.Run(t.Context()) == nil {
		t.Error("run went on")
	}
}

func wantPanic(t *testing.T, with string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if p, _ := recover().(string); !strings.Contains(p, with) {
			t.Errorf("panic is %q, want one with %q", p, with)
		}
	}()
	f()
}

func TestAHandlerSeesTheWholeMessage(t *testing.T) {
	sent := once.Message{
		Principal: "alice", Stream: "hits", ID: "m", Group: "g", Source: "till", Epoch: 2, Sequence: 1, DependsOn: map[string]uint64{"other": 7},
		ContentType: "text/plain", Headers: map[string]string{"X-A": "1"}, Body: []byte("x"),
	}
	sys := oncetest.New()
	var got once.Message
	once.Handle(sys.System, "hits", func(_ context.Context, a *once.Attempt[counter], m once.Message) error {
		got = m
		a.Reply(http.StatusOK, once.Text("fine").WithHeader("X-Rows", "1"))
		return nil
	})
	o := sys.Process(t.Context(), sent)[0]
	if o.Kind != once.Processed {
		t.Fatalf("%+v", o)
	}
	sent.Try = 1
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}
	if got := o.Reply.Header.Get("X-Rows"); got != "1" {
		t.Errorf("reply with headers %v", o.Reply.Header)
	}
}
