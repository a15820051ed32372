package function

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// large is a reply too large to be stored in its token.
var large = bytes.Repeat([]byte("large "), 1000)

func answering(stream string) system.Stream {
	return system.Stream{Stream: record.Stream{Name: stream, Handler: func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.Reply(record.Reply{Status: http.StatusCreated, Body: large})
		return nil
	}}}
}

func TestAProcessFunctionsCallersGetDuplicatesLargeReplies(t *testing.T) {
	settings, clients := emulated(t, webhookConfig)
	b, err := newBackend(Process, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := b.Start([]system.Stream{answering("orders")})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(b.Handler())
	defer front.Close()
	post := func(prefer string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/v1/streams/orders/messages", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "by-http")
		r.Header.Set("Prefer", prefer)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	if response := post(""); response.StatusCode != http.StatusAccepted || response.Body.Close() != nil {
		t.Fatal(response.Status)
	}
	b.processAll(t, clients)

	response := post("wait=10")
	var body bytes.Buffer
	_, err = body.ReadFrom(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusCreated || !bytes.Equal(body.Bytes(), large) {
		t.Errorf("a duplicate by HTTP is answered with %s and %d bytes, %v", response.Status, body.Len(), err)
	}
	m := record.Message{Stream: "orders", ID: "by-code", Body: []byte("{}")}
	for name, run := range map[string]func() record.Outcome{
		"process": func() record.Outcome { return engine.Process(t.Context(), []record.Message{m})[0] },
		"call":    func() record.Outcome { return engine.Call(t.Context(), m) },
	} {
		run()
		if o := run(); o.Kind != record.Duplicate || o.Reply == nil || !bytes.Equal(o.Reply.Body, large) {
			t.Errorf("%s: a duplicate is %s with the reply %v: %v", name, o.Kind, o.Reply != nil, o.Err)
		}
	}
}

// processAll passes the queued messages to the function's own handler, as Lambda does.
func (b *Backend) processAll(t *testing.T, clients Clients) {
	t.Helper()
	list, err := sqsqueue.New(clients.SQS, b.settings.Queues.IngressFIFO).Receive(t.Context(), 10, time.Minute, 5*time.Second)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d messages, %v", len(list), err)
	}
	event, err := json.Marshal(host.Event("arn:aws:sqs:x:1:ingress.fifo", list))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := b.behind.Handler()(t.Context(), event)
	if response, ok := answer.(events.SQSEventResponse); err != nil || !ok || len(response.BatchItemFailures) > 0 {
		t.Fatalf("answered %+v, %v", answer, err)
	}
}

func TestAProcessFunctionsOwnEventsDoNotPayForReplies(t *testing.T) {
	settings, clients := emulated(t, webhookConfig)
	b, err := newBackend(Process, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Start([]system.Stream{answering("orders")}); err != nil {
		t.Fatal(err)
	}
	if o := b.behind.pipeline.Engine.Process(t.Context(), []record.Message{{Stream: "orders", ID: "1", Group: "g", Body: []byte("{}")}})[0]; o.Kind != record.Processed {
		t.Fatalf("the message is %s: %v", o.Kind, o.Err)
	}
	for store, replied := range map[*System]bool{b.behind: false, b.front: true} {
		_, tokens, err := store.store.Load(t.Context(), nil, []record.TokenKey{record.NewTokenKey("", "orders", "1")})
		if err != nil || tokens[0].State != record.Done || (tokens[0].Reply != nil) != replied {
			t.Errorf("%s: a token is %d with a reply: %v, %v", store.function, tokens[0].State, tokens[0].Reply != nil, err)
		}
	}
}

func TestAStreamThatOnlyTheCodeDeclaresIsRefusedAtTheStart(t *testing.T) {
	c, err := config.Parse("once.yaml", []byte(webhookConfig))
	if err != nil {
		t.Fatal(err)
	}
	settings := environment.Settings{Config: c}
	settings.Tables.Groups, settings.Tables.Tokens = "groups", "tokens"
	for _, function := range []Function{Ingest, Process, Publish} {
		b, err := newBackend(function, settings, Clients{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		other := answering("orders")
		other.Admission = record.ByToken
		_, err = b.Start([]system.Stream{other, answering("payments")})
		for _, part := range []string{"orders", "admission", "payments", "once.yaml"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v does not name %s", function, err, part)
			}
		}
	}
}
