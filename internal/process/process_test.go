package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup"
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

// A stub is an engine, and a queue for later, that note their calls. Each message's outcomes are listed; the last one stays.
type stub struct {
	outcomes  map[string][]record.Outcome
	calls     []string
	refuseErr error
	deferErr  error
	hang      bool // until the context ends, and then fail
	left      map[string]time.Duration
}

func (s *stub) note(ctx context.Context, what string, ids []string) {
	s.calls = append(s.calls, strings.Join(append([]string{what}, ids...), " "))
	if deadline, ok := ctx.Deadline(); ok && s.left != nil {
		s.left[what] = time.Until(deadline)
	}
}

func ids(messages []record.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.ID)
	}
	return out
}

func (s *stub) Process(ctx context.Context, messages []record.Message) []record.Outcome {
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

func decode(m events.SQSMessage) (record.Message, error) {
	return record.Message{Stream: "orders", ID: m.MessageId, Body: []byte(m.Body)}, nil
}

// deliveries makes an event of "id group receives" of a queue.
func deliveries(queue string, texts ...string) events.SQSEvent {
	var e events.SQSEvent
	for _, text := range texts {
		words := strings.Fields(text)
		e.Records = append(e.Records, events.SQSMessage{
			MessageId: words[0], EventSourceARN: "arn:aws:sqs:eu-central-1:123456789012:" + queue,
			Attributes: map[string]string{"MessageGroupId": words[1], "ApproximateReceiveCount": words[2]},
		})
	}
	return e
}

func (s *stub) handle(t *testing.T, e events.SQSEvent) string {
	t.Helper()
	return s.handleWithin(t.Context(), t, e)
}

func (s *stub) handleWithin(ctx context.Context, t *testing.T, e events.SQSEvent) string {
	t.Helper()
	response, err := New(s, decode, s.later, Options{MaxReceives: 3}).Handle(ctx, e)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range response.BatchItemFailures {
		out = append(out, f.ItemIdentifier)
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
		want := map[string]time.Duration{"process": time.Minute - DeadlineMargin, "refuse": DeadlineMargin, "defer": DeadlineMargin}
		if diff := cmp.Diff(want, s.left); diff != "" {
			t.Errorf("time left (-want +got):\n%s", diff)
		}
	})
}

func TestBehindAFailureNothingIsRefusedOrDeferred(t *testing.T) {
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
	s.want(t, "process a b c d e", "process d", "process d", "refuse b:rejected d:attempts e:rejected", "defer c")
}

func TestWhatHasMovedToAnotherQueueIsNotGivenBackToThisOne(t *testing.T) {
	s := &stub{outcomes: map[string][]record.Outcome{"a": {tooFar}, "b": {rejected}}, deferErr: errAway}
	if got := s.handle(t, deliveries("ingress.fifo", "a g 1", "b g 1", "c g 1")); got != "a c" {
		t.Errorf("failed %q", got)
	}
	s.want(t, "process a b c", "refuse b:rejected", "defer a")
}

func TestWhatDoesNotReachTheDeadLetterQueueStopsItsGroup(t *testing.T) {
	s := &stub{outcomes: map[string][]record.Outcome{"a": {rejected}, "b": {tooFar}}, refuseErr: errAway}
	if got := s.handle(t, deliveries("ingress.fifo", "a g 1", "b g 1", "c h 1")); got != "a b" {
		t.Errorf("failed %q", got)
	}
	s.want(t, "process a b c", "refuse a:rejected")
}

func TestAMessageIsRefusedOnlyAfterItsHandlerHasFailedOften(t *testing.T) {
	for _, c := range []struct {
		name     string
		receives int
		outcomes []record.Outcome
		failed   string
		calls    []string
	}{
		{"deliveries are left", 2, []record.Outcome{failed}, "a", []string{"process a"}},
		{"its deliveries were another's failures, and it fails", 7, []record.Outcome{failed}, "", []string{"process a", "process a", "process a", "refuse a:attempts"}},
		{"its deliveries were another's failures, and it succeeds", 7, []record.Outcome{failed, failed, processed}, "", []string{"process a", "process a", "process a"}},
		{"it was not run", 7, []record.Outcome{away}, "a", []string{"process a"}},
		{"it was not run again", 7, []record.Outcome{failed, away}, "a", []string{"process a", "process a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &stub{outcomes: map[string][]record.Outcome{"a": c.outcomes}}
			if got := s.handle(t, deliveries("ingress.fifo", "a g "+strconv.Itoa(c.receives))); got != c.failed {
				t.Errorf("failed %q", got)
			}
			s.want(t, c.calls...)
		})
	}
}

func TestWhatCanNotBeReadIsDeadLetteredWhereItIsTheMessagesFault(t *testing.T) {
	s := &stub{}
	unreadable := func(m events.SQSMessage) (record.Message, error) {
		if m.MessageId == "a" {
			return record.Message{ID: "a"}, &record.InvalidError{Field: "stream", Rule: "must be known"}
		}
		return record.Message{ID: "b"}, errAway
	}
	response, err := New(s, unreadable, s.later, Options{}).Handle(t.Context(), deliveries("ingress", "a g 1", "b g 1"))
	if err != nil || len(response.BatchItemFailures) != 1 || response.BatchItemFailures[0].ItemIdentifier != "b" {
		t.Errorf("%+v, %v", response, err)
	}
	s.want(t, "refuse a:invalid")
}

func TestAnAnswerWithoutFailuresHasAnEmptyList(t *testing.T) {
	response, err := New(&stub{}, nil, nil, Options{}).Handle(t.Context(), events.SQSEvent{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(response); err != nil || string(b) != `{"batchItemFailures":[]}` {
		t.Errorf("answered %s, %v", b, err)
	}
}
