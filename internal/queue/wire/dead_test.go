package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

func TestADeadLetterKeepsItsIdentityAndReason(t *testing.T) {
	for name, want := range map[string]record.Refused{
		"message": {Message: full(), Reason: record.ReasonHandler, Detail: "not a transfer: bad: colon\x00"},
		"entry of a session": {
			Message: record.Message{Stream: "work", ID: "dead/0/1", RedeliveryOf: "order-77", Body: []byte("x"), Accepted: sentAt}, Reason: record.ReasonAttempts, Session: "ann", Number: 7,
		},
		"effect": {Reason: record.ReasonGone, Detail: "410", To: "shop", Delivery: &record.Delivery{
			Identity: "orders/g/7", Stream: "orders", Group: "g", Number: 7, Incarnation: 1 << 63, Sequence: 2, Target: "t\uFFFF",
			Effect: record.Effect{
				To: []string{"shop", "ledger"}, Group: "x", ID: "i", Source: "s", Epoch: 1, Sequence: 2, ContentType: "text/plain",
				Headers: map[string]string{"a": "b"}, Body: []byte{0, 255}, Chain: map[string]uint64{"ledger": 3}, DependsOn: map[string]uint64{"chat/a": 2}, Blob: &record.Blob{Key: "k", Staged: "s"},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FromDeadLetter(through(t, ToDeadLetter(want, queue.MaxSize)), trusted)
			if err != nil {
				t.Fatal(err)
			}
			want.Detail = strings.ReplaceAll(want.Detail, "\x00", "\uFFFD")
			if diff := cmp.Diff(want, got, whole()); diff != "" {
				t.Errorf("refused (-sent +received):\n%s", diff)
			}
		})
	}
}

func TestALetterThatTheQueueMovedHasTheReasonAttempts(t *testing.T) {
	r, err := FromDeadLetter(through(t, ToQueue(full())), trusted)
	if err != nil || r.Reason != record.ReasonAttempts || r.Message.Principal != "alice" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := FromDeadLetter(through(t, ToTrigger(record.GroupKey{Stream: "s", Group: "g"})), trusted); !errors.Is(err, ErrTrigger) {
		t.Errorf("trigger: %v", err)
	}
	effect := through(t, ToRedelivery("shop", record.Delivery{Identity: "s/g/1", Stream: "s", Group: "g"}))
	if r, err := FromDeadLetter(effect, trusted); err != nil || r.Delivery == nil || r.To != "shop" {
		t.Errorf("%+v, %v", r, err)
	}
	effect.Sender = "mallory"
	if r, err := FromDeadLetter(effect, Defaults{Stream: "s", Trusted: []string{Sender}}); err != nil || r.Delivery != nil {
		t.Errorf("a foreign sender's effect was believed: %+v, %v", r, err)
	}
}

func TestALongReasonIsCutBetweenCharacters(t *testing.T) {
	m := ToDeadLetter(record.Refused{Message: full(), Reason: "r", Detail: strings.Repeat("ü", 2000)}, queue.MaxSize)
	through(t, m)
	if n := len(m.Attributes[AttrReason]); n > maxReason || n < maxReason-4 {
		t.Errorf("%d bytes", n)
	}
}
