package eventdest_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/aws/call"
	"github.com/effectively-once/once/internal/destination/batch"
	eventdest "github.com/effectively-once/once/internal/destination/eventbridge"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

func delivery(number uint64, contentType, body string) record.Delivery {
	return record.Delivery{
		Identity: fmt.Sprint("orders/a/", number), Stream: "orders", Group: "a", Number: number, Target: "a",
		Effect: record.Effect{ID: "outside", ContentType: contentType, Body: []byte(body), Headers: map[string]string{"Detail-Type": "OrderPaid"}},
	}
}

func open(t *testing.T, client *call.Client, bus string) *eventdest.Sender {
	t.Helper()
	s, err := eventdest.New(client, bus)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestARuleMatchesTheBodyAndATargetFindsTheIdentity(t *testing.T) {
	cfg := awstest.Config(t, "EVENTBRIDGE")
	client, name := call.New(cfg, call.EventBridge()), rand.Text()
	queues := sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.BaseEndpoint = aws.String(os.Getenv("AWS_ENDPOINT_URL_EVENTBRIDGE")) })
	url := listen(t, client, queues, name)

	errs := open(t, client, name).Send(t.Context(), []record.Delivery{
		delivery(1, "application/json", `{"status":"new"}`), delivery(2, "application/json", `{"status":"paid"}`), delivery(3, "text/plain", "paid"),
	})
	for i, err := range errs {
		if err != nil {
			t.Errorf("delivery %d: %v", i, err)
		}
	}
	out, err := queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 5})
	if err != nil || len(out.Messages) != 1 {
		t.Fatalf("%d messages, %v", len(out.Messages), err)
	}
	var event struct {
		Source     string
		DetailType string `json:"detail-type"`
		Detail     map[string]any
	}
	if err := json.Unmarshal([]byte(aws.ToString(out.Messages[0].Body)), &event); err != nil {
		t.Fatal(err)
	}
	if event.Source != "once.orders" || event.DetailType != "OrderPaid" || event.Detail["identity"] != "orders/a/2" {
		t.Errorf("event %+v", event)
	}
}

// listen makes a bus, and a queue that receives paid orders; it returns the queue's URL.
func listen(t *testing.T, client *call.Client, queues *sqs.Client, name string) string {
	t.Helper()
	queue := awstest.Queue(t, queues, name, nil)
	must := func(operation string, in map[string]any) (out struct{ EventBusArn string }) {
		if err := client.JSON(t.Context(), operation, in, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	bus := must("CreateEventBus", map[string]any{"Name": name})
	must("PutRule", map[string]any{"Name": name, "EventBusName": name, "EventPattern": `{"source": ["once.orders"], "detail": {"body": {"status": ["paid"]}}}`})
	arn := strings.Replace(bus.EventBusArn, ":events:", ":sqs:", 1)
	arn = strings.Replace(arn, "event-bus/", "", 1)
	must("PutTargets", map[string]any{"Rule": name, "EventBusName": name, "Targets": []any{map[string]any{"Id": "queue", "Arn": arn}}})
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err1 := client.JSON(ctx, "RemoveTargets", map[string]any{"Rule": name, "EventBusName": name, "Ids": []string{"queue"}}, nil)
		err2 := client.JSON(ctx, "DeleteRule", map[string]any{"Name": name, "EventBusName": name}, nil)
		err3 := client.JSON(ctx, "DeleteEventBus", map[string]any{"Name": name}, nil)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Error(err)
		}
	})
	return queue
}

// request is the body of a request to a bus.
type request struct {
	Entries []struct{ Source, DetailType, Detail, EventBusName string }
}

// serve returns a client of a service that answers by a function.
func serve(t *testing.T, answer func(w http.ResponseWriter, in request)) *call.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in request
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &in)
		}
		if err != nil {
			t.Errorf("request %s: %v", body, err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		answer(w, in)
	}))
	t.Cleanup(server.Close)
	return call.New(aws.Config{
		Region: "eu-central-1", BaseEndpoint: &server.URL, RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
	}, call.EventBridge())
}

// result writes the results of entries: an error code for each, empty for success.
func result(w http.ResponseWriter, codes ...string) {
	var entries []map[string]string
	failed := 0
	for _, code := range codes {
		if code == "" {
			entries = append(entries, map[string]string{"EventId": "e"})
			continue
		}
		failed++
		entries = append(entries, map[string]string{"ErrorCode": code, "ErrorMessage": "told so"})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"FailedEntryCount": failed, "Entries": entries})
}

func TestTheDetailHasTheFieldsOfALineOfAFile(t *testing.T) {
	for _, c := range []struct{ contentType, body, want string }{
		{"application/json; charset=utf-8", "{\"a\": 1,\n\"b\": \"<\"}", `"content_type":"application/json; charset=utf-8","headers":{"Detail-Type":"OrderPaid"},"body":{"a":1,"b":"<"}`},
		{"", `[1]`, `"headers":{"Detail-Type":"OrderPaid"},"body":[1]`},
		{"text/plain", `[1]`, `"content_type":"text/plain","headers":{"Detail-Type":"OrderPaid"},"body":"[1]"`},
		{"application/json", `{broken`, `"content_type":"application/json","headers":{"Detail-Type":"OrderPaid"},"body":"{broken"`},
		{"", "\xff\x00", `"headers":{"Detail-Type":"OrderPaid"},"body_base64":"/wA="`},
		{"", "", `"headers":{"Detail-Type":"OrderPaid"}`},
	} {
		client := serve(t, func(w http.ResponseWriter, in request) {
			want := `{"identity":"orders/a/7","stream":"orders","group":"a","number":7,"incarnation":9,"id":"outside",` + c.want + "}"
			if d := cmp.Diff(want, in.Entries[0].Detail); d != "" || in.Entries[0].EventBusName != "bus" {
				t.Error(d)
			}
			result(w, "")
		})
		d := delivery(7, c.contentType, c.body)
		d.Incarnation = 9
		if err := open(t, client, "bus").Send(t.Context(), []record.Delivery{d})[0]; err != nil {
			t.Error(err)
		}
	}
}

func TestWithoutADetailTypeTheStreamIsIt(t *testing.T) {
	for _, header := range []string{"", strings.Repeat("x", 129)} {
		client := serve(t, func(w http.ResponseWriter, in request) {
			if got := in.Entries[0].DetailType; got != "orders" {
				t.Errorf("detail-type %q", got)
			}
			result(w, "")
		})
		d := delivery(1, "", "{}")
		d.Effect.Headers["Detail-Type"] = header
		open(t, client, "bus").Send(t.Context(), []record.Delivery{d})
	}
}

func TestEachEntryHasItsOwnResult(t *testing.T) {
	calls := 0
	client := serve(t, func(w http.ResponseWriter, in request) {
		if calls++; calls == 1 {
			result(w, "", "MalformedDetail", "InternalFailure", "NotAuthorizedForSource")
			return
		}
		if len(in.Entries) != 1 {
			t.Errorf("%d entries are sent again", len(in.Entries))
		}
		result(w, "")
	})
	deliveries := []record.Delivery{delivery(1, "", "1"), delivery(2, "", "2"), delivery(3, "", "3"), delivery(4, "", "4")}
	errs := open(t, client, "bus").Send(t.Context(), deliveries)
	if _, refused := errors.AsType[*record.RefusedError](errs[1]); errs[0] != nil || !refused || errs[2] != nil || errs[3] == nil || calls != 2 {
		t.Errorf("%v after %d calls", errs, calls)
	}
}

func TestAnEventTooLargeForABusIsRefusedAloneAndABadRequestIsNot(t *testing.T) {
	for _, c := range []struct {
		size    int
		refused bool
	}{{300_000, true}, {10, false}} {
		client := serve(t, func(w http.ResponseWriter, in request) {
			for _, e := range in.Entries {
				if strings.Contains(e.Detail, "large") {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = io.WriteString(w, `{"__type":"ValidationException","message":"Total size of the entries in the request is over the limit."}`)
					return
				}
			}
			result(w, make([]string, len(in.Entries))...)
		})
		deliveries := []record.Delivery{delivery(1, "", "1"), delivery(2, "text/plain", "large"+strings.Repeat("x", c.size)), delivery(0, "", "3")}
		errs := open(t, client, "bus").Send(t.Context(), deliveries)
		if _, refused := errors.AsType[*record.RefusedError](errs[1]); errs[0] != nil || refused != c.refused || errs[1] == nil || errs[2] != nil {
			t.Errorf("%d bytes: %.200v", c.size, errs)
		}
	}
	d := delivery(1, "text/plain", strings.Repeat("\x01", 256<<10)) // six bytes each in JSON
	err := open(t, nil, "bus").Send(t.Context(), []record.Delivery{d})[0]
	if _, refused := errors.AsType[*record.RefusedError](err); !refused {
		t.Errorf("got %v", err)
	}
}

func TestATargetIsANameOrAnARN(t *testing.T) {
	for _, bus := range []string{"", "arn:aws:sqs:us-east-1:123456789012:queue", "a bus", "arn:aws:events:eu-west-1:123456789012:rule/orders"} {
		if _, err := eventdest.New(nil, bus); err == nil {
			t.Errorf("%q is taken", bus)
		}
	}
	open(t, nil, "arn:aws:events:eu-west-1:123456789012:event-bus/orders")
}

func TestAnEntryWithNeitherAnIDNorAnErrorHasNoResult(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ request) {
		_, _ = io.WriteString(w, `{"FailedEntryCount":0,"Entries":[{}]}`)
	})
	if errs := open(t, client, "bus").Send(t.Context(), []record.Delivery{delivery(1, "", "1")}); !errors.Is(errs[0], batch.ErrNoResult) {
		t.Errorf("got %v", errs[0])
	}
}
