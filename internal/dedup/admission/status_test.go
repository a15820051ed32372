package admission_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

func TestARequestToANumberedStreamHasTheStatusOfItsToken(t *testing.T) {
	desk, store := newIssuer(record.BySequence)
	hasSource(t, store, record.Source{Next: 5, Skipped: record.Ranges{{First: 0, Last: 3}}})
	for name, m := range map[string]record.Message{
		"by id":                {Stream: "s", ID: "a", Route: "PUT /orders"},
		"with numbers besides": {Stream: "s", ID: "b", Route: "PUT /orders", Source: "p", Sequence: 2},
	} {
		if _, _, err := desk.Issue(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if got, err := desk.Status(t.Context(), m); err != nil || got.Status != admission.StatusAccepted {
			t.Errorf("%s it is %s: %v", name, got.Status, err)
		}
	}
}

func TestStatusPrefersTheGroupInTheToken(t *testing.T) {
	desk, _ := newIssuer(record.ByKey)
	m := record.Message{Stream: "s", ID: "a", Group: "g"}
	if _, _, err := desk.Issue(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m.Group = "other"
	if got, err := desk.Status(t.Context(), m); err != nil || got.Status != admission.StatusAccepted || got.Group != "g" {
		t.Errorf("it is %s in group %q: %v", got.Status, got.Group, err)
	}
}

// A hasty store publishes the pending entries right after the first load.
type hasty struct {
	record.Store
	publish func()
}

func (s *hasty) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	loaded, found, err := s.Store.Load(ctx, groups, tokens)
	if s.publish != nil {
		s.publish()
		s.publish = nil
	}
	return loaded, found, err
}

func TestStatusFindsTheReplyOfANumberThatIsPublishedMeanwhile(t *testing.T) {
	store := memstore.New(clock)
	m := record.Message{Stream: "s", Source: "p", Sequence: 1}
	a := &admission.Arrival{Message: m, ByNumber: true}
	entry := record.Pending{Number: 1, Token: a.Token(), Reply: &record.Reply{Status: 200, Body: []byte("reply")}, Marks: true}
	next := record.Group{Key: m.GroupKey(), Version: 1, Incarnation: 1, Last: 1, Pending: []record.Pending{entry}, Sources: map[string]record.Source{m.SourceKey(): {Next: 2}}}
	if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: m.GroupKey()}, Next: next, Attempt: "x"}); err != nil {
		t.Fatal(err)
	}
	publish := func() {
		if err := store.MarkDone(t.Context(), []record.Token{entry.DoneToken(m.GroupKey(), noon)}); err != nil {
			t.Error(err)
		}
		if err := store.Clear(t.Context(), record.Clear{Group: m.GroupKey(), Incarnation: 1, Numbers: []uint64{1}, Now: noon}); err != nil {
			t.Error(err)
		}
	}
	got, err := newIssuerOn(record.BySequence, &hasty{store, publish}, slog.DiscardHandler).Status(t.Context(), m)
	if err != nil || got.Reply == nil {
		t.Errorf("it is %s with %v: %v", got.Status, got.Reply, err)
	}
}

func TestStatusOfANumberUsesTheGivenGroup(t *testing.T) {
	desk, _ := newIssuer(record.BySequence)
	if got, err := desk.Status(t.Context(), record.Message{Stream: "s", ID: "p/0/1", Group: "g"}); err != nil || got.Group != "g" {
		t.Errorf("it is in group %q: %v", got.Group, err)
	}
}

func TestAForgottenMessageHasStatusUnknown(t *testing.T) {
	desk, store := newIssuer(record.BySequence)
	hasSource(t, store, record.Source{Next: 20, Skipped: record.Ranges{{First: 0, Last: 6}, {First: 11, Last: 12}}})
	for number, want := range map[string]admission.Status{
		"p/0/6": admission.StatusUnknown, "p/0/7": admission.StatusDone, "p/0/12": admission.StatusRejected,
		"p/1/6": admission.StatusUnknown, "p/1/12": admission.StatusUnknown,
	} {
		if got, err := desk.Status(t.Context(), record.Message{Stream: "s", ID: number}); err != nil || got.Status != want {
			t.Errorf("%s is %s, want %s: %v", number, got.Status, want, err)
		}
	}
}

func TestANumberOfAnotherEpochHasStatusUnknown(t *testing.T) {
	desk, store := newIssuer(record.BySequence)
	hasSource(t, store, record.Source{Epoch: 2, Next: 5, Held: record.Ranges{{First: 9, Last: 9}}})
	for number, want := range map[string]admission.Status{
		"p/2/4": admission.StatusDone, "p/2/5": admission.StatusUnknown, "p/2/9": admission.StatusHeld,
		"p/1/4": admission.StatusUnknown, "p/1/9": admission.StatusUnknown, "p/3/4": admission.StatusUnknown,
	} {
		if got, err := desk.Status(t.Context(), record.Message{Stream: "s", ID: number}); err != nil || got.Status != want {
			t.Errorf("%s is %s, want %s: %v", number, got.Status, want, err)
		}
	}
}
