package admission_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

func TestRefuseTriggersEachGroupBeforeTheDeadLetters(t *testing.T) {
	refused := []record.Refused{
		{Message: record.Message{Stream: "s", Source: "p", Sequence: 1, Group: "g"}, Reason: record.ReasonAttempts},
		{Message: record.Message{Stream: "s", Source: "p", Sequence: 2, Group: "g"}, Reason: record.ReasonSkipped},
		{Message: record.Message{Stream: "s", Source: "p", Sequence: 3, Group: "h"}, Reason: record.ReasonAttempts},
		{Message: record.Message{Stream: "none", Source: "p", Sequence: 4, Group: "i"}, Reason: record.ReasonInvalid},
		{Message: record.Message{Stream: "s", Source: "p", Sequence: 5, Group: "j"}, Delivery: &record.Delivery{}, Reason: record.ReasonGone},
	}
	for away, want := range map[string][]string{
		"": {"trigger g in 1m0s", "trigger h in 1m0s", "dead p/0/1", "dead p/0/2", "dead p/0/3", "dead p/0/4", "dead p/0/5"}, "trigger": nil,
	} {
		queues := &recorded{away: away}
		err := newIssuerWith(record.BySequence, memstore.New(clock), queues, slog.DiscardHandler).Refuse(t.Context(), refused)
		if (err != nil) != (away != "") || away != "" && !errors.Is(err, errAway) || !slices.Equal(queues.took, want) {
			t.Errorf("away %q: %q, %v", away, queues.took, err)
		}
	}
}

// halfTriggering sends the first trigger of a call only.
type halfTriggering struct{ record.Queues }

func (halfTriggering) Trigger(_ context.Context, groups []record.GroupKey, _ time.Duration) error {
	errs := make([]error, len(groups))
	for i := 1; i < len(errs); i++ {
		errs[i] = errAway
	}
	return record.Each(errs)
}

func TestNoMessageCountsAsDeadLetteredIfATriggerFails(t *testing.T) {
	refused := []record.Refused{
		{Message: record.Message{Stream: "s", Source: "p", Sequence: 1, Group: "g"}, Reason: record.ReasonAttempts},
		{Message: record.Message{Stream: "s", Source: "p", Sequence: 1, Group: "h"}, Reason: record.ReasonAttempts},
	}
	err := newIssuerWith(record.BySequence, memstore.New(clock), halfTriggering{}, slog.DiscardHandler).Refuse(t.Context(), refused)
	for i, err := range record.ErrorsOf(err, len(refused)) {
		if !errors.Is(err, errAway) {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

func TestRefuseTriggersNothingForMessagesWithoutAGroupRecord(t *testing.T) {
	queues := &recorded{}
	refused := []record.Refused{{Message: record.Message{Stream: "none", ID: "a"}, Reason: record.ReasonInvalid}, {Message: record.Message{Stream: "s", ID: "free"}, Reason: record.ReasonAttempts}}
	if err := newIssuerWith(record.ByKey, memstore.New(clock), queues, slog.DiscardHandler).Refuse(t.Context(), refused); err != nil || len(queues.took) != len(refused) {
		t.Errorf("%q, %v", queues.took, err)
	}
}

func TestRefuseNotesTheReasonsOfTheMessagesThatAreDeadLetters(t *testing.T) {
	store := memstore.New(clock)
	desk := newIssuerWith(record.ByKey, store, &recorded{full: "b"}, slog.DiscardHandler)
	var refused []record.Refused
	for _, id := range []string{"a", "b", "c"} {
		m := record.Message{Stream: "s", ID: id}
		if _, _, err := desk.Issue(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		refused = append(refused, record.Refused{Message: m, Reason: record.ReasonAttempts})
	}
	errs := record.ErrorsOf(desk.Refuse(t.Context(), refused), len(refused))
	for i, r := range refused {
		full := r.Message.ID == "b"
		if noted := kept(t, store, r.Message).Reason != ""; full != (errs[i] != nil) || full == noted {
			t.Errorf("%s: %v, noted %v", r.Message.ID, errs[i], noted)
		}
	}
}

func TestTheTokenOfADeadLetterHasNoInternalError(t *testing.T) {
	for _, reason := range []record.Reason{record.ReasonEnded, record.ReasonAttempts} {
		desk, store := newIssuer(record.ByKey)
		m := record.Message{Stream: "s", ID: "a"}
		if _, _, err := desk.Issue(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if err := desk.Refuse(t.Context(), []record.Refused{{Message: m, Reason: reason, Detail: "connect to 10.0.0.1"}}); err != nil {
			t.Fatal(err)
		}
		if token := kept(t, store, m); token.Reason != reason || strings.Contains(token.Detail, "10.0.0.1") {
			t.Errorf("%s: the token says %q, %q", reason, token.Reason, token.Detail)
		}
	}
}

// A copy of the refused message is still delayed: it needs the token when it is due.
func TestRefuseDoesNotShortenTheTokenOfADelayedCopy(t *testing.T) {
	desk, store := newIssuer(record.ByToken)
	now := record.Message{Stream: "s", ID: "a"}
	delayed := now
	delayed.NotBefore = noon.Add(record.MaxDelay)
	if _, _, err := desk.Issue(t.Context(), delayed); err != nil {
		t.Fatal(err)
	}
	if err := desk.Refuse(t.Context(), []record.Refused{{Message: now, Reason: record.ReasonAttempts}}); err != nil {
		t.Fatal(err)
	}
	token := kept(t, store, now)
	if want := delayed.NotBefore.Add(record.IssuedRetention); token.Reason != record.ReasonAttempts || !token.Expires.Equal(want) {
		t.Errorf("the token has the reason %q and expires at %s, want %s", token.Reason, token.Expires, want)
	}
}
