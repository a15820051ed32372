package envelope_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/destination/envelope"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

func delivery(e record.Effect) record.Delivery {
	return record.Delivery{Identity: "orders/eve/7", Stream: "orders", Group: "eve", Number: 7, Target: "account-1", Effect: e}
}

func seal(t *testing.T, d record.Delivery) queue.Message {
	t.Helper()
	m, err := envelope.Seal(&d)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAConsumerFindsIdentityGroupAndHeaders(t *testing.T) {
	got := seal(t, delivery(record.Effect{
		ID: "from-outside", ContentType: "application/json", Headers: map[string]string{"type": "paid", "once-group": "forged"}, Body: []byte(`{"a":1}`),
	}))
	want := queue.Message{
		Body: `{"a":1}`, Group: "account-1", DedupID: "orders/eve/7",
		Attributes: map[string]string{
			"once-id": "orders/eve/7", "once-stream": "orders", "once-group": "account-1", "Content-Type": "application/json", "type": "paid",
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// receive decodes a message as another system does.
func receive(t *testing.T, m queue.Message) record.Message {
	t.Helper()
	got, origin, err := wire.FromQueue(&queue.Delivery{Message: m, ID: "m"}, wire.Defaults{})
	if err != nil || origin != wire.FromSender {
		t.Errorf("origin %v, %v", origin, err)
	}
	return got
}

func TestAnotherSystemAcceptsSentMessages(t *testing.T) {
	many := map[string]string{"empty": "", "a name": "with a space", "traceparent": "00-1-2-01", "odd": "\x01"}
	for i := range 20 {
		many[fmt.Sprint("header-", i)] = fmt.Sprint(i)
	}
	for _, e := range []record.Effect{
		{Body: []byte("text"), ContentType: "text/plain"},
		{},
		{Body: []byte{0xff, 0}},
		{Body: []byte("nonsense \x00"), ContentType: "text/\uFFFE"},
		{Body: []byte("x"), Headers: many},
		{Headers: map[string]string{"1": "a", "2": "b", "3": "c", "4": "d", "5": "e", "6": "f"}, Body: []byte("seven fit where there is no content type")},
	} {
		m := seal(t, delivery(e))
		want := record.Message{Stream: "orders", ID: "orders/eve/7", Group: "account-1", ContentType: e.ContentType, Headers: e.Headers, Body: e.Body}
		if d := cmp.Diff(want, receive(t, m), cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
		if len(m.Attributes) > queue.MaxAttributes {
			t.Errorf("%d attributes", len(m.Attributes))
		}
	}
	if m := seal(t, delivery(record.Effect{Body: []byte("x"), Headers: many})); m.Attributes["traceparent"] == "" || len(m.Attributes) != queue.MaxAttributes {
		t.Errorf("attributes %v", m.Attributes)
	}
}

func TestOddNamesAreHashedAndStayDifferent(t *testing.T) {
	long := strings.Repeat("é", 150)
	seen := map[string]bool{}
	for _, group := range []string{"a b", "a\tb", long, long + "x", "~a", ""} {
		d := delivery(record.Effect{Body: []byte("x")})
		d.Target, d.Identity = group, "orders/"+group+"/1"
		m := seal(t, d)
		if !queue.ValidGroup(m.Group) || !queue.ValidGroup(m.DedupID) || seen[m.Group] || seen[m.DedupID] {
			t.Errorf("%q: group %q, deduplication id %q", group, m.Group, m.DedupID)
		}
		seen[m.Group], seen[m.DedupID] = true, true
		if id := m.Attributes["once-id"]; len(id) > record.MaxName || len(d.Identity) <= record.MaxName && id != d.Identity {
			t.Errorf("identity %q became %q", d.Identity, id)
		}
	}
}

func TestAnEffectMayNameTheStreamAtTheDestination(t *testing.T) {
	for header, want := range map[string]string{"payments": "payments", "not a stream": "orders"} {
		m := seal(t, delivery(record.Effect{Body: []byte("x"), Headers: map[string]string{"Once-Stream": header}}))
		if got := m.Attributes["once-stream"]; got != want {
			t.Errorf("%s: stream %q, want %q", header, got, want)
		}
	}
}

func TestAMessageThatNoQueueAcceptsIsRefused(t *testing.T) {
	d := delivery(record.Effect{Body: make([]byte, queue.MaxSize)})
	_, err := envelope.Seal(&d)
	if refused, ok := errors.AsType[*record.RefusedError](err); !ok || refused.Reason != record.ReasonInvalid {
		t.Errorf("got %v", err)
	}
}

func TestSealingChangesNothingOfTheDelivery(t *testing.T) {
	headers := map[string]string{"a": "1", "b": ""}
	before := maps.Clone(headers)
	seal(t, delivery(record.Effect{Body: []byte("x"), Headers: headers}))
	if d := cmp.Diff(before, headers); d != "" {
		t.Error(d)
	}
}
