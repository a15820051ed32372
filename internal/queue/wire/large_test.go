package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// dearest is a valid message whose every part has the largest size, of the characters that take the
// most space in a queue.
func dearest(t *testing.T) record.Message {
	t.Helper()
	name := strings.Repeat("\uFFFF", record.MaxName/3)
	m := record.Message{
		Principal: name, Stream: strings.Repeat("s", record.MaxStreamName), ID: name, Group: name, Source: name, Epoch: 1<<64 - 1, Sequence: 1<<64 - 1,
		DependsOn: map[string]uint64{}, Headers: map[string]string{"h": strings.Repeat("\x01", record.MaxHeaders-1)}, Body: make([]byte, record.MaxBody),
		Route: "POST /v1/" + name, Accepted: sentAt,
	}
	for i := range record.MaxDependsOn / (3 + 8) {
		m.DependsOn[fmt.Sprintf("%03X", i)] = 1<<64 - 1
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTheDeadLetterOfEveryValidMessageFitsWithoutLoss(t *testing.T) {
	sent := record.Refused{Message: dearest(t), Reason: record.ReasonHandler, Detail: strings.Repeat("d", 10*maxReason)}
	got, err := FromDeadLetter(through(t, ToDeadLetter(sent, queue.MaxLarge)), trusted)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sent.Message.Body, got.Message.Body) {
		t.Errorf("the body of %d bytes is another one, of %d", len(sent.Message.Body), len(got.Message.Body))
	}
	sent.Message.Body, got.Message.Body = nil, nil // cmp would compare them byte by byte
	if diff := cmp.Diff(sent.Message, got.Message, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("message (-sent +received):\n%s", diff)
	}
}

// refusal returns the dead letter of an invalid message, as a reader of the dead-letter queue gets
// it, and the message as the function received it.
func refusal(t *testing.T, body string, attributes map[string]string) (letter record.Refused, m record.Message) {
	t.Helper()
	sent := queue.Message{Body: body, Attributes: attributes}
	if err := sent.Validate("ingress"); err != nil {
		t.Fatalf("no queue takes it in the first place: %v", err)
	}
	m, _, err := FromQueue(foreign(body, attributes, queue.Message{}), trusted)
	if err == nil { // the body is not too large for every stream, but for most
		err = record.Stream{}.CheckBody(&m)
	}
	invalid, ok := errors.AsType[*record.InvalidError](err)
	if !ok {
		t.Fatalf("not invalid: %v", err)
	}
	dead := ToDeadLetter(record.Refused{Message: m, Reason: record.ReasonInvalid, Detail: invalid.Error()}, queue.MaxSize)
	if err := dead.Validate("dead"); err != nil {
		t.Errorf("the dead-letter queue does not take it: %v", err)
	}
	letter, err = FromDeadLetter(through(t, dead), trusted)
	if _, ok := errors.AsType[*record.InvalidError](err); !ok {
		t.Errorf("a letter that lacks something can be redriven: %v", err)
	}
	return letter, m
}

func TestATooLargeDeadLetterListsTheOmittedPartsInItsReason(t *testing.T) {
	const most = queue.MaxSize - 100
	depends := func(bytes int) string {
		var b strings.Builder
		for i := 0; b.Len() < bytes-20; i++ {
			fmt.Fprintf(&b, "a%d=1,", i)
		}
		return b.String() + "z=1"
	}
	for name, c := range map[string]struct {
		body       string
		attributes map[string]string
		lacks      []string
		headers    bool // are left out
		body0      int  // the least number of bytes of the body that stay
		depends    bool // are left out
	}{
		"headers":               {"hello", map[string]string{"a": strings.Repeat(`"`, 700<<10)}, []string{"headers (716801 bytes)"}, true, 5, false},
		"content type":          {"hello", map[string]string{"Content-Type": strings.Repeat("\u2028", 300<<10)}, []string{"headers (921600 bytes)"}, true, 5, false},
		"malformed attribute":   {"hello", map[string]string{"once-gruop": strings.Repeat(`\`, 700<<10)}, []string{"headers (716810 bytes)"}, true, 5, false},
		"body":                  {strings.Repeat("é", most/2), nil, []string{"the body behind its first ", " of 1048476 bytes"}, false, most - 3072, false},
		"body and header":       {strings.Repeat("b", most-100), map[string]string{"a": "x"}, []string{"headers (2 bytes)", "the body behind its first ", " of 1048376 bytes"}, true, most - 3072, false},
		"encoded body":          {strings.Repeat("AAEC", most/4-10), map[string]string{AttrMeta: `{"encoding":"base64"}`}, []string{"the body behind its first ", " of 786327 bytes"}, false, most/4*3 - 3072, false},
		"dependencies":          {"hello", map[string]string{AttrDependsOn: depends(most - 100)}, []string{"the body behind its first 0 of 5 bytes", "dependencies ("}, false, 0, true},
		"dependencies and body": {strings.Repeat("b", 400<<10), map[string]string{AttrDependsOn: depends(600 << 10)}, []string{"the body behind its first "}, false, 200 << 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			attributes := map[string]string{AttrStream: "orders", AttrID: "käse-1", AttrGroup: "g"}
			maps.Copy(attributes, c.attributes)
			letter, sent := refusal(t, c.body, attributes)
			m := letter.Message
			if m.Stream != "orders" || m.ID != "käse-1" || m.Group != "g" || letter.Reason != record.ReasonInvalid {
				t.Errorf("it is %q of group %q in %q, %s", m.ID, m.Group, m.Stream, letter.Reason)
			}
			for _, lacks := range c.lacks {
				if !strings.Contains(letter.Detail, lacks) {
					t.Errorf("the reason does not name %q: %s", lacks, letter.Detail)
				}
			}
			delete(m.Headers, attrCut)
			if lost := len(m.Headers) == 0 && m.ContentType == ""; lost != (c.headers || len(sent.Headers) == 0 && sent.ContentType == "") {
				t.Errorf("headers lost: %v", lost)
			}
			if !strings.HasPrefix(string(sent.Body), string(m.Body)) || len(m.Body) < c.body0 || !queue.ValidText(string(m.Body)) && queue.ValidText(string(sent.Body)) {
				t.Errorf("%d bytes of the body of %d", len(m.Body), len(sent.Body))
			}
			if lost := len(m.DependsOn) == 0; lost != (c.depends || len(sent.DependsOn) == 0) {
				t.Errorf("dependencies lost: %v", lost)
			}
		})
	}
}

func TestALargeBodyIsWholeInTheLetterOfAQueueThatTakesIt(t *testing.T) {
	m := full()
	m.Body = make([]byte, record.MaxBody)
	letter := through(t, ToDeadLetter(record.Refused{Message: m, Reason: record.ReasonHandler}, queue.MaxLarge))
	if got, err := FromDeadLetter(letter, trusted); err != nil || len(got.Message.Body) != record.MaxBody {
		t.Errorf("%d bytes, %v", len(got.Message.Body), err)
	}
	m.Headers, m.Body = map[string]string{"h": strings.Repeat("\x01", queue.MaxBeside/6)}, make([]byte, 600<<10)
	letter = through(t, ToDeadLetter(record.Refused{Message: m, Reason: record.ReasonInvalid}, queue.MaxLarge))
	if reason := letter.Attributes[AttrReason]; !strings.Contains(reason, "left out: headers (") || strings.Contains(reason, "the body") {
		t.Errorf("attributes that don't fit beside the body: %s", reason)
	}
}

func TestTheLargestEffectFitsIntoAQueueThatTakesLargeBodies(t *testing.T) {
	m, name := dearest(t), strings.Repeat("\uFFFF", record.MaxName/3)
	d := record.Delivery{
		Identity: strings.Repeat(name, 3), Stream: m.Stream, Group: name, Number: 1<<64 - 1, Incarnation: 1<<64 - 1, Sequence: 1<<64 - 1, Target: name,
		Effect: record.Effect{ContentType: "", Headers: m.Headers, Body: m.Body, DependsOn: m.DependsOn, Chain: map[string]uint64{name: 1<<64 - 1}},
	}
	letter := through(t, ToDeadLetter(record.Refused{Delivery: &d, To: name, Reason: record.ReasonHandler, Detail: strings.Repeat("d", maxReason)}, queue.MaxLarge))
	got, err := FromDeadLetter(letter, trusted)
	if err != nil || got.Delivery == nil || len(got.Delivery.Effect.Body) != record.MaxBody {
		t.Errorf("%v", err)
	}
}

func TestABodyThatWasNotReadIsNeverTakenForAnother(t *testing.T) {
	away := errors.New("away")
	for name, sent := range map[string]queue.Message{
		"message": ToQueue(full()), "trigger": ToTrigger(record.GroupKey{Stream: "s"}), "effect": ToRedelivery("shop", record.Delivery{Identity: "s/1", Stream: "s", Group: "g"}),
	} {
		d := through(t, sent)
		d.Unread = away
		if m, _, err := FromQueue(d, trusted); !errors.Is(err, away) || len(m.Body) > 0 {
			t.Errorf("%s: body %q, %v", name, m.Body, err)
		}
		if name != "message" {
			if x, err := FromTrigger(d); !errors.Is(err, away) || x.Delivery != nil {
				t.Errorf("%s: %+v, %v", name, x, err)
			}
		}
		letter, err := FromDeadLetter(d, trusted)
		if name != "trigger" && !errors.Is(err, away) {
			t.Errorf("dead letter of %s: %+v, %v", name, letter, err)
		}
		var want *record.Delivery
		if name == "effect" { // only its names
			want = &record.Delivery{Identity: "s/1", Stream: "s", Group: "g"}
		}
		if diff := cmp.Diff(want, letter.Delivery); diff != "" || letter.To != "" && letter.To != "shop" {
			t.Errorf("dead letter of %s to %q: %s", name, letter.To, diff)
		}
	}
}

func TestABodyOfTextIsNotCutWithinACharacter(t *testing.T) {
	for over := 1; over <= 8; over++ {
		m := record.Message{Body: []byte(strings.Repeat("a\u00e9\u20ac\U0001f600", 3))}
		size := len(m.Body)
		left := cutBody(&m, over)
		if cut := size - len(m.Body); !utf8.Valid(m.Body) || cut < over || cut > over+3 {
			t.Errorf("%d bytes over: %d were cut, %q stays", over, cut, m.Body)
		}
		if want := fmt.Sprintf("the body behind its first %d of %d bytes", len(m.Body), size); len(left) != 1 || left[0] != want {
			t.Errorf("got %q, want %q", left, want)
		}
	}
}

func TestNamesAreCutOnlyIfNothingElseCanBeLeftOut(t *testing.T) {
	// a line separator has two bytes in the id, and is an escape of six in JSON
	id := "\x01" + strings.Repeat("\u2028", 300<<10)
	text, err := json.Marshal(map[string]any{"id": "ID"})
	if err != nil {
		t.Fatal(err)
	}
	meta := strings.ReplaceAll(string(text), "ID", `\u0001`+id[1:])
	letter, _ := refusal(t, "hello", map[string]string{AttrStream: "orders", AttrGroup: "g", AttrMeta: meta})
	if m := letter.Message; m.Stream != "orders" || m.Group != "g" || m.ID == "" || !strings.HasPrefix(id, m.ID) {
		t.Errorf("it is %.20q of group %q in %q", m.ID, m.Group, m.Stream)
	}
	if !strings.Contains(letter.Detail, "the id behind its first 256 of 921601 bytes") {
		t.Errorf("the reason does not name it: %s", letter.Detail)
	}
}

func TestOmittedPartsAreListedEvenIfTheReasonIsLong(t *testing.T) {
	m := full()
	m.Body = make([]byte, queue.MaxSize)
	letter := through(t, ToDeadLetter(record.Refused{Message: m, Reason: record.ReasonInvalid, Detail: strings.Repeat("ü", maxReason)}, queue.MaxSize))
	reason := letter.Attributes[AttrReason]
	if len(reason) > maxReason || !strings.HasPrefix(reason, "invalid: ü") || !strings.HasSuffix(reason, " of 1048576 bytes") {
		t.Errorf("%d bytes: %s", len(reason), reason)
	}
}

// FuzzToDeadLetter makes large messages out of small inputs: each @ is replaced by many copies of
// the filling.
func FuzzToDeadLetter(f *testing.F) {
	for i, attributes := range []string{
		`{"once-stream":"s","once-id":"1","a":"@"}`, `{"once-stream":"s","once-id":"1@"}`, `{"once-stream":"@","once-group":"@"}`, `{"once-depends-on":"@"}`,
		`{"once-meta":"{\"id\":\"\\u0001@\",\"group\":\"@\"}"}`, `{"once-meta":"{\"headers\":{\"@\":\"@\"},\"content_type\":\"@\"}"}`,
		`{"once-meta":"{\"encoding\":\"base64\"}"}`, `{"once-meta":"@"}`, `{"once-source":"@","once-epoch":"@","once-sequence":"@"}`,
		`{"once-meta":"{\"principal\":\"@\",\"route\":\"@\",\"accepted\":\"9999-12-31T23:59:59-23:59\"}"}`,
	} {
		for j, filling := range []string{`"`, "\u2028", `\ufffe`, "é", "a=1, ", "AAEC"} {
			body, sender := "x", []string{Sender, "mallory"}[(i+j)%2]
			if j%3 == 0 {
				body = "x@"
			}
			f.Add(body, attributes, sender, filling, uint32((1<<20-400)/len(filling)/strings.Count(body+attributes+"@", "@")))
		}
	}
	f.Fuzz(func(t *testing.T, body, attributes, sender, filling string, times uint32) {
		var values map[string]string
		if json.Unmarshal([]byte(attributes), &values) != nil || filling == "" {
			return
		}
		filling = strings.Repeat(filling, int(times)%(queue.MaxSize/len(filling)+1))
		if places := strings.Count(body+attributes, "@"); places*len(filling) > 2*queue.MaxSize {
			return
		}
		body = strings.ReplaceAll(body, "@", filling)
		for name, value := range values {
			values[name] = strings.ReplaceAll(value, "@", filling)
		}
		sent := queue.Message{Body: body, Attributes: values}
		if sent.Validate("ingress") != nil {
			return
		}
		d := foreign(body, values, queue.Message{Group: "g"})
		d.Sender = sender
		m, _, err := FromQueue(d, trusted)
		dead := ToDeadLetter(record.Refused{Message: m, Reason: record.ReasonInvalid, Detail: fmt.Sprint(err)}, queue.MaxSize)
		if err := dead.Validate("dead"); err != nil {
			t.Fatalf("the dead-letter queue does not take it: %v", err)
		}
		letter := through(t, dead)
		if again, _, readErr := FromQueue(letter, trusted); err != nil && readErr == nil {
			t.Fatalf("%v: but its dead letter is a valid message: %+v", err, again)
		}
	})
}

func TestATimeThatJSONCanNotExpressIsLeftOut(t *testing.T) {
	m := full()
	m.Accepted = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))
	through(t, ToQueue(m))
}
