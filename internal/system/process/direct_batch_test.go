package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

func TestTheMessagesOfADirectBatchHaveTheResultsOfDirectOnes(t *testing.T) {
	failed := record.Outcome{Err: &record.HandlerError{Err: errors.New("no")}}
	s := &stub{outcomes: map[string][]record.Outcome{
		"failed":   {failed},
		"behind":   {{Err: record.ErrBlocked}},
		"late":     {{Err: fmt.Errorf("run handler: %w", context.DeadlineExceeded)}},
		"cut":      {{Err: &record.HandlerError{Err: context.DeadlineExceeded}}},
		"rejected": {{Kind: record.Rejected, Reason: record.ReasonHandler}},
		"reused":   {{Kind: record.Rejected, Reason: record.ReasonKeyReuse}},
	}}
	h := New(s, decode, s.later, Options{Retry: func(string) record.RetryPolicy { return policy }, Random: func(int64) int64 { return 0 }, Now: func() time.Time { return noon }})
	var messages []record.Message
	for _, id := range []string{"done", "failed", "behind", "late", "cut", "rejected", "reused"} {
		messages = append(messages, record.Message{Stream: "orders", ID: id})
	}
	var got []string
	for i, r := range h.DirectAll(t.Context(), time.Time{}, record.Stream{Name: "orders", Admission: record.ByKey}, messages) {
		got = append(got, fmt.Sprint(messages[i].ID, " ", r.Outcome.Kind, " untried ", r.Untried, " pause ", r.Pause > 0, " try ", messages[i].Try))
	}
	want := `done processed untried false pause false try 1
failed retry untried false pause true try 1
behind retry untried true pause false try 1
late retry untried true pause false try 1
cut retry untried false pause true try 1
rejected rejected untried false pause false try 1
reused rejected untried false pause false try 1`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("results:\n%s", text)
	}
	if text := strings.Join(s.calls, "\n"); strings.Contains(text, "reused:") || !strings.Contains(text, "rejected:") {
		t.Errorf("dead letters:\n%s", text)
	}
}

func TestARejectedMessageOfADirectBatchIsTriedAgainIfItIsNoDeadLetter(t *testing.T) {
	s := &stub{outcomes: map[string][]record.Outcome{"1": {{Kind: record.Rejected, Reason: record.ReasonHandler}}}, refuseErr: errors.New("away")}
	h := New(s, decode, s.later, Options{})
	if r := h.DirectAll(t.Context(), time.Time{}, record.Stream{Admission: record.ByKey}, []record.Message{{Stream: "orders", ID: "1"}})[0]; r.Outcome.Settled() || r.Pause == 0 {
		t.Errorf("%+v", r)
	}
}
