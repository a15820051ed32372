package function

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/function/environment"
)

const directConfig = `
streams:
  loose:    {order: none, direct: true}
  numbered: {admission: sequence, direct: true}
  queued:   {order: none}
`

// openDirect opens the ingest function with streams whose handlers are the same.
func openDirect(t *testing.T, handler record.Handler) (*System, *offline) {
	t.Helper()
	o := &offline{tables: map[string]map[string]json.RawMessage{"groups": {}, "tokens": {}}}
	settings, err := environment.Read(variables(nil))
	if err != nil {
		t.Fatal(err)
	}
	if settings.Config, err = config.Parse("once.yaml", []byte(directConfig)); err != nil {
		t.Fatal(err)
	}
	var declared []system.Stream
	for _, name := range []string{"loose", "numbered", "queued"} {
		declared = append(declared, system.Stream{Stream: record.Stream{Name: name, Handler: handler, Stateless: true}})
	}
	clients := Clients{DynamoDB: o.dynamodb(), SQS: sqs.New(sqs.Options{
		Region: "eu-central-1", Credentials: anyKeys(), HTTPClient: o, RetryMaxAttempts: 1, DisableMessageChecksumValidation: true,
	})}
	s, err := Open(Ingest, settings, clients, nil, declared...)
	if err != nil {
		t.Fatal(err)
	}
	return s, o
}

// send sends a message through the gateway, and returns its status or the answer's code.
func send(t *testing.T, s *System, stream string) events.APIGatewayV2HTTPResponse {
	t.Helper()
	event := `{"version":"2.0","rawPath":"/v1/streams/STREAM/messages","body":"x","headers":{"content-type":"text/plain","idempotency-key":"k","once-source":"s","once-sequence":"1"},
		"requestContext":{"requestId":"r","http":{"method":"POST","path":"/v1/streams/STREAM/messages"}}}`
	answer, err := s.Handler()(t.Context(), json.RawMessage(strings.ReplaceAll(event, "STREAM", stream)))
	if err != nil {
		t.Fatal(err)
	}
	return answer.(events.APIGatewayV2HTTPResponse)
}

func nothing(context.Context, *record.Attempt, record.Message) error { return nil }

func TestADirectMessageCostsNoRequestToAQueue(t *testing.T) {
	for stream, want := range map[string][]string{
		"loose":    {"GetItem", "PutItem"}, // the token is read, and then done
		"numbered": {"GetItem", "PutItem"}, // the group is read and committed
		"queued":   {"PutItem", "AmazonSQS.SendMessageBatch"},
	} {
		t.Run(stream, func(t *testing.T) {
			s, o := openDirect(t, nothing)
			a := send(t, s, stream)
			status := `"status":"done"`
			if stream == "queued" {
				status = `"status":"accepted"`
			}
			if a.StatusCode != http.StatusAccepted || !strings.Contains(a.Body, status) {
				t.Errorf("%+v", a)
			}
			if d := cmp.Diff(want, o.calls); d != "" {
				t.Errorf("calls (-want +got)\n%s", d)
			}
		})
	}
}

func TestADirectMessageThatFailsGoesOnTheStandardQueueAfterAPause(t *testing.T) {
	for _, stream := range []string{"loose", "numbered"} {
		s, o := openDirect(t, func(context.Context, *record.Attempt, record.Message) error { return errors.New("not yet") })
		if a := send(t, s, stream); a.StatusCode != http.StatusAccepted || !strings.Contains(a.Body, `"status":"accepted"`) {
			t.Errorf("%s: %+v", stream, a)
		}
		if d := cmp.Diff([]map[string]any{{"QueueUrl": "https://q/1/ingress", "DelaySeconds": 1}}, o.messages); d != "" {
			t.Errorf("%s: queued (-want +got)\n%s", stream, d)
		}
	}
}

func TestAFunctionDoesNotStartWithADirectStreamThatNeedsTheOrderOfAQueue(t *testing.T) {
	for text, wrong := range map[string]bool{
		"{direct: true}":                      true,
		"{direct: true, admission: token}":    true,
		"{direct: true, order: none}":         false,
		"{direct: true, admission: sequence}": false,
		"{direct: false}":                     false,
		"{}":                                  false,
	} {
		settings, err := environment.Read(variables(nil))
		if err != nil {
			t.Fatal(err)
		}
		if settings.Config, err = config.Parse("once.yaml", []byte("streams: {orders: "+text+"}\n")); err != nil {
			t.Fatal(err)
		}
		_, err = Open(Ingest, settings, Clients{}, nil)
		if refused := err != nil && strings.Contains(err.Error(), "streams.orders.direct"); refused != wrong {
			t.Errorf("%s: %v", text, err)
		}
		warned := strings.Contains(strings.Join(settings.Config.Warnings(), "\n"), "streams.orders.direct")
		if warned != wrong {
			t.Errorf("%s: warnings %q", text, settings.Config.Warnings())
		}
	}
}

func TestAFunctionDoesNotStartWithADirectStreamThatCodeOrders(t *testing.T) {
	settings, err := environment.Read(variables(nil))
	if err != nil {
		t.Fatal(err)
	}
	if settings.Config, err = config.Parse("once.yaml", []byte("streams: {orders: {direct: true, order: none}}\n")); err != nil {
		t.Fatal(err)
	}
	ordered := system.Stream{Stream: record.Stream{Name: "orders", Handler: nothing}, Ordered: true}
	if _, err = Open(Ingest, settings, Clients{}, nil, ordered); err == nil || !strings.Contains(err.Error(), "streams.orders.direct") {
		t.Errorf("the function starts: %v", err)
	}
}

// Without the handler, the messages would be forwarded: perhaps its url was forgotten.
func TestAProcessFunctionDoesNotStartWithoutAHandlerThatHasSettings(t *testing.T) {
	settings, err := environment.Read(variables(nil))
	if err != nil {
		t.Fatal(err)
	}
	if settings.Config, err = config.Parse("once.yaml", []byte("streams: {orders: {}}\nhandlers: {orders: {timeout: 5s}}\n")); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(Process, settings, Clients{}, nil); err == nil || !strings.Contains(err.Error(), "handlers.orders") {
		t.Errorf("the function starts: %v", err)
	}
	if _, err = Open(Process, settings, Clients{}, nil, system.Stream{Stream: record.Stream{Name: "orders", Handler: nothing}}); err != nil {
		t.Errorf("the function does not start: %v", err)
	}
	if _, err = Open(Publish, settings, Clients{}, nil); err != nil {
		t.Errorf("a function without handlers does not start: %v", err)
	}
}

func TestAHandlerOfAFunctionHasTheTimeoutOfItsStream(t *testing.T) {
	var deadline time.Time
	s, _ := openDirect(t, func(ctx context.Context, _ *record.Attempt, _ record.Message) error {
		deadline, _ = ctx.Deadline()
		return nil
	})
	if a := send(t, s, "loose"); a.StatusCode != http.StatusAccepted || deadline.IsZero() || deadline.After(time.Now().Add(record.DefaultTimeout)) {
		t.Errorf("%+v, with a deadline of %v", a, deadline)
	}
}
