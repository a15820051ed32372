package wire

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

func TestTheLettersOfOneIdentityAreMerged(t *testing.T) {
	message := func(reason record.Reason, body string) record.Refused {
		return record.Refused{Message: record.Message{Stream: "orders", ID: "k", Group: "g", Body: []byte(body)}, Reason: reason}
	}
	effect := func(detail string) record.Refused {
		return record.Refused{Reason: record.ReasonGone, Detail: detail, To: "shop", Delivery: &record.Delivery{Identity: "orders/g/7", Stream: "orders", Group: "g"}}
	}
	sends := func(detail, body string) record.Refused {
		r := effect(detail)
		r.Delivery.Effect.Body, r.Delivery.Hash, r.Delivery.Effect.To = []byte(body), detail, []string{detail}
		return r
	}
	malformed := func(body string) record.Refused {
		r := message("attempts", body)
		r.Message.Headers = map[string]string{"once-foo": "x"}
		return r
	}
	for name, c := range map[string]struct {
		old, next record.Refused
		body      string // of the letter that stays, with its reason or its detail
		apart     bool
	}{
		"a redelivery":                       {message("rejected", "a"), message("attempts", "a"), "a attempts", false},
		"another content, key reuse":         {message("rejected", "a"), message("key-reuse", "b"), "a rejected", false},
		"two contents that were never valid": {message("invalid", "a"), message("key-reuse", "b"), "a invalid", false},
		"the content behind a key reuse":     {message("key-reuse", "b"), message("rejected", "a"), "a rejected", false},
		"two messages, one after the other":  {message("rejected", "a"), message("rejected", "b"), "", true},
		"a copy that is malformed":           {message("rejected", "a"), malformed("a"), "a rejected", false},
		"a copy with an invalid header":      {message("rejected", "a"), message("invalid", "a"), "a rejected", false},
		"the message of a malformed copy":    {malformed("a"), message("rejected", "a"), "a rejected", false},
		"an effect":                          {effect("410"), effect("skipped"), "skipped", false},
		"an effect that is tried again":      {sends("410", "pay 100"), sends("skipped", "pay 100"), "skipped", false},
		"another effect under the identity":  {sends("410", "pay 100"), sends("410", "pay 999"), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			letters := Letters{trusted}
			old, next := through(t, ToDeadLetter(c.old, queue.MaxSize)), through(t, ToDeadLetter(c.next, queue.MaxSize))
			old.Sent, next.Sent = sentAt, sentAt.Add(time.Hour)
			a, stream := letters.Identity(old)
			if b, _ := letters.Identity(next); a != b || a == "" || stream != "orders" {
				t.Fatalf("identities %q and %q of %s", a, b, stream)
			}
			m, ok := letters.Merge(old, next)
			if ok == c.apart {
				t.Fatalf("merged: %v", ok)
			}
			for n := 2; ok && n < 4; n++ {
				merged := through(t, m)
				merged.Sent = next.Sent
				r, err := FromDeadLetter(merged, trusted)
				text := string(r.Message.Body) + " " + string(r.Reason)
				if r.Delivery != nil {
					text = r.Detail
				}
				if count, first := Counted(merged, trusted); err != nil || text != c.body || count != n || !first.Equal(sentAt) {
					t.Errorf("%q, %d times since %v, %v", text, count, first, err)
				}
				m, ok = letters.Merge(merged, next)
			}
		})
	}
}

func TestLettersOfOtherIdentitiesAreNotMerged(t *testing.T) {
	seen := map[string]string{}
	for name, r := range map[string]record.Refused{
		"a message":         {Message: record.Message{Stream: "orders", ID: "k", Group: "g"}},
		"of another group":  {Message: record.Message{Stream: "orders", ID: "k", Group: "h"}},
		"of another stream": {Message: record.Message{Stream: "mail", ID: "k", Group: "g"}},
		"of another caller": {Message: record.Message{Stream: "orders", ID: "k", Group: "g", Principal: "ann"}},
		"a number":          {Message: record.Message{Stream: "orders", Group: "g", Source: "s", Epoch: 1, Sequence: 2}},
		"the next number":   {Message: record.Message{Stream: "orders", Group: "g", Source: "s", Epoch: 1, Sequence: 3}},
		"an effect":         {To: "a", Delivery: &record.Delivery{Identity: "orders/g/7"}},
		"to another place":  {To: "b", Delivery: &record.Delivery{Identity: "orders/g/7"}},
		"of a later group":  {To: "a", Delivery: &record.Delivery{Identity: "orders/g/7", Incarnation: 1}},
		"of a session":      {Message: record.Message{Stream: "orders", ID: "k", Group: "g"}, Session: "s", Number: 1},
		"of the next one":   {Message: record.Message{Stream: "orders", ID: "k", Group: "g"}, Session: "t", Number: 1},
	} {
		id, _ := Letters{trusted}.Identity(through(t, ToDeadLetter(r, queue.MaxSize)))
		if other, ok := seen[id]; ok || id == "" {
			t.Errorf("%s has the identity of %s", name, other)
		}
		seen[id] = name
	}
	if id, _ := (Letters{trusted}).Identity(&queue.Delivery{Message: queue.Message{Body: "x"}}); id != "" {
		t.Errorf("a letter without an identity has %q", id)
	}
}

// TestACountOfAForeignSenderIsNotBelieved has a message that SQS moved as its sender sent it.
func TestACountOfAForeignSenderIsNotBelieved(t *testing.T) {
	d := &queue.Delivery{Message: queue.Message{Body: "x", Sender: "mallory", Attributes: map[string]string{AttrMeta: `{"count":7,"first":"2020-01-01T00:00:00Z"}`}}, Sent: sentAt}
	if n, first := Counted(d, Defaults{Trusted: []string{Sender}}); n != 1 || !first.Equal(sentAt) {
		t.Errorf("%d times since %v", n, first)
	}
}
