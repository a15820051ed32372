package deadletter_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

func TestALetterOfAMessageOrAnEffectMatchesItsOwnNamesOnly(t *testing.T) {
	message := deadletter.Letter{
		Delivery: queue.Delivery{ID: "of-the-queue"},
		Refused:  record.Refused{Reason: record.ReasonGap, Message: record.Message{Stream: "s", ID: "key", Source: "till", Epoch: 1, Sequence: 7}},
	}
	effect := deadletter.Letter{
		Delivery: queue.Delivery{ID: "of-the-queue"},
		Refused:  record.Refused{Reason: record.ReasonGone, Delivery: &record.Delivery{Identity: "s/g/1", Stream: "s", Group: "g"}},
	}
	keyed := deadletter.Letter{Refused: record.Refused{Message: record.Message{Stream: "s", ID: "key"}}}
	pooled := deadletter.Letter{Refused: record.Refused{Message: record.Message{Stream: "s", ID: "dead/0/1", RedeliveryOf: "order-77"}}}
	for _, c := range []struct {
		letter             deadletter.Letter
		stream, reason, id string
		want               bool
	}{
		{message, "", "", "", true},
		{message, "", string(record.ReasonGap), "", true},
		{message, "", string(record.ReasonGone), "", false},
		{message, "", "", "of-the-queue", true},
		{message, "", "", "key", true},
		{message, "", "", "till/1/7", true},
		{message, "", "", "other", false},
		{message, "", string(record.ReasonGone), "key", false},
		{effect, "", "", "s/g/1", true},
		{effect, "", "", "s/g/2", false},
		{effect, "", "", "of-the-queue", true},
		{effect, "", string(record.ReasonGone), "s/g/1", true},
		{keyed, "", "", "/0/0", false},
		{pooled, "", "", "order-77", true},
		{pooled, "", "", "dead/0/1", true},
		{pooled, "", "", "order-7", false},
		{keyed, "s", "", "key", true},
		{keyed, "other", "", "key", false},
		{effect, "s", "", "", true},
		{effect, "other", "", "s/g/1", false},
	} {
		if got := c.letter.Matches(deadletter.Filter{Stream: c.stream, Reason: c.reason, ID: c.id}); got != c.want {
			t.Errorf("%q matches stream %q, reason %q and id %q: %v", c.letter.Refused.Message.ID, c.stream, c.reason, c.id, got)
		}
	}
}

func TestALetterOfASessionIsShownWithItsKeyAndItsPlace(t *testing.T) {
	l := deadletter.Letter{Refused: record.Refused{Session: "ann", Number: 7, Message: record.Message{Stream: "s", ID: "dead/0/1", RedeliveryOf: "order-77"}}}
	if got := l.Info(); got.ID != "dead/0/1" || got.Key != "order-77" || got.Session != "ann" || got.Number != 7 {
		t.Errorf("got %+v", got)
	}
	// Older versions have written letters without them.
	l = deadletter.Letter{Refused: record.Refused{Message: record.Message{Stream: "s", ID: "dead/0/1"}}}
	if got := l.Info(); got.ID != "dead/0/1" || got.Key != "" || got.Session != "" || got.Number != 0 {
		t.Errorf("an old letter: got %+v", got)
	}
}

func TestALetterIsShownWithTheRequestedLengthOfContent(t *testing.T) {
	headers := map[string]string{"X-A": "1"}
	message := record.Message{Stream: "s", ID: "1", ContentType: "text/plain", Headers: headers, Body: []byte("hello")}
	effect := &record.Delivery{Identity: "s/g/1", Stream: "s", Group: "g", Effect: record.Effect{ContentType: "text/plain", Headers: headers, Body: []byte("hello")}}
	for name, refused := range map[string]record.Refused{"message": {Message: message}, "effect": {Delivery: effect, To: "shop"}} {
		l := deadletter.Letter{Delivery: queue.Delivery{ID: "m", Message: queue.Message{Body: "as queued"}}, Queue: "dead", Refused: refused}
		if got := l.InfoWithContent(0); got.Content != nil || got.MessageID != "m" || got.Queue != "dead" {
			t.Errorf("%s without content: %+v", name, got)
		}
		for most, want := range map[int]admin.Content{
			-1: {ContentType: "text/plain", Headers: headers, Bytes: 5, Body: admin.Body{Text: "hello"}},
			4:  {ContentType: "text/plain", Headers: headers, Bytes: 5, Truncated: true, Body: admin.Body{Text: "hell"}},
		} {
			if d := cmp.Diff(&want, l.InfoWithContent(most).Content); d != "" {
				t.Errorf("%s, %d bytes: %s", name, most, d)
			}
		}
	}
	unread := deadletter.Letter{Delivery: queue.Delivery{Message: queue.Message{Body: "as queued"}}}
	if got := unread.InfoWithContent(-1).Content; got == nil || got.Text != "as queued" {
		t.Errorf("a letter that can't be read: %+v", got)
	}
}
