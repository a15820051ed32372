package handler_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/handler"
)

const whole = `{"state": {"cents": 30}, "messages": [
	{"id": "a", "reply": {"status": 201, "headers": {"x-a": "1"}, "body": {"ok": true}}, "effects": [
		{"to": "mail", "group": "g", "after": "1d12h", "body": [1, 2]},
		{"to": "raw", "content_type": "text/plain", "body": "hé"},
		{"to": "raw", "content_type": "image/png", "body_base64": "AAE="},
		{"timer": "remind", "after": "15m"},
		{"cancel": "old"}],
	 "append": [{"body": null}, {}]},
	{"id": "b", "reject": "no money"}]}`

func TestAWholeAnswerIsRead(t *testing.T) {
	a, err := handler.DecodeAnswer([]byte(whole), "9f2c", []string{"a", "b", "c"})
	if err != nil {
		t.Fatal("the answer must be read:", err)
	}
	if !a.SetState || string(a.State) != `{"cents":30}` || len(a.Results) != 2 {
		t.Fatalf("state %v %q and %d results, want the state and 2", a.SetState, a.State, len(a.Results))
	}
	r := a.Results[0]
	if r.Reply.Status != 201 || string(r.Reply.Body) != `{"ok":true}` || r.Reply.Header["X-A"][0] != "1" || r.Reply.Header["Content-Type"][0] != "application/json" {
		t.Errorf("reply %+v", r.Reply)
	}
	if len(r.Effects) != 5 || len(r.Append) != 2 {
		t.Fatalf("%d effects and %d entries, want 5 and 2", len(r.Effects), len(r.Append))
	}
	if e := r.Effects[0]; e.To != "mail" || e.Group != "g" || e.After != 36*time.Hour || e.ContentType != "application/json" || string(e.Body) != "[1,2]" {
		t.Errorf("effect %+v", e)
	}
	if e := r.Effects[1]; string(e.Body) != "hé" || e.ContentType != "text/plain" {
		t.Errorf("text %+v", e)
	}
	if e := r.Effects[2]; string(e.Body) != "\x00\x01" {
		t.Errorf("bytes %+v", e)
	}
	if e := r.Effects[3]; e.Timer != "remind" || e.After != 15*time.Minute || e.ContentType != "" {
		t.Errorf("timer %+v", e)
	}
	if e := r.Effects[4]; e.Cancel != "old" {
		t.Errorf("cancel %+v", e)
	}
	if string(r.Append[0].Body) != "null" || len(r.Append[1].Body) != 0 {
		t.Errorf("entries %+v: a body of null is content, and no body is none", r.Append)
	}
	if last := a.Results[1]; !last.Rejected || last.Reject != "no money" {
		t.Errorf("refusal %+v", last)
	}
}

func TestAStateIsLeftUnlessItIsInTheAnswer(t *testing.T) {
	for text, want := range map[string]handler.Answer{
		`{"messages":[{"id":"a"}]}`:                  {},
		`{"attempt":"9f2c","messages":[{"id":"a"}]}`: {},
		`{"state":null,"messages":[{"id":"a"}]}`:     {SetState: true},
		`{"state": 7 ,"messages":[{"id":"a"}]}`:      {SetState: true, State: []byte("7")},
		`{"state":"null","messages":[{"id":"a"}]}`:   {SetState: true, State: []byte(`"null"`)},
	} {
		a, err := handler.DecodeAnswer([]byte(text), "9f2c", []string{"a"})
		if err != nil || a.SetState != want.SetState || string(a.State) != string(want.State) {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	}
}

func effect(text string) string { return `{"messages":[{"id":"a","effects":[` + text + `]}]}` }

func result(text string) string { return `{"messages":[{"id":"a",` + text + `}]}` }

// wrongAnswers are answers to a request for the messages a and b, with a part of their error.
func wrongAnswers() map[string]string {
	large, base64 := strings.Repeat("a", 1<<20+1), strings.Repeat("AAAA", 1<<19)
	return map[string]string{
		``:                        "is empty",
		`{"messages":[{"id":"a"`:  "ends in the middle",
		`<html>`:                  "is not JSON",
		`{"messages":[]} x`:       "has text after",
		`[]`:                      "must be a JSON object",
		"{\"messages\":\"\xff\"}": "must be UTF-8",
		`{}`:                      "must have messages",
		`{"attempt":"9","messages":[{"id":"a"}]}`:                        `attempt must be "9f2c", as in the request, or left out`,
		`{"attempt":7,"messages":[{"id":"a"}]}`:                          "attempt must be",
		`{"messages":[]}`:                                                "messages must have at least one result",
		`{"messages":null}`:                                              "messages must be a list",
		`{"messages":{}}`:                                                "messages must be a list",
		`{"messages":[1]}`:                                               "messages[0] must be a JSON object",
		`{"Messages":[{"id":"a"}]}`:                                      `unknown member "Messages"`,
		`{"messages":[{"id":"a"}],"states":1}`:                           `unknown member "states"; the members are state, messages`,
		`{"messages":[{"id":"a"}],"messages":[{"id":"a"}]}`:              `has the member "messages" twice`,
		`{"messages":[{}]}`:                                              `messages[0].id must be "a"`,
		`{"messages":[{"id":1}]}`:                                        `messages[0].id must be a string`,
		`{"messages":[{"id":"b"}]}`:                                      `messages[0].id must be "a"`,
		`{"messages":[{"id":"b"},{"id":"a"}]}`:                           `messages[0].id must be "a"`,
		`{"messages":[{"id":"a"},{"id":"b"},{"id":"c"}]}`:                `has 3 results, and the request 2`,
		result(`"replies":1`):                                            `messages[0] has the unknown member "replies"`,
		result(`"reject":""`):                                            "must say why",
		result(`"reject":true`):                                          "messages[0].reject must be a string",
		result(`"reject":"no","effects":[]`):                             "have no reply, effects or append",
		result(`"reply":{}`):                                             "reply.status must be a number",
		result(`"reply":{"status":199}`):                                 "from 200 to 599",
		result(`"reply":{"status":"200"}`):                               "reply.status must be a number",
		result(`"reply":{"status":200,"body":1,"code":1}`):               `reply has the unknown member "code"`,
		result(`"reply":{"status":200,"headers":[]}`):                    "headers must be a JSON object",
		result(`"reply":{"status":200,"headers":{"a b":"c"}}`):           "headers must have names that HTTP allows",
		result(`"reply":{"status":200,"headers":{"a":1}}`):               "headers.a must be a string",
		result(`"reply":{"status":200,"headers":{"a":"\n"}}`):            "no control characters",
		result(`"reply":{"status":200,"headers":{"a":"","A":""}}`):       `has "a" twice`,
		result(`"append":{}`):                                            "append must be a list",
		result(`"append":[{"to":"x"}]`):                                  `append[0] has the unknown member "to"`,
		effect(`{}`):                                                     "effects[0] must have exactly one of to, timer and cancel",
		effect(`{"to":"x","timer":"y","after":"1s"}`):                    "must have exactly one of",
		effect(`{"to":""}`):                                              "effects[0].to must be 1 to 256 bytes",
		effect(`{"to":["x"]}`):                                           "effects[0].to must be a string",
		effect(`{"to":"x","group":""}`):                                  "effects[0].group must be 1 to 256 bytes",
		effect(`{"to":"\ud800"}`):                                        "surrogate",
		effect(`{"to":"x","after":"soon"}`):                              "must be a duration",
		effect(`{"to":"x","after":5}`):                                   "must be a duration",
		effect(`{"to":"x","after":"366d"}`):                              "must be at most 365d",
		effect(`{"timer":"x"}`):                                          "must have after",
		effect(`{"timer":"x","after":"1s","group":"g"}`):                 "group is only for",
		effect(`{"cancel":"x","after":"1s"}`):                            "must have no other member",
		effect(`{"to":"x","body":1,"body_base64":""}`):                   "exclude each other",
		effect(`{"to":"x","body_base64":"A"}`):                           "must be base64",
		effect(`{"to":"x","body_base64":7}`):                             "body_base64 must be a string",
		effect(`{"to":"x","content_type":"text","body":7}`):              "must be a string, because content_type is text",
		effect(`{"to":"x","content_type":";","body":7}`):                 "content_type must be a media type",
		effect(`{"to":"x","content_type":"a/b","body":"` + large + `"}`): "body of 1048577 bytes is larger than 1048576",
		effect(`{"to":"x","body_base64":"` + base64 + `"}`):              "body_base64 of 1572864 bytes is larger",
		strings.Repeat(" ", handler.MaxAnswer+1):                         "has more than",
	}
}

func TestAnAnswerThatBreaksARuleIsRefusedWithItsPlace(t *testing.T) {
	for text, want := range wrongAnswers() {
		a, err := handler.DecodeAnswer([]byte(text), "9f2c", []string{"a", "b"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %+v, %v; want an error with %q", text, a, err, want)
		}
	}
}

func TestAReplacementCharacterThatIsWrittenIsNoError(t *testing.T) {
	for _, name := range []string{"\ufffd", `\ufffd`, `\\ufffd \uFFFD`} {
		if _, err := handler.DecodeAnswer([]byte(effect(`{"to":"`+name+`"}`)), "9f2c", []string{"a"}); err != nil {
			t.Errorf("%s: %v; want no error", name, err)
		}
	}
}

func TestNumbersInTheStateOfAnAnswerAreThoseOfTheNextRequest(t *testing.T) {
	const state = `{"n":123456789012345678901234567890,"x":1e400,"y":1.10}`
	a, err := handler.DecodeAnswer([]byte(`{"state":`+state+`,"messages":[{"id":"a"}]}`), "9f2c", []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	r := handler.Request{State: a.State, Messages: []handler.Message{{ID: "b"}}}
	if text, _, err := r.Encode(); err != nil || !bytes.Contains(text, []byte(`"state":`+state+`,`)) {
		t.Errorf("got %s and %v, want the state %s", text, err, state)
	}
}
