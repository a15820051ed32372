package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/dedup/relay"
	"github.com/effectively-once/once/internal/record"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// A bench is a relay on a store in memory, with the destinations "out", "side" and "next", of which
// "next" is sequenced.
type bench struct {
	t *testing.T
	*relay.Relay
	*memstore.Store
	streams record.Streams

	now   time.Time
	takes time.Duration // of a delivery to out
	calls []string      // handlers, deliveries and marks, in order
	down  string        // a destination that fails
	dead  []record.Refused
	// delayed are the effects that wait, with their times.
	delayed []string
	// lost says when the reply of MarkDone is lost: before it is applied, or after.
	lost string
}

var errDown = errors.New("the destination is down")

func newBench(t *testing.T, change func(s *record.Stream)) *bench {
	t.Helper()
	b := &bench{t: t, Store: memstore.New(func() time.Time { return noon }), now: noon}
	stream := record.Stream{Name: "s", Stateless: true, Handler: b.handle}
	if change != nil {
		change(&stream)
	}
	var err error
	if b.streams, err = record.NewStreams([]record.Stream{stream}); err != nil {
		t.Fatal(err)
	}
	senders := map[string]record.Sender{"out": sender{b, "out"}, "side": sender{b, "side"}, "next": sender{b, "next"}}
	names := 0
	b.Relay = relay.New(relay.Config{
		Streams: b.streams, Sequenced: map[string]bool{"next": true}, Store: b, Queues: b, Now: func() time.Time { return b.now },
		Publisher: outbox.New(outbox.Config{Streams: b.streams, Store: b, Queues: b, Senders: senders, Now: func() time.Time { return noon }, Observe: func(record.Event) {}}),
		NewID:     func() string { names++; return fmt.Sprint("a", names) },
		Observe:   func(e record.Event) { b.calls = append(b.calls, string(e.Name)) },
	})
	return b
}

// handle does what the body says: send to out and side, reply, refuse, fail, or keep state, which a
// stateless handler must not.
func (b *bench) handle(_ context.Context, a *record.Attempt, m record.Message) error {
	b.calls = append(b.calls, "run "+m.ID)
	a.Send(record.Effect{To: []string{"out", "side"}, Body: m.Body})
	switch string(m.Body) {
	case "nothing":
		*a = record.Attempt{ID: a.ID}
	case "reply":
		a.Reply(record.Reply{Status: 200, Body: []byte(m.ID)})
	case "two":
		a.Send(record.Effect{To: []string{"out"}})
	case "later":
		return a.SendAfter(record.Effect{To: []string{"out"}}, time.Hour)
	case "reject":
		return &record.RejectError{Detail: "no"}
	case "fail":
		return errors.New("not now")
	case "state":
		a.State = []byte("x")
	case "blob":
		a.Blob("k", nil)
	case "nowhere":
		a.Send(record.Effect{To: []string{"nowhere"}})
	}
	return nil
}

func (b *bench) MarkDone(ctx context.Context, tokens []record.Token) error {
	if b.lost == "before" {
		return errDown
	}
	b.calls = append(b.calls, fmt.Sprintf("mark %d", len(tokens)))
	if err := b.Store.MarkDone(ctx, tokens); err != nil || b.lost == "" {
		return err
	}
	return errDown
}

func (b *bench) Trigger(context.Context, []record.GroupKey, time.Duration) error {
	b.t.Error("a trigger, of no group")
	return nil
}

func (b *bench) Return(context.Context, []record.Message) error { return errDown }

func (b *bench) DeadLetter(_ context.Context, refused []record.Refused) error {
	b.dead = append(b.dead, refused...)
	return nil
}

func (b *bench) Delay(_ context.Context, delayed []record.Delayed) error {
	for i := range delayed {
		b.delayed = append(b.delayed, delayed[i].Identity()+" at "+delayed[i].NotBefore.Format(time.TimeOnly))
	}
	return nil
}

type sender struct {
	*bench
	name string
}

func (s sender) Send(_ context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	for i, d := range deliveries {
		switch {
		case s.down == s.name:
			errs[i] = errDown
		case s.name == "out" && string(d.Effect.Body) == "gone":
			errs[i] = &record.RefusedError{Reason: record.ReasonGone}
		case s.name == "out":
			s.calls = append(s.calls, "out "+d.Identity) // side is called concurrently
			s.now = s.now.Add(s.takes)
		}
	}
	return errs
}

func (b *bench) arrival(m record.Message) *admission.Arrival {
	b.t.Helper()
	m.Stream = "s"
	a := &admission.Arrival{Message: m}
	if _, err := a.Check(b.streams); err != nil {
		b.t.Fatal(err)
	}
	return a
}

// process runs a batch and returns the outcomes as text, and the calls.
func (b *bench) process(messages ...record.Message) (fates, calls []string) {
	b.t.Helper()
	b.calls = nil
	arrivals := make([]*admission.Arrival, len(messages))
	for i, m := range messages {
		arrivals[i] = b.arrival(m)
	}
	for _, o := range b.Process(b.t.Context(), time.Time{}, arrivals) {
		text := o.Kind.String()
		if o.Reply != nil && o.Kind != record.Rejected {
			text += " with " + string(o.Reply.Body)
		}
		fates = append(fates, text)
	}
	return fates, b.calls
}

func message(id, body string) record.Message { return record.Message{ID: id, Body: []byte(body)} }

// token returns the token of message a.
func (b *bench) token() record.Token {
	b.t.Helper()
	_, tokens, err := b.Load(b.t.Context(), nil, []record.TokenKey{record.NewTokenKey("", "s", "a")})
	if err != nil {
		b.t.Fatal(err)
	}
	return tokens[0]
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestTakesOnlyMessagesThatNeedNoStateOrderNumbersOrLog(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(s *record.Stream)
		message record.Message
		takes   bool
	}{
		{"no group", nil, message("a", ""), true},
		{"a group", nil, record.Message{ID: "a", Group: "g"}, false},
		{"a group that orders nothing", func(s *record.Stream) { s.Unordered = true }, record.Message{ID: "a", Group: "g"}, true},
		{"a handler with state", func(s *record.Stream) { s.Stateless = false }, message("a", ""), false},
		{"a log", func(s *record.Stream) { s.LogRetention = time.Hour }, message("a", ""), false},
		{"a number", func(s *record.Stream) { s.Admission = record.BySequence }, record.Message{Source: "p", Sequence: 1}, false},
		{"a one-time request", nil, record.Message{ID: "a", Route: "POST /"}, false},
		{"a destination that wants numbers", func(s *record.Stream) { s.Events = []string{"out", "next"} }, message("a", ""), false},
		{"destinations that do not", func(s *record.Stream) { s.Events = []string{"out", "side"} }, message("a", ""), true},
	} {
		b := newBench(t, c.change)
		if got := b.Takes(b.streams["s"], b.arrival(c.message)); got != c.takes {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestATokenIsDoneOnlyAfterItsEffectsAreSent(t *testing.T) {
	b := newBench(t, nil)
	fates, calls := b.process(message("a", "reply"), message("b", "two"), message("c", "nothing"))
	same(t, "fates", fates, []string{"processed with a", "processed", "processed"})
	same(t, "calls", calls, []string{"run a", "run b", "run c", "out s/a", "out s/b", "out s/b@@2", "mark 3", "published", "published"})
	same(t, "token", b.token().State, record.Done)
}

func TestATokenExpiresNoEarlierThanWhatADestinationRemembersOfItsEffects(t *testing.T) {
	b := newBench(t, func(s *record.Stream) { s.Retention = time.Minute })
	b.takes = time.Second
	b.process(message("a", ""), message("b", ""))
	if sent := noon.Add(2 * time.Second); b.token().Expires.Before(sent.Add(time.Minute)) {
		t.Errorf("the token expires at %v, a minute after a time before the effects were sent", b.token().Expires)
	}
}

func TestADuplicateGetsTheReplyAndSendsNothing(t *testing.T) {
	b := newBench(t, nil)
	b.process(message("a", "reply"))
	fates, calls := b.process(message("a", "reply"), message("a", "another content"))
	same(t, "fates", fates, []string{"duplicate with a", "rejected"})
	same(t, "calls", calls, nil)
}

func TestAPartlySentMessageIsNotDoneAndIsSentAgainUnderItsIdentity(t *testing.T) {
	b := newBench(t, nil)
	b.down = "side"
	fates, calls := b.process(message("a", "reply"), message("b", "nothing"))
	same(t, "fates", fates, []string{"retry", "processed"})
	same(t, "calls", calls, []string{"run a", "run b", "out s/a", "mark 1"})
	same(t, "token", b.token().State, record.Absent)
	b.down = ""
	fates, calls = b.process(message("a", "reply"))
	same(t, "fates", fates, []string{"processed with a"})
	same(t, "calls", calls, []string{"run a", "out s/a", "mark 1", "published"})
}

func TestARefusedEffectIsDeadLetteredAndSettled(t *testing.T) {
	b := newBench(t, nil)
	fates, _ := b.process(message("a", "gone"))
	same(t, "fates", fates, []string{"processed"})
	same(t, "token", b.token().State, record.Done)
	if len(b.dead) != 1 || b.dead[0].Delivery.Identity != "s/a" || b.dead[0].To != "out" || b.dead[0].Reason != record.ReasonGone {
		t.Errorf("dead letters: %+v", b.dead)
	}
}

func TestARefusedEffectIsOneDeadLetterHoweverOftenItsMessageIsRetried(t *testing.T) {
	b := newBench(t, nil)
	b.down = "side"
	for range 3 {
		fates, _ := b.process(message("a", "gone"))
		same(t, "fates", fates, []string{"retry"})
		same(t, "dead letters", len(b.dead), 0)
	}
	b.down = ""
	fates, _ := b.process(message("a", "gone"))
	same(t, "fates", fates, []string{"processed"})
	same(t, "dead letters", len(b.dead), 1)
}

func TestALostReplyOfMarkDoneSettlesNothing(t *testing.T) {
	for lost, again := range map[string]string{"before": "processed", "after": "duplicate"} {
		b := newBench(t, nil)
		b.lost = lost
		fates, _ := b.process(message("a", ""), message("b", "nothing"))
		same(t, "fates", fates, []string{"retry", "retry"})
		b.lost = ""
		fates, _ = b.process(message("a", ""))
		same(t, "again, where it was lost "+lost, fates, []string{again})
	}
}

func TestAHandlerThatRunsAgainDelaysItsEffectUnderTheSameIdentity(t *testing.T) {
	b := newBench(t, nil)
	b.lost = "before"
	b.process(message("a", "later"))
	b.lost, b.now = "", noon.Add(time.Minute)
	fates, _ := b.process(message("a", "later"))
	same(t, "fates", fates, []string{"processed"})
	same(t, "delayed", b.delayed, []string{"s/a@@2@out at 13:00:00", "s/a@@2@out at 13:01:00"})
}

func TestMessagesOfOneIdentityInABatchShareTheFirstOutcome(t *testing.T) {
	for _, c := range []struct {
		name, first, second string
		want                []string
	}{
		{"processed", "reply", "reply", []string{"processed with a", "duplicate with a"}},
		{"processed, and another content", "reply", "other", []string{"processed with a", "rejected"}},
		{"refused", "reject", "reject", []string{"rejected", "duplicate with no"}},
		{"refused, and another content", "reject", "other", []string{"rejected", "rejected"}},
		{"failed", "fail", "fail", []string{"retry", "retry"}},
	} {
		b := newBench(t, nil)
		fates, calls := b.process(message("a", c.first), message("a", c.second))
		same(t, c.name, fates, c.want)
		same(t, c.name+": runs", slices.Index(calls[1:], "run a"), -1)
	}
}

func TestAFailedHandlerSendsNothingAndBlocksNoOtherMessage(t *testing.T) {
	for body, want := range map[string]string{"reject": "rejected", "fail": "retry", "state": "retry", "blob": "retry", "nowhere": "retry"} {
		b := newBench(t, nil)
		fates, calls := b.process(message("a", body), message("b", "nothing"))
		same(t, body, fates, []string{want, "processed"})
		same(t, body, calls, []string{"run a", "run b", "mark 1"})
		remembered := map[string]record.TokenState{"reject": record.Done}[body]
		same(t, body, b.token().State, remembered)
	}
}

func TestARefusalIsRememberedAfterItsDeadLetter(t *testing.T) {
	b := newBench(t, nil)
	fates, _ := b.process(message("a", "reject"))
	same(t, "first", fates, []string{"rejected"})
	fates, calls := b.process(message("a", "reject"))
	same(t, "again", fates, []string{"duplicate with no"})
	same(t, "calls of the repetition", slices.Index(calls, "run a"), -1)
	if len(b.dead) != 1 || b.dead[0].Reason != record.ReasonHandler || b.dead[0].Detail != "no" {
		t.Errorf("dead letters: %+v", b.dead)
	}
}

func TestATokenThatWasNeverIssuedIsRefusedUnderTokenAdmission(t *testing.T) {
	b := newBench(t, func(s *record.Stream) { s.Admission = record.ByToken })
	fates, calls := b.process(message("a", ""))
	same(t, "fates", fates, []string{"rejected"})
	same(t, "calls", calls, nil)
}

func TestNoHandlerStartsAfterTheDeadline(t *testing.T) {
	b := newBench(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := b.Process(ctx, time.Time{}, []*admission.Arrival{b.arrival(message("a", ""))})[0]; o.Settled() || !errors.Is(o.Err, context.Canceled) {
		t.Errorf("got %+v", o)
	}
	same(t, "calls", b.calls, nil)
}

func TestIdentitiesAreUnique(t *testing.T) {
	b := newBench(t, func(s *record.Stream) { s.Unordered = true })
	_, calls := b.process(
		message("a", "two"), message("a@@2", ""), message("a/1", ""), message("a%2F1", ""),
		record.Message{ID: "a", Principal: "p"}, record.Message{ID: "a@p"}, record.Message{ID: "a", Principal: "p@2"}, record.Message{ID: "g", Group: "a"},
	)
	seen := map[string]bool{}
	for _, call := range calls {
		if len(call) > 4 && call[:4] == "out " {
			if seen[call] {
				t.Errorf("%s is two messages", call)
			}
			seen[call] = true
		}
	}
	same(t, "identities", len(seen), 9)
}
