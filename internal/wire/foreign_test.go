package wire

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

// foreign makes a record as another sender's SDK would have sent it.
func foreign(body string, attributes map[string]string, system map[string]string) events.SQSMessage {
	m := events.SQSMessage{MessageId: "message-id", Body: body, Attributes: map[string]string{"SenderId": "AIDA:somebody", "SentTimestamp": "1770000000123"}}
	maps.Copy(m.Attributes, system)
	m.MessageAttributes = map[string]events.SQSMessageAttribute{}
	for name, value := range attributes {
		m.MessageAttributes[name] = events.SQSMessageAttribute{StringValue: &value, DataType: "String"}
	}
	return m
}

func TestIdentityComesFromTheSenderThenTheDeduplicationIDThenTheQueue(t *testing.T) {
	fifo := map[string]string{"MessageDeduplicationId": "dedup", "MessageGroupId": "g"}
	for _, c := range []struct {
		name       string
		attributes map[string]string
		system     map[string]string
		id         string
		origin     Origin
	}{
		{"once-id", map[string]string{AttrID: "mine"}, fifo, "mine", FromSender},
		{"source and sequence", map[string]string{AttrSource: "s", AttrSequence: "4"}, fifo, "s/0/4", FromSender},
		{"deduplication id", nil, fifo, "dedup", FromDeduplicationID},
		{"message id", nil, nil, "message-id", FromMessageID},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, origin, err := FromSQS(foreign("x", c.attributes, c.system), Defaults{Stream: "orders"})
			if err != nil || m.Identity() != c.id || origin != c.origin {
				t.Errorf("identity %q, origin %d, %v", m.Identity(), origin, err)
			}
		})
	}
}

func TestAForeignMessageIsReadByItsAttributesAndItsQueue(t *testing.T) {
	received := foreign("hello", map[string]string{AttrID: "1", "Content-Type": "text/plain", "trace": "t1"}, map[string]string{"MessageGroupId": "g"})
	received.MessageAttributes["picture"] = events.SQSMessageAttribute{BinaryValue: []byte{1}, DataType: "Binary"}
	number := "12"
	received.MessageAttributes["count"] = events.SQSMessageAttribute{StringValue: &number, DataType: "Number"}
	got, _, err := FromSQS(received, Defaults{Stream: "orders"})
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
	received = foreign("hello", map[string]string{AttrStream: "named", AttrGroup: "mine", AttrID: "1"}, map[string]string{"MessageGroupId": "g"})
	if got, _, err = FromSQS(received, Defaults{Stream: "orders"}); err != nil || got.Stream != "named" || got.Group != "mine" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAForeignSenderCannotTakeOnAnIdentity(t *testing.T) {
	received := through(t, ToQueue(full()))
	for _, sender := range []string{"", "AIDA:once", "once2", "AIDA:x:once"} {
		received.Attributes["SenderId"] = sender
		got, _, err := FromSQS(received, trusted)
		if err != nil {
			t.Fatal(err)
		}
		if got.Principal != "" || got.Route != "" || !got.Accepted.Equal(sentAt) {
			t.Errorf("believed of %q: %+v", sender, got)
		}
	}
	received.Attributes["SenderId"] = "AROAXYZ:ingest-function"
	if got, _, _ := FromSQS(received, Defaults{Trusted: []string{"AROAXYZ"}}); got.Principal != "alice" {
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
			m, _, err := FromSQS(foreign("x", attributes, nil), trusted)
			var invalid *record.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("%v", err)
			}
			letter := through(t, ToDeadLetter(record.Refused{Message: m, Reason: record.ReasonInvalid, Detail: invalid.Error()}))
			r, err := FromDeadLetter(letter, trusted)
			if !errors.As(err, &invalid) || r.Reason != record.ReasonInvalid || string(r.Message.Body) != "x" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	for name, received := range map[string]events.SQSMessage{
		"body too large": foreign(strings.Repeat("x", record.MaxBody+1), map[string]string{AttrID: "1"}, nil),
		"no stream":      foreign("x", map[string]string{AttrID: "1"}, nil),
		"bad base64":     foreign("ä", map[string]string{AttrStream: "s", AttrID: "1", AttrMeta: `{"encoding":"base64"}`}, nil),
		"odd encoding":   foreign("x", map[string]string{AttrStream: "s", AttrID: "1", AttrMeta: `{"encoding":"zip"}`}, nil),
	} {
		var invalid *record.InvalidError
		if m, _, err := FromSQS(received, trusted); !errors.As(err, &invalid) || len(m.Body) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnEventOfTheSystemItselfIsAMessageLikeAnyOther(t *testing.T) {
	m := full()
	m.Headers = map[string]string{headerEvent: "gap"}
	got, _, err := FromSQS(through(t, ToQueue(m)), trusted)
	if err != nil || got.Headers[headerEvent] != "gap" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNumbersAreAsStrictAsTheyAreByHTTP(t *testing.T) {
	for _, name := range []string{AttrEpoch, AttrSequence} {
		for _, value := range []string{"01", "+1", "-0", " 1", "1 ", "0x1", "1e3", "18446744073709551616", "00"} {
			attributes := map[string]string{AttrSource: "s", AttrSequence: "1", AttrEpoch: "1"}
			attributes[name] = value
			var invalid *record.InvalidError
			if _, _, err := FromSQS(foreign("x", attributes, nil), Defaults{Stream: "orders"}); !errors.As(err, &invalid) || invalid.Field != name {
				t.Errorf("%s %q: %v", name, value, err)
			}
		}
	}
	var invalid *record.InvalidError
	if _, _, err := FromSQS(foreign("x", map[string]string{AttrID: "1", AttrSequence: "0"}, nil), Defaults{Stream: "orders"}); !errors.As(err, &invalid) {
		t.Errorf("sequence 0: %v", err)
	}
}

func TestAnAttributeOfTheContractThatIsBinaryIsInvalid(t *testing.T) {
	received := foreign("x", map[string]string{AttrID: "1"}, nil)
	received.MessageAttributes[AttrGroup] = events.SQSMessageAttribute{BinaryValue: []byte("g"), DataType: "Binary"}
	var invalid *record.InvalidError
	if _, _, err := FromSQS(received, Defaults{Stream: "orders"}); !errors.As(err, &invalid) || invalid.Field != AttrGroup {
		t.Errorf("%v", err)
	}
}
