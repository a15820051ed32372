package admission_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

func TestARequestBeingDeletedIsNeitherNewNorDeleted(t *testing.T) {
	a := &admission.Arrival{Message: record.Message{Stream: "s", ID: "a", Route: "POST /"}}
	other := &admission.Arrival{Message: record.Message{Stream: "s", ID: "a", Body: []byte("other")}}
	token := record.Token{Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint(), Reason: record.ReasonDeleted}
	if fate, fresh := admission.Admit(record.Stream{}, a, token, noon); fresh || fate.Kind != record.Retry || fate.Err == nil {
		t.Errorf("being deleted: %+v, fresh %v", fate, fresh)
	}
	if fate, fresh := admission.Admit(record.Stream{}, other, token, noon); fresh || fate.Reason != record.ReasonKeyReuse {
		t.Errorf("another content: %+v, fresh %v", fate, fresh)
	}
	token.State = record.Done
	for _, a := range []*admission.Arrival{a, other} {
		if fate, fresh := admission.Admit(record.Stream{}, a, token, noon); fresh || fate.Reason != record.ReasonDeleted {
			t.Errorf("deleted: %+v, fresh %v", fate, fresh)
		}
	}
}

// A forgetter is a store whose tokens have expired when they are read for the second time.
type forgetter struct{ record.Store }

func (s forgetter) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	if old.State == record.Issued {
		return record.Token{Key: old.Key}, record.ErrConflict
	}
	return s.Store.SwapToken(ctx, old, next)
}

func TestATokenThatExpiresDuringIssueIsAConflict(t *testing.T) {
	desk, store := newIssuer(record.ByToken)
	m := record.Message{Stream: "s", ID: "a"}
	a := admission.Arrival{Message: m}
	old := record.Token{Key: a.Token(), State: record.Issued, Fingerprint: a.Fingerprint(), Owner: "first", Expires: noon.Add(time.Minute)}
	if _, err := store.SwapToken(t.Context(), record.Token{Key: a.Token()}, old); err != nil {
		t.Fatal(err)
	}
	if token, fresh, err := newIssuerOn(record.ByToken, forgetter{store}, slog.DiscardHandler).Issue(t.Context(), m); !errors.Is(err, record.ErrConflict) || fresh {
		t.Errorf("token %+v, fresh %v, %v", token, fresh, err)
	}
	if _, _, err := desk.Issue(t.Context(), m); err != nil {
		t.Error(err)
	}
}
