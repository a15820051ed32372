package record_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func nothing(context.Context, *record.Attempt, record.Message) error { return nil }

func acceptAll(_ context.Context, b *record.Batch) error {
	for range b.Messages {
		b.Accept()
	}
	return nil
}

func TestAStreamHasEitherAHandlerOrABatchHandler(t *testing.T) {
	for _, x := range []struct {
		name string
		s    record.Stream
		ok   bool
	}{
		{"a handler", record.Stream{Name: "s", Handler: nothing}, true},
		{"a batch handler", record.Stream{Name: "s", Batch: acceptAll}, true},
		{"none", record.Stream{Name: "s"}, false},
		{"both", record.Stream{Name: "s", Handler: nothing, Batch: acceptAll}, false},
		{"a batch handler without state", record.Stream{Name: "s", Batch: acceptAll, Stateless: true}, false},
		{"a batch handler of a pool", record.Stream{Name: "s", Batch: acceptAll, Partitions: 1}, false},
		{"a negative batch", record.Stream{Name: "s", Batch: acceptAll, BatchSize: -1}, false},
	} {
		streams, err := record.NewStreams([]record.Stream{x.s})
		if (err == nil) != x.ok {
			t.Errorf("%s: %v, want an error: %v", x.name, err, !x.ok)
		}
		if got := streams["s"].BatchSize; err == nil && x.s.Batch != nil && got != record.DefaultBatchSize {
			t.Errorf("%s: batches of %d messages, want %d", x.name, got, record.DefaultBatchSize)
		}
	}
}

func TestAnAnswerThatCanNotBeCommittedIsAnError(t *testing.T) {
	for _, x := range []struct {
		name, want string
		h          record.BatchHandler
	}{
		{"no answer", "none of 2", func(context.Context, *record.Batch) error { return nil }},
		{"too many answers", "answered 3", func(ctx context.Context, b *record.Batch) error {
			b.Accept()
			return acceptAll(ctx, b)
		}},
		{"a state that is too large", "262145 bytes", func(ctx context.Context, b *record.Batch) error {
			b.State = make([]byte, record.MaxBatchState+1)
			return acceptAll(ctx, b)
		}},
		{"an error", "broken", func(context.Context, *record.Batch) error { return errors.New("broken") }},
		{"a panic", "panic: broken", func(context.Context, *record.Batch) error { panic("broken") }},
	} {
		err := x.h.Run(t.Context(), &record.Batch{Messages: make([]record.Message, 2)})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want an error with %q", x.name, err, x.want)
		}
	}
}

func TestAnAnswerMayLeaveTheLastMessagesOut(t *testing.T) {
	b := &record.Batch{ID: "call", Messages: []record.Message{{ID: "a", Route: "POST /"}, {ID: "b"}, {ID: "c"}}}
	err := record.BatchHandler(func(_ context.Context, b *record.Batch) error {
		b.Accept().Reply(record.Reply{Status: 201})
		b.Reject("no money")
		return nil
	}).Run(t.Context(), b)
	got := b.Answers()
	if err != nil || len(got) != 2 || got[0].Attempt.Answer().Status != 201 || got[1].Reject.Detail != "no money" {
		t.Fatalf("the answers are %+v, %v; want a reply of 201 and the reject", got, err)
	}
	if id := got[0].Attempt.ID; id != "call.1"+record.RequestAttempt {
		t.Errorf("the attempt at a one-time request is named %q, want %q", id, "call.1"+record.RequestAttempt)
	}
}
