package ingress

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

var sentAt = time.UnixMilli(1770000000123).UTC()

// source returns the source orders of a configuration with these fields.
func source(t *testing.T, fields string) *Source {
	t.Helper()
	c, err := config.Parse("once.yaml", []byte("streams: {orders: {}, other: {}}\ningress: {orders: {"+fields+"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(c, "orders")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// delivery is what SQS delivers: each time the message is sent, it has another id.
func delivery(body, messageID string) *queue.Delivery {
	return &queue.Delivery{Message: queue.Message{Body: body, Sender: "AIDA:somebody"}, Queue: "source", ID: messageID, Sent: sentAt, Receives: 1}
}

func TestEverySourceHasItsOwnIdentityWhoeverRepeatsTheMessage(t *testing.T) {
	for name, c := range map[string]struct {
		fields, file, id, group string
		headers                 map[string]string
	}{
		"eventbridge":            {"from: eventbridge", "eventbridge.json", "6a7e8feb-b491-4cf7-a9f1-bf3703467718", "", nil},
		"eventbridge with paths": {`from: eventbridge, id: $.detail.order.number, group: $.detail.customer`, "eventbridge.json", "10000000000000000001", "c-7", nil},
		"eventbridge with an id of several parts": {
			`from: eventbridge, id: [$.detail-type, "$.detail['address id']"]`, "eventbridge.json", "Order Placed/a%2F1", "", nil,
		},
		"s3":             {"from: s3", "s3.json", "photos/red+flower.jpg/096fKKXTRTtl3on89fVO.nfljtsv6qko/0055AED6DCD90281E5/ObjectCreated:Put", "photos/red+flower.jpg", nil},
		"s3 with a path": {`from: s3, group: "$.Records[0].s3.bucket.name"`, "s3.json", "photos/red+flower.jpg/096fKKXTRTtl3on89fVO.nfljtsv6qko/0055AED6DCD90281E5/ObjectCreated:Put", "photos", nil},
		"sns":            {"from: sns", "sns.json", "63a3f6b6-d533-4a47-aef9-fcf5cf758c76", "", map[string]string{"tenant": "t-1", "subject": "A book"}},
		"sns with paths": {"from: sns, id: $.id, group: $.topic", "sns.json", "n-1", "books", map[string]string{"tenant": "t-1", "subject": "A book"}},
		"pipes":          {"from: pipes, group: $.dynamodb.Keys.pk.S", "dynamodb-pipe.json", "1f2b4d1c0a9e4d6f8a7b6c5d4e3f2a1b", "order-1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, c.fields)
			var before []record.Message
			for _, messageID := range []string{"m-1", "m-2"} {
				read, err := s.Read(delivery(file(t, c.file), messageID))
				if err != nil || len(read.Messages) != 1 || read.Origin != wire.FromSender {
					t.Fatalf("%+v, %v", read, err)
				}
				m := read.Messages[0]
				if m.ID != c.id || m.Group != c.group || m.Principal != "ingress:orders" || m.Stream != "orders" {
					t.Errorf("%q in %q of %q as %q, want %q in %q", m.ID, m.Group, m.Stream, m.Principal, c.id, c.group)
				}
				if d := cmp.Diff(c.headers, m.Headers); d != "" {
					t.Errorf("headers (-want +got):\n%s", d)
				}
				if before != nil && m.Fingerprint() != before[0].Fingerprint() {
					t.Error("the repetition has another fingerprint: it would be refused as key reuse")
				}
				before = read.Messages
			}
		})
	}
}

func TestAnEventThatItsProducerRepeatsIsTheSameMessage(t *testing.T) {
	again := func(name string, replaced ...string) string {
		text := file(t, name)
		for i := 0; i < len(replaced); i += 2 {
			if !strings.Contains(text, replaced[i]) {
				t.Fatalf("%s has no %s", name, replaced[i])
			}
			text = strings.ReplaceAll(text, replaced[i], replaced[i+1])
		}
		return text
	}
	for name, c := range map[string]struct {
		fields, file, body string
		same               bool
	}{
		"another id and time": {
			"from: eventbridge, id: $.detail.order.number", "eventbridge.json",
			again("eventbridge.json", "6a7e8feb-b491-4cf7-a9f1-bf3703467718", "another", "2026-03-01T12:00:00Z", "2026-03-01T12:00:01Z"), true,
		},
		"replayed":         {"from: eventbridge", "eventbridge.json", again("eventbridge.json", `{"version"`, `{"replay-name":"monday","version"`), true},
		"another detail":   {"from: eventbridge, id: $.detail.order.number", "eventbridge.json", again("eventbridge.json", "c-7", "c-8"), false},
		"another kind":     {"from: eventbridge, id: $.detail.order.number", "eventbridge.json", again("eventbridge.json", "Order Placed", "Order Shipped"), false},
		"a pipe from SQS":  {"from: pipes, id: $.messageId", "sqs-pipe.json", again("sqs-pipe.json", "AQEB", "AQEC", `ReceiveCount":"1"`, `ReceiveCount":"2"`), true},
		"another body":     {"from: pipes, id: $.messageId", "sqs-pipe.json", again("sqs-pipe.json", "o-1", "o-2"), false},
		"another image":    {"from: pipes", "dynamodb-pipe.json", again("dynamodb-pipe.json", "order-1", "order-2"), false},
		"not in the event": {"from: account, id: $.detail.order.number", "eventbridge.json", again("eventbridge.json", "2026-03-01T12:00:00Z", "2026-03-01T12:00:01Z"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, strings.Replace(c.fields, "account", `"111122223333"`, 1))
			a, errA := s.Read(delivery(file(t, c.file), "m-1"))
			b, errB := s.Read(delivery(c.body, "m-2"))
			if err := errors.Join(errA, errB); err != nil {
				t.Fatal(err)
			}
			if one, other := a.Messages[0], b.Messages[0]; one.ID != other.ID || (one.Fingerprint() == other.Fingerprint()) != c.same {
				t.Errorf("%s and %s, the same content: %t", one.ID, other.ID, !c.same)
			}
		})
	}
}

func TestAnEnvelopedNotificationIsTheSameMessageAsARawOne(t *testing.T) {
	s := source(t, "from: sns, id: $.id")
	raw := delivery(`{"id":"n-1","topic":"books"}`, "m-1")
	raw.Attributes = map[string]string{"tenant": "t-1", "subject": "A book"}
	a, errA := s.Read(raw)
	b, errB := s.Read(delivery(file(t, "sns.json"), "m-2"))
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(a.Messages, b.Messages); d != "" {
		t.Errorf("message (-raw +enveloped):\n%s", d)
	}
}

func TestEachRecordOfANotificationHasTheIdentityThatItHasAlone(t *testing.T) {
	s, alone := source(t, "from: s3"), file(t, "s3.json")
	first, _ := strings.CutSuffix(strings.TrimPrefix(alone, `{"Records":[`), "]}")
	second := strings.ReplaceAll(first, "0055AED6DCD90281E5", "0055AED6DCD90281E6")
	read, err := s.Read(delivery("{\"Records\": [\n "+first+",\n "+second+"\n]}", "m-1"))
	if err != nil || len(read.Messages) != 2 || read.Messages[0].ID == read.Messages[1].ID {
		t.Fatalf("%+v, %v", read, err)
	}
	single, err := s.Read(delivery(alone, "m-2"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(single.Messages[0], read.Messages[0]); d != "" {
		t.Errorf("message (-alone +beside another):\n%s", d)
	}
}

func TestEventsOfOneObjectDifferByTheirTimeIfTheyHaveNoSequencer(t *testing.T) {
	s := source(t, "from: s3")
	event := strings.ReplaceAll(strings.ReplaceAll(file(t, "s3.json"), `,"sequencer":"0055AED6DCD90281E5"`, ""), "ObjectCreated:Put", "ObjectRestore:Post")
	ids := map[string]bool{}
	for _, text := range []string{event, event, strings.ReplaceAll(event, "12:00:00.000Z", "12:00:00.001Z")} {
		read, err := s.Read(delivery(text, "m"))
		if err != nil {
			t.Fatal(err)
		}
		ids[read.Messages[0].ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("identities %v", ids)
	}
}

func TestTheTestOfANewNotificationIsNoMessage(t *testing.T) {
	read, err := source(t, "from: s3").Read(delivery(`{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-03-01T12:00:00.000Z","Bucket":"photos","RequestId":"1","HostId":"2"}`, "m"))
	if err != nil || len(read.Messages) != 0 {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestAMessageThatLacksItsIdentityOrGroupIsInvalidAndTheErrorNamesThePath(t *testing.T) {
	for name, c := range map[string]struct{ fields, body, want string }{
		"no JSON":           {"from: eventbridge", "hello", "body is not JSON, and ingress.orders reads it by a path"},
		"missing":           {"from: eventbridge, id: $.detail.order", `{"detail":{}}`, "id of ingress.orders: $.detail.order is missing"},
		"not a scalar":      {"from: eventbridge, id: $.detail", `{"detail":{}}`, "$.detail is an object"},
		"empty":             {"from: eventbridge", `{"id":""}`, "$.id is empty"},
		"null":              {"from: scheduler, id: [$.a, $.b]", `{"a":1,"b":null}`, "$.b is null"},
		"group":             {"from: pipes, group: $.g", `{"eventID":"1"}`, "group of ingress.orders: $.g is missing"},
		"control":           {"from: eventbridge", `{"id":"a\nb"}`, "id must be UTF-8 text without control characters"},
		"another form":      {"from: s3", `{"id":1}`, "$.Records is missing or empty"},
		"records":           {"from: s3", `{"Records":[1]}`, "$.Records[0] has another form"},
		"no key":            {"from: s3", strings.ReplaceAll(file(t, "s3.json"), `"key":"red+flower.jpg",`, ""), "$.Records[0].s3.object.key is missing"},
		"no time":           {"from: s3", `{"Records":[{"eventName":"e","s3":{"bucket":{"name":"b"},"object":{"key":"k"}}}]}`, "$.Records[0].s3.object.sequencer is missing"},
		"confirmation":      {"from: sns", `{"Type":"SubscriptionConfirmation","MessageId":"1","TopicArn":"arn:aws:sns:r:1:t","SubscribeURL":"https://x"}`, "is a SubscriptionConfirmation of the topic arn:aws:sns:r:1:t"},
		"raw without an id": {"from: sns, id: $.id", `{}`, "$.id is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := source(t, c.fields).Read(delivery(c.body, "m"))
			var invalid *record.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if m := read.Messages[0]; m.Stream != "orders" || m.Principal != "ingress:orders" || string(m.Body) != c.body || m.ID != "m" {
				t.Errorf("for the dead-letter queue: %+v", m)
			}
		})
	}
}

func TestAQueueThatIsBoundTakesNoMessageForAnotherStream(t *testing.T) {
	d := delivery(`{"id":"1"}`, "m")
	d.Attributes = map[string]string{wire.AttrStream: "other"}
	_, err := source(t, `from: "111122223333"`).Read(d)
	if err == nil || !strings.Contains(err.Error(), "once-stream must be orders, or be left out") {
		t.Errorf("%v", err)
	}
	d.Attributes[wire.AttrStream] = "orders"
	if _, err := source(t, `from: "111122223333"`).Read(d); err != nil {
		t.Error(err)
	}
}

func TestAnAccountCanSetAttributesAndNobodysPrincipal(t *testing.T) {
	d := delivery(`{"id":"1"}`, "m")
	d.Attributes = map[string]string{wire.AttrID: "mine", wire.AttrGroup: "g", wire.AttrMeta: `{"principal":"iam:boss","content_type":"text/plain"}`}
	read, err := source(t, `from: "111122223333", id: $.id, group: $.nothing`).Read(d)
	if m := read.Messages[0]; err != nil || m.ID != "mine" || m.Group != "g" || m.Principal != "ingress:orders" || m.ContentType != "text/plain" {
		t.Errorf("%+v, %v", m, err)
	}
	without := delivery(`{}`, "m")
	without.DedupID, without.Group, without.Queue = "dedup", "g", "source.fifo"
	if read, err = source(t, `from: "111122223333", fifo: true`).Read(without); err != nil || read.Messages[0].ID != "dedup" || read.Messages[0].Group != "g" || read.Origin != wire.FromDeduplicationID {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestAMessageThatWasUnreadIsReadAsItFirstCame(t *testing.T) {
	d := delivery(`{"order":"o-1"}`, "m")
	d.Attributes = map[string]string{"trace": "t", "Content-Type": "text/json", wire.AttrParents: "17"}
	d.Group, d.Queue = "g", "source.fifo"
	wrong, right := source(t, "from: eventbridge, id: $.ordre, fifo: true"), source(t, "from: eventbridge, id: $.order, fifo: true")
	read, err := wrong.Read(d)
	if err == nil {
		t.Fatal("the path is wrong")
	}
	// through the dead-letter queue and the ingress queue, as this system's functions send them
	letter := wire.ToDeadLetter(record.Refused{Message: read.Messages[0], Reason: record.ReasonInvalid, Detail: err.Error()}, queue.MaxSize)
	trusted := wire.Defaults{Trusted: []string{wire.Sender}}
	refused, err := wire.FromDeadLetter(&queue.Delivery{Message: letter, ID: "l"}, trusted)
	if err != nil {
		t.Fatal(err)
	}
	redriven, _, err := wire.FromQueue(&queue.Delivery{Message: wire.ToQueue(refused.Message), Queue: "ingress.fifo", ID: "r"}, trusted)
	if err != nil || UnreadOf(&redriven) != "orders" {
		t.Fatalf("%+v, %v", redriven, err)
	}
	again, err := right.Again(&redriven)
	want, wantErr := right.Read(d)
	if err := errors.Join(err, wantErr); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Messages, again.Messages); diff != "" {
		t.Errorf("message (-as it came +redriven):\n%s", diff)
	}
	if still, err := wrong.Again(&redriven); err == nil || UnreadOf(&still.Messages[0]) != "orders" {
		t.Errorf("with the wrong path: %+v, %v", still, err)
	}
}

func TestOnlyTheSourceItselfCanHaveUnreadMessages(t *testing.T) {
	m := record.Message{Stream: "orders", ID: "1", Headers: map[string]string{wire.HeaderUnread: "orders"}, Body: []byte("{}")}
	for _, principal := range []string{"", "iam:arn", "ingress:other"} {
		if m.Principal = principal; UnreadOf(&m) != "" {
			t.Errorf("believed of %q", principal)
		}
	}
	m.Principal = "ingress:orders"
	foreign := &queue.Delivery{Message: wire.ToQueue(m), Queue: "ingress.fifo"}
	foreign.Sender = "AIDA:somebody"
	if _, _, err := wire.FromQueue(foreign, wire.Defaults{Trusted: []string{wire.Sender}}); err == nil {
		t.Error("a foreign sender can send an unread message")
	}
}

func TestABinaryAttributeOfTheContractStaysInvalid(t *testing.T) {
	d := delivery(`{"id":"1"}`, "m")
	d.Binary = []string{wire.AttrGroup}
	read, err := source(t, "from: eventbridge").Read(d)
	if err == nil || UnreadOf(&read.Messages[0]) != "" {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestALongIdentityIsShortenedAndStaysDistinct(t *testing.T) {
	s, long := source(t, "from: eventbridge"), strings.Repeat("x", 300)
	a, errA := s.Read(delivery(`{"id":"`+long+`a"}`, "m"))
	b, errB := s.Read(delivery(`{"id":"`+long+`b"}`, "m"))
	if err := errors.Join(errA, errB); err != nil || a.Messages[0].ID == b.Messages[0].ID || len(a.Messages[0].ID) > record.MaxName {
		t.Errorf("%q and %q, %v", a.Messages[0].ID, b.Messages[0].ID, err)
	}
}

func FuzzReadNeverPanicsAndMakesUpNoIdentity(f *testing.F) {
	for _, name := range []string{"eventbridge.json", "s3.json", "sns.json", "dynamodb-pipe.json"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	c, err := config.Parse("once.yaml", []byte("streams: {o: {}}\ningress: {a: {stream: o, from: eventbridge}, b: {stream: o, from: s3}, c: {stream: o, from: sns, group: $.topic}, d: {stream: o, from: pipes}}\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, name := range c.IngressNames() {
			s, err := New(c, name)
			if err != nil {
				t.Fatal(err)
			}
			read, err := s.Read(delivery(body, "m"))
			for i := range read.Messages {
				m := &read.Messages[i]
				if m.Principal != s.Principal() || err == nil && (m.Validate() != nil || m.ID == "m" && name != "c") {
					t.Errorf("%s: %+v, %v", name, m, err)
				}
			}
		}
	})
}
