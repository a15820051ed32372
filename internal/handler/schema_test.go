package handler_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
)

func compile(t *testing.T, name string) *validator.Schema {
	t.Helper()
	schema, err := validator.NewCompiler().Compile("../../schema/" + name)
	if err != nil {
		t.Fatal("the schema must compile:", err)
	}
	return schema
}

func valid(t *testing.T, schema *validator.Schema, text []byte) error {
	t.Helper()
	value, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func TestTheSchemaOfAnswersTakesWhatTheDecoderTakes(t *testing.T) {
	schema := compile(t, "handler-answer.schema.json")
	for _, text := range []string{
		whole, `{"messages":[{"id":"a"}]}`, `{"attempt":"9f2c","messages":[{"id":"a"}]}`, `{"state":null,"messages":[{"id":""}]}`, effect(`{"to":"x","after":"1d12h"}`), effect(`{"to":"x","after":"0s","body_base64":""}`),
		result(`"reply":{"status":599,"headers":{"X-A":""},"content_type":"text/plain","body":"a"}`),
	} {
		if err := valid(t, schema, []byte(text)); err != nil {
			t.Errorf("the schema refuses %s: %v", text, err)
		}
	}
}

// relations are rules that a schema can't express: between two documents, or about bytes.
var relations = regexp.MustCompile(`attempt must be "|messages\[0\]\.id must be "|has 3 results|is larger than|has more than|surrogate|must be at most 365d|has "a" twice|must be a string, because|must be a media type|twice`)

func TestTheSchemaOfAnswersRefusesWhatTheDecoderRefuses(t *testing.T) {
	schema := compile(t, "handler-answer.schema.json")
	refused := 0
	for text := range wrongAnswers() {
		_, err := handler.DecodeAnswer([]byte(text), "9f2c", []string{"a", "b"})
		if err == nil || relations.MatchString(err.Error()) {
			continue
		}
		if refused++; valid(t, schema, []byte(text)) == nil {
			t.Errorf("the schema takes %.200s, which the decoder refuses: %v", text, err)
		}
	}
	if refused < 30 {
		t.Errorf("%d documents were compared, want most of the table", refused)
	}
}

func TestRequestsSatisfyTheirSchema(t *testing.T) {
	schema := compile(t, "handler-request.schema.json")
	r := handler.Request{Stream: "orders", Group: "g", Version: 3, Attempt: "x", State: json.RawMessage("7"), Messages: []handler.Message{
		message(t, record.Message{ID: "a", Try: 2, Accepted: time.Now(), ContentType: "application/json", Body: []byte("1"), Headers: map[string]string{"X-A": "b"}}),
		message(t, record.Message{Source: "s", Epoch: 1, Sequence: 7, Body: []byte{0xff, 0}}),
		message(t, record.Message{ID: "c", Timer: "remind"}),
	}}
	text, _, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := valid(t, schema, text); err != nil {
		t.Errorf("the schema refuses %s: %v", text, err)
	}
	if valid(t, schema, []byte(strings.Replace(string(text), `"stream"`, `"streams"`, 1))) == nil {
		t.Error("the schema takes a request without a stream")
	}
}

func TestTheExamplesOfTheDocumentationSatisfyTheSchemas(t *testing.T) {
	page, err := os.ReadFile("../../docs/handlers.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1)
	if len(examples) != 2 {
		t.Fatalf("the page has %d documents, want a request and an answer", len(examples))
	}
	if err := valid(t, compile(t, "handler-request.schema.json"), examples[0][1]); err != nil {
		t.Error("the request of the page:", err)
	}
	if err := valid(t, compile(t, "handler-answer.schema.json"), examples[1][1]); err != nil {
		t.Error("the answer of the page:", err)
	}
	if _, err := handler.DecodeAnswer(examples[1][1], "9f2c", []string{"order-1", "order-2"}); err != nil {
		t.Error("the answer of the page:", err)
	}
}

func TestTheOpenAPIDocumentRefersToTheSchemas(t *testing.T) {
	text, err := os.ReadFile("../../schema/handler.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := yaml.Unmarshal(text, &document); err != nil || document["openapi"] != "3.1.0" {
		t.Errorf("the document is %v, %v; want OpenAPI 3.1", document["openapi"], err)
	}
	for _, ref := range regexp.MustCompile(`\$ref: (\S+)}`).FindAllSubmatch(text, -1) {
		compile(t, string(ref[1]))
	}
}
