package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// foreign returns a record as another sender's SDK would have sent it.
func foreign(body string, attributes map[string]string, system queue.Message) *queue.Delivery {
	system.Body, system.Attributes, system.Sender = body, attributes, "AIDA:somebody"
	return &queue.Delivery{Message: system, ID: "message-id", Sent: sentAt}
}

func TestIdentityComesFromTheSenderThenTheDeduplicationIDThenTheQueue(t *testing.T) {
	fifo := queue.Message{DedupID: "dedup", Group: "g"}
	for _, c := range []struct {
		name       string
		attributes map[string]string
		system     queue.Message
		id         string
		origin     Origin
	}{
		{"once-id", map[string]string{AttrID: "mine"}, fifo, "mine", FromSender},
		{"source and sequence", map[string]string{AttrSource: "s", AttrSequence: "4"}, fifo, "s/0/4", FromSender},
		{"deduplication id", nil, fifo, "dedup", FromDeduplicationID},
		{"message id", nil, queue.Message{}, "message-id", FromMessageID},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, origin, err := FromQueue(foreign("x", c.attributes, c.system), Defaults{Stream: "orders"})
			if err != nil || m.Identity() != c.id || origin != c.origin {
				t.Errorf("identity %q, origin %d, %v", m.Identity(), origin, err)
			}
		})
	}
}

func TestAForeignMessageIsDecodedFromItsAttributesAndItsQueue(t *testing.T) {
	received := foreign("hello", map[string]string{AttrID: "1", "Content-Type": "text/plain", "trace": "t1", "count": "12"}, queue.Message{Group: "g"})
	received.Binary, received.Queue = []string{"picture"}, "ingress.fifo"
	got, _, err := FromQueue(received, Defaults{Stream: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	want := record.Message{
		Stream: "orders", ID: "1", Group: "g", ContentType: "text/plain", Headers: map[string]string{"trace": "t1", "count": "12"},
		Body: []byte("hello"), Accepted: sentAt,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	received = foreign("hello", map[string]string{AttrStream: "named", AttrGroup: "mine", AttrID: "1"}, queue.Message{Group: "g"})
	if got, _, err = FromQueue(received, Defaults{Stream: "orders"}); err != nil || got.Stream != "named" || got.Group != "mine" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAMessageGroupIsAGroupOnlyInAFirstInFirstOutQueue(t *testing.T) {
	received := foreign("x", map[string]string{AttrID: "1"}, queue.Message{Group: "tenant-1"})
	for name, want := range map[string]string{"ingress": "", "ingress.fifo": "tenant-1"} {
		received.Queue = name
		if m, _, err := FromQueue(received, Defaults{Stream: "orders"}); err != nil || m.Group != want {
			t.Errorf("from %s: group %q, %v, want %q", name, m.Group, err, want)
		}
	}
}

func TestAMessageWithoutAStreamIsToldTheAttributeThatItLacks(t *testing.T) {
	m, _, err := FromQueue(foreign("x", map[string]string{AttrID: "1"}, queue.Message{}), trusted)
	if err == nil || !strings.HasPrefix(err.Error(), "once-stream is missing: ") || !strings.Contains(err.Error(), "ingress:") {
		t.Errorf("%v", err)
	}
	letter := through(t, ToDeadLetter(record.Refused{Message: m, Reason: record.ReasonInvalid, Detail: err.Error()}, queue.MaxSize))
	if r, err := FromDeadLetter(letter, trusted); err == nil || r.Detail == "" || !strings.HasPrefix(r.Detail, "once-stream is missing") {
		t.Errorf("the dead letter says %q, %v", r.Detail, err)
	}
}

func TestAForeignSenderCannotTakeOnAnIdentity(t *testing.T) {
	sent := full()
	sent.Timer, sent.TimerNumber = "reminder", 7
	received := through(t, ToQueue(sent))
	for _, sender := range []string{"", "AIDA:once", "once2", "AIDA:x:once"} {
		received.Sender = sender
		got, _, err := FromQueue(received, trusted)
		if err != nil {
			t.Fatal(err)
		}
		if got.Principal != "" || got.Route != "" || got.Timer != "" || got.TimerNumber != 0 || !got.NotBefore.IsZero() || !got.Accepted.Equal(sentAt) {
			t.Errorf("believed of %q: %+v", sender, got)
		}
	}
	received.Sender = "AROAXYZ:ingest-function"
	if got, _, _ := FromQueue(received, Defaults{Trusted: []string{"AROAXYZ"}}); got.Principal != "alice" {
		t.Error("a session of a trusted role was not believed")
	}
}

func TestMalformedAttributesAreInvalidAndStaySoThroughTheDeadLetterQueue(t *testing.T) {
	for name, value := range map[string]string{
		"once-gruop": "g", "Once-Group": "g", "ONCE-": "x",
		AttrEpoch: "-1", AttrSequence: "1.5", AttrDependsOn: "A=1", AttrMeta: "{", AttrSource: "control\u0085", AttrStream: "no such/name",
	} {
		t.Run(name, func(t *testing.T) {
			attributes := map[string]string{AttrStream: "orders", AttrSource: "s", AttrSequence: "1"}
			attributes[name] = value
			m, _, err := FromQueue(foreign("x", attributes, queue.Message{}), trusted)
			var invalid *record.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("%v", err)
			}
			letter := through(t, ToDeadLetter(record.Refused{Message: m, Reason: record.ReasonInvalid, Detail: invalid.Error()}, queue.MaxSize))
			r, err := FromDeadLetter(letter, trusted)
			if !errors.As(err, &invalid) || r.Reason != record.ReasonInvalid || string(r.Message.Body) != "x" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	for name, received := range map[string]*queue.Delivery{
		"body too large": foreign(strings.Repeat("x", record.MaxBody+1), map[string]string{AttrID: "1"}, queue.Message{}),
		"no stream":      foreign("x", map[string]string{AttrID: "1"}, queue.Message{}),
		"bad base64":     foreign("ä", map[string]string{AttrStream: "s", AttrID: "1", AttrMeta: `{"encoding":"base64"}`}, queue.Message{}),
		"odd encoding":   foreign("x", map[string]string{AttrStream: "s", AttrID: "1", AttrMeta: `{"encoding":"zip"}`}, queue.Message{}),
	} {
		var invalid *record.InvalidError
		if m, _, err := FromQueue(received, trusted); !errors.As(err, &invalid) || len(m.Body) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnEventOfTheSystemIsAnOrdinaryMessage(t *testing.T) {
	m := full()
	m.Headers = map[string]string{HeaderEvent: "gap"}
	got, _, err := FromQueue(through(t, ToQueue(m)), trusted)
	if err != nil || got.Headers[HeaderEvent] != "gap" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNumbersAreAsStrictAsTheyAreByHTTP(t *testing.T) {
	for _, name := range []string{AttrEpoch, AttrSequence} {
		for _, value := range []string{"01", "+1", "-0", " 1", "1 ", "0x1", "1e3", "18446744073709551616", "00"} {
			attributes := map[string]string{AttrSource: "s", AttrSequence: "1", AttrEpoch: "1"}
			attributes[name] = value
			var invalid *record.InvalidError
			if _, _, err := FromQueue(foreign("x", attributes, queue.Message{}), Defaults{Stream: "orders"}); !errors.As(err, &invalid) || invalid.Field != name {
				t.Errorf("%s %q: %v", name, value, err)
			}
		}
	}
	var invalid *record.InvalidError
	if _, _, err := FromQueue(foreign("x", map[string]string{AttrID: "1", AttrSequence: "0"}, queue.Message{}), Defaults{Stream: "orders"}); !errors.As(err, &invalid) {
		t.Errorf("sequence 0: %v", err)
	}
}

func TestAnAttributeOfTheContractThatIsBinaryIsInvalid(t *testing.T) {
	received := foreign("x", map[string]string{AttrID: "1"}, queue.Message{})
	received.Binary = []string{AttrGroup}
	var invalid *record.InvalidError
	if _, _, err := FromQueue(received, Defaults{Stream: "orders"}); !errors.As(err, &invalid) || invalid.Field != AttrGroup {
		t.Errorf("%v", err)
	}
}
