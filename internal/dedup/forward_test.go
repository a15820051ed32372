package dedup_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

func TestAMessageIsForwardedAsItCameUnderItsIdentity(t *testing.T) {
	a := &record.Attempt{}
	m := record.Message{
		Principal: "alice", Stream: "orders", Group: "g", Source: "s", Epoch: 2, Sequence: 3, ContentType: "text/plain",
		Headers: map[string]string{"a": "b"}, Body: []byte("x"),
	}
	if err := dedup.ForwardTo([]string{"shop", "ledger"})(t.Context(), a, m); err != nil {
		t.Fatal(err)
	}
	want := []record.Effect{{
		To: []string{"shop", "ledger"}, ID: "s/2/3", Source: "s", Epoch: 2, Sequence: 3, ContentType: "text/plain",
		Headers: map[string]string{"a": "b"}, Body: []byte("x"),
	}}
	if diff := cmp.Diff(want, a.Effects()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestAStreamWithoutDestinationsForwardsNothing(t *testing.T) {
	a := &record.Attempt{}
	if err := dedup.ForwardTo(nil)(t.Context(), a, record.Message{Stream: "orders", ID: "1"}); err != nil || len(a.Effects()) != 0 {
		t.Errorf("%v, %v", a.Effects(), err)
	}
}
