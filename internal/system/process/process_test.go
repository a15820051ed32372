package process

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

var (
	errAway   = errors.New("store away")
	failed    = record.Outcome{Err: &record.HandlerError{Err: errors.New("boom")}}
	away      = record.Outcome{Err: errAway}
	tooFar    = record.Outcome{Err: fmt.Errorf("hold: %w", dedup.ErrBounds)}
	rejected  = record.Outcome{Kind: record.Rejected, Reason: record.ReasonHandler, Detail: "no"}
	processed = record.Outcome{Kind: record.Processed}
)

// A message of a test was sent an hour ago for each delivery; one that is three hours old is too
// old.
var (
	noon   = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)
	policy = record.RetryPolicy{First: time.Second, Max: time.Minute, For: 3 * time.Hour}
)

// A stub is an engine and a queue for deferred messages that record their calls. Each message has a
// list of outcomes; the last one repeats.
type stub struct {
	outcomes  map[string][]record.Outcome
	calls     []string
	refuseErr error
	deferErr  error
	hang      bool // until the context ends, and then fail
	left      map[string]time.Duration
	until     time.Time
}

func (s *stub) note(ctx context.Context, what string, ids []string) {
	s.calls = append(s.calls, strings.Join(append([]string{what}, ids...), " "))
	if deadline, ok := ctx.Deadline(); ok && s.left != nil {
		s.left[what] = time.Until(deadline) // virtual time: the test with left is in a bubble
	}
}

func ids(messages []record.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.ID)
	}
	return out
}

func (s *stub) Direct(ctx context.Context, _ time.Time, m record.Message) (record.Outcome, bool) {
	return s.ProcessUntil(ctx, time.Time{}, []record.Message{m})[0], true
}

func (s *stub) DirectAll(ctx context.Context, _ time.Time, messages []record.Message) []record.Outcome {
	return s.ProcessUntil(ctx, time.Time{}, messages)
}

func (s *stub) ProcessUntil(ctx context.Context, until time.Time, messages []record.Message) []record.Outcome {
	s.until = until
	s.note(ctx, "process", ids(messages))
	out := make([]record.Outcome, len(messages))
	for i, m := range messages {
		out[i] = processed
		if list := s.outcomes[m.ID]; len(list) > 0 {
			out[i] = list[0]
			if len(list) > 1 {
				s.outcomes[m.ID] = list[1:]
			}
		}
	}
	if s.hang {
		<-ctx.Done()
		out[0] = record.Outcome{Err: &record.HandlerError{Err: ctx.Err()}}
	}
	return out
}

func (s *stub) Refuse(ctx context.Context, refused []record.Refused) error {
	var words []string
	for _, r := range refused {
		words = append(words, r.Message.ID+":"+string(r.Reason))
	}
	s.note(ctx, "refuse", words)
	return errors.Join(s.refuseErr, ctx.Err())
}

func (s *stub) later(ctx context.Context, messages []record.Message) error {
	s.note(ctx, "defer", ids(messages))
	return errors.Join(s.deferErr, ctx.Err())
}

func decode(d *queue.Delivery) (record.Message, error) {
	return record.Message{Stream: "orders", ID: d.ID, Body: []byte(d.Body)}, nil
}

// deliveries returns deliveries of a queue for texts of the form "id group receives".
func deliveries(name string, texts ...string) []queue.Delivery {
	var out []queue.Delivery
	for _, text := range texts {
		words := strings.Fields(text)
		receives, _ := strconv.Atoi(words[2])
		out = append(out, queue.Delivery{Message: queue.Message{Group: words[1]}, Queue: name, ID: words[0], Receives: receives, Sent: noon.Add(-time.Duration(receives) * time.Hour)})
	}
	return out
}

func (s *stub) handle(t *testing.T, batch []queue.Delivery) string {
	t.Helper()
	return s.handleWithin(t.Context(), t, batch)
}

func (s *stub) handleWithin(ctx context.Context, t *testing.T, batch []queue.Delivery) string {
	t.Helper()
	h := New(s, decode, s.later, Options{Retry: func(string) record.RetryPolicy { return policy }, MinTries: 1, Now: func() time.Time { return noon }})
	return retried(batch, h.Handle(ctx, batch))
}

// retried returns the ids of the deliveries to be retried.
func retried(batch []queue.Delivery, dispositions []queue.Disposition) string {
	var out []string
	for i, d := range dispositions {
		if d.Retry {
			out = append(out, batch[i].ID)
		}
	}
	return strings.Join(out, " ")
}

func (s *stub) want(t *testing.T, calls ...string) {
	t.Helper()
	if diff := cmp.Diff(calls, s.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestAHandlerThatHangsUntilTheDeadlineIsDeadLetteredWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{hang: true, left: map[string]time.Duration{}, outcomes: map[string][]record.Outcome{"b": {tooFar}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got := s.handleWithin(ctx, t, deliveries("ingress", "a g 3", "b h 1")); got != "" {
			t.Errorf("failed %q", got)
		}
		s.want(t, "process a b", "refuse a:attempts", "defer b")
		want := map[string]time.Duration{"process": time.Minute - deadlineMargin, "refuse": deadlineMargin, "defer": deadlineMargin}
		if diff := cmp.Diff(want, s.left); diff != "" {
			t.Errorf("time left (-want +got):\n%s", diff)
		}
	})
}

// Where no deadline ends the function, an attempt has its whole time if it starts in the time of the
// batch.
func TestTheTimeOfABatchEndsWhenHandlersStartAndNotWhenTheyRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{left: map[string]time.Duration{}}
		h := New(s, decode, s.later, Options{Starting: 28 * time.Second, Timeout: func(string) time.Duration { return time.Hour }})
		begun := time.Now()
		h.Handle(t.Context(), deliveries("ingress", "a g 1"))
		if want := begun.Add(28 * time.Second); !s.until.Equal(want) || s.left["process"] != 28*time.Second+time.Hour+deadlineMargin {
			t.Errorf("handlers start until %v, and end within %v", s.until, s.left["process"])
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h.Handle(ctx, deliveries("ingress", "b g 1"))
		if !s.until.IsZero() || s.left["process"] != time.Minute-deadlineMargin {
			t.Errorf("in a function handlers start until %v, and end within %v", s.until, s.left["process"])
		}
	})
}

func TestNoMessageBehindAFailureIsRefusedOrDeferred(t *testing.T) {
	outcomes := func() map[string][]record.Outcome {
		return map[string][]record.Outcome{"a": {away}, "b": {rejected}, "c": {tooFar}, "d": {failed}, "e": {rejected}}
	}
	e := []string{"a g 1", "b g 1", "c g 1", "d g 9", "e other 1"}
	s := &stub{outcomes: outcomes()}
	if got := s.handle(t, deliveries("ingress.fifo", e...)); got != "a b c d" {
		t.Errorf("failed %q", got)
	}
	s.want(t, "process a b c d e", "refuse e:rejected")

	s = &stub{outcomes: outcomes()}
	if got := s.handle(t, deliveries("ingress", e...)); got != "a" {
		t.Errorf("a standard queue: failed %q", got)
	}
	s.want(t, "process a b c d e", "refuse b:rejected d:attempts e:rejected", "defer c")
}

func TestAMessageMovedToAnotherQueueIsNotReportedAsFailed(t *testing.T) {
	s := &stub{outcomes: map[string][]record.Outcome{"a": {tooFar}, "b": {rejected}}, deferErr: errAway}
	if got := s.handle(t, deliveries("ingress.fifo", "a g 1", "b g 1", "c g 1")); got != "a c" {
		t.Errorf("failed %q", got)
	}
	s.want(t, "process a b c", "refuse b:rejected", "defer a")
}

func TestAFailedDeadLetterStopsItsGroup(t *testing.T) {
	s := &stub{outcomes: map[string][]record.Outcome{"a": {rejected}, "b": {tooFar}}, refuseErr: errAway}
	if got := s.handle(t, deliveries("ingress.fifo", "a g 1", "b g 1", "c h 1")); got != "a b" {
		t.Errorf("failed %q", got)
	}
	s.want(t, "process a b c", "refuse a:rejected")
}

func TestAMalformedMessageIsDeadLetteredAndAnyOtherDecodeErrorIsRetried(t *testing.T) {
	s := &stub{}
	unreadable := func(d *queue.Delivery) (record.Message, error) {
		if d.ID == "a" {
			return record.Message{ID: "a"}, &record.InvalidError{Field: "stream", Rule: "must be known"}
		}
		return record.Message{ID: "b"}, errAway
	}
	batch := deliveries("ingress", "a g 1", "b g 1")
	if got := retried(batch, New(s, unreadable, s.later, Options{}).Handle(t.Context(), batch)); got != "b" {
		t.Errorf("failed %q", got)
	}
	s.want(t, "refuse a:invalid")
}

func TestAMessageThatTheEngineDidNotReachIsRetried(t *testing.T) {
	s := &stub{outcomes: map[string][]record.Outcome{"b": {{}}}}
	if got := s.handle(t, deliveries("ingress", "a - 1", "b - 1")); got != "b" {
		t.Errorf("retried %q", got)
	}
}

func TestOnlyTheMessagesThatCouldNotBeMovedAreRetried(t *testing.T) {
	rejected := record.Outcome{Kind: record.Rejected, Reason: record.ReasonKeyReuse}
	s := &stub{outcomes: map[string][]record.Outcome{"a": {rejected}, "b": {rejected}, "c": {rejected}}}
	s.refuseErr = fmt.Errorf("dead-letter messages: %w", record.EachError{nil, errors.New("queue is full"), nil})
	if got := s.handle(t, deliveries("ingress", "a g 1", "b g 1", "c g 1")); got != "b" {
		t.Errorf("retried %q", got)
	}
}
