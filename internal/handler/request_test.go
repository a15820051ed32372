package handler_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
)

func message(t *testing.T, m record.Message) handler.Message {
	t.Helper()
	out, err := handler.NewMessage(&m)
	if err != nil {
		t.Fatal("the message must be encoded:", err)
	}
	return out
}

func TestARequestHasTheStateAndWhatIsNotEmpty(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.FixedZone("", 3600))
	r := handler.Request{Stream: "orders", Group: "g", Version: 3, Attempt: "x", Messages: []handler.Message{
		message(t, record.Message{ID: "a", Try: 2, Accepted: at, ContentType: "application/json", Body: []byte(`{ "a": "<&>" }`)}),
		message(t, record.Message{Source: "s", Epoch: 1, Sequence: 7, ContentType: "text/plain", Body: []byte("hé")}),
		message(t, record.Message{ID: "c", ContentType: "application/json", Body: []byte("no JSON"), Headers: map[string]string{"X": "y"}}),
		message(t, record.Message{ID: "d", Body: []byte{0xff}}),
		message(t, record.Message{ID: "e", Group: "g", Timer: "late", TimerNumber: 4}),
	}}
	text, ids, err := r.Encode()
	want := `{"stream":"orders","group":"g","version":3,"attempt":"x","state":null,"messages":[` +
		`{"id":"a","try":2,"accepted":"2026-11-27T11:00:00Z","content_type":"application/json","body":{"a":"<&>"}},` +
		`{"id":"s/1/7","try":1,"content_type":"text/plain","source":"s","epoch":1,"sequence":7,"body":"hé"},` +
		`{"id":"c","try":1,"content_type":"application/json","headers":{"X":"y"},"body_base64":"bm8gSlNPTg=="},` +
		`{"id":"d","try":1,"body_base64":"/w=="},{"id":"e","try":1,"timer":"late"}]}`
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	if strings.Join(ids, " ") != "a s/1/7 c d e" {
		t.Errorf("ids %q, want those of all messages", ids)
	}
}

func TestABodyThatIsNotTheJSONOfItsContentTypeIsInBase64(t *testing.T) {
	for _, body := range []string{"no JSON", `"a" "b"`, `{"a":1`, "\"\xff\""} {
		for _, contentType := range []string{"application/json", "application/json; charset=utf-8", "application/problem+json"} {
			m := message(t, record.Message{ID: "a", ContentType: contentType, Body: []byte(body)})
			if m.Body != nil || string(m.BodyBase64) != body {
				t.Errorf("%q as %s: body is %s and body_base64 %q, want the bytes in body_base64 only", body, contentType, m.Body, m.BodyBase64)
			}
		}
	}
	if m := message(t, record.Message{ID: "a", ContentType: "application/json", Body: []byte(`"no JSON"`)}); string(m.Body) != `"no JSON"` || m.BodyBase64 != nil {
		t.Errorf("a JSON string is %s and %q, want it in body", m.Body, m.BodyBase64)
	}
}

func TestARequestHasTheStateAsItWasAnswered(t *testing.T) {
	r := handler.Request{State: json.RawMessage(`{"a":[1.50,"<"]}`), Messages: []handler.Message{{ID: "a", Try: 1}}}
	if text, _, err := r.Encode(); err != nil || !bytes.Contains(text, []byte(`"state":{"a":[1.50,"<"]}`)) {
		t.Errorf("%s, %v; want the same state", text, err)
	}
	r.State = json.RawMessage("not JSON")
	if _, _, err := r.Encode(); err == nil || !strings.Contains(err.Error(), "another kind of handler wrote it") {
		t.Errorf("%v; want an error about the state", err)
	}
}

func TestALargeRequestHasFewerMessagesButNeverNone(t *testing.T) {
	body := bytes.Repeat([]byte("a"), record.MaxBody)
	r := handler.Request{}
	for range 9 {
		r.Messages = append(r.Messages, message(t, record.Message{ID: "a", Body: body}))
	}
	text, ids, err := r.Encode()
	if err != nil || len(ids) != 3 || len(text) > handler.MaxRequest+10 || !json.Valid(text) {
		t.Errorf("%d messages in %d bytes, %v; want 3 in at most %d", len(ids), len(text), err, handler.MaxRequest)
	}
	r.Messages[0].Body = json.RawMessage(`"` + strings.Repeat("a", handler.MaxRequest) + `"`)
	if _, ids, err = r.Encode(); err != nil || len(ids) != 1 {
		t.Errorf("%d messages, %v; want the first one", len(ids), err)
	}
}
