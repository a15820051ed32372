package admission_test

import (
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return noon }

// newDesk makes a desk of one stream, s, and its store.
func newDesk(how record.Admission) (*admission.Desk, *memstore.Store) {
	store, names := memstore.New(clock), 0
	return admission.New(admission.Config{
		Streams: record.Streams{"s": {Name: "s", Admission: how}}, Store: store, Queues: &desks{}, Now: clock, Log: slog.New(slog.DiscardHandler),
		NewID: func() string { names++; return strconv.Itoa(names) },
	}), store
}

// kept gives the token that a store has of a message.
func kept(t *testing.T, store *memstore.Store, m record.Message) record.Token {
	t.Helper()
	_, tokens, err := store.Load(t.Context(), nil, []record.TokenKey{(&admission.Arrival{Message: m}).Token()})
	if err != nil {
		t.Fatal(err)
	}
	return tokens[0]
}

func TestAMessageWhoseTokenWasIssuedRunsHoweverOldItIs(t *testing.T) {
	a := &admission.Arrival{Message: record.Message{Stream: "s", ID: "a", Accepted: noon.Add(-25 * 24 * time.Hour)}}
	issued := record.Token{Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint()}
	if fate, fresh := admission.Admit(record.Stream{Name: "s"}, a, issued, noon); !fresh {
		t.Errorf("its fate is %+v", fate)
	}
	if fate, fresh := admission.Admit(record.Stream{Name: "s"}, a, record.Token{Key: a.Token()}, noon); fresh || fate.Reason != record.ReasonExpired {
		t.Errorf("without a token its fate is %+v", fate)
	}
}

func TestAnotherContentDoesNotTakeTheReasonOfARefusalAway(t *testing.T) {
	desk, store := newDesk(record.ByKey)
	m := record.Message{Stream: "s", ID: "a", Body: []byte("content")}
	if _, fresh, err := desk.Issue(t.Context(), m); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	if err := desk.Refuse(t.Context(), []record.Refused{{Message: m, Reason: record.ReasonHandler}}); err != nil {
		t.Fatal(err)
	}
	other := m
	other.Body = []byte("another")
	_, _, err := desk.Issue(t.Context(), other)
	if refused, ok := errors.AsType[*record.RefusedError](err); !ok || refused.Reason != record.ReasonKeyReuse {
		t.Errorf("another content: %v", err)
	}
	if token := kept(t, store, m); token.Reason != record.ReasonHandler {
		t.Errorf("the token says %q", token.Reason)
	}
	if _, fresh, err := desk.Issue(t.Context(), m); err != nil || fresh {
		t.Errorf("the same content: fresh %v, %v", fresh, err)
	}
	if token := kept(t, store, m); token.Reason != "" {
		t.Errorf("the token of what was sent again says %q", token.Reason)
	}
}

func TestOneTimeRequestsAloneAreStoredWithTheirTokens(t *testing.T) {
	desk, store := newDesk(record.ByKey)
	for route, stored := range map[string]bool{"": false, "PUT /orders": true} {
		m := record.Message{Stream: "s", ID: "id " + route, Route: route}
		if _, _, err := desk.Issue(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if token := kept(t, store, m); (token.Request != nil) != stored {
			t.Errorf("route %q: stored %v", route, token.Request)
		}
	}
}

func TestTheNumberOfAnotherEpochHasNoStatus(t *testing.T) {
	desk, store := newDesk(record.BySequence)
	m := record.Message{Stream: "s", Source: "p", Epoch: 2, Sequence: 9}
	source := record.Source{Epoch: 2, Next: 5, Held: record.Ranges{{First: 9, Last: 9}}}
	next := record.Group{Key: m.GroupKey(), Version: 1, Sources: map[string]record.Source{m.SourceKey(): source}}
	if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: m.GroupKey()}, Next: next, Attempt: "x"}); err != nil {
		t.Fatal(err)
	}
	for number, want := range map[string]admission.Status{
		"p/2/4": admission.StatusDone, "p/2/5": admission.StatusUnknown, "p/2/9": admission.StatusHeld,
		"p/1/4": admission.StatusUnknown, "p/1/9": admission.StatusUnknown, "p/3/4": admission.StatusUnknown,
	} {
		if got, err := desk.Status(t.Context(), record.Message{Stream: "s", ID: number}); err != nil || got.Status != want {
			t.Errorf("%s is %s, want %s: %v", number, got.Status, want, err)
		}
	}
}
