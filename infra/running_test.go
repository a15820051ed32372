package infra

import (
	"context"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/aws/lambdaconfig"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	lambdas "github.com/effectively-once/once/internal/system/function"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// fakeAWS stands in for DynamoDB and SQS: its tables stay empty, and every write and every message
// is accepted. With missing tables, DynamoDB refuses everything.
type fakeAWS struct{ missing bool }

// ServeHTTP implements http.Handler.
func (f fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		RequestItems map[string]any
		Entries      []struct {
			ID   string `json:"Id"`
			Body string `json:"MessageBody"`
		}
	}
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, json.Unmarshal(body, &in)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, out := http.StatusOK, map[string]any{}
	api, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case f.missing && api == "DynamoDB_20120810":
		status, out["__type"], out["message"] = http.StatusBadRequest, "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", "Requested resource not found"
	case action == "BatchGetItem":
		responses := map[string][]any{}
		for table := range in.RequestItems {
			responses[table] = []any{}
		}
		out["Responses"], out["UnprocessedKeys"] = responses, map[string]any{}
	case action == "SendMessageBatch":
		var sent []map[string]string
		for _, e := range in.Entries {
			sent = append(sent, map[string]string{"Id": e.ID, "MessageId": "1", "MD5OfMessageBody": fmt.Sprintf("%x", md5.Sum([]byte(e.Body)))})
		}
		out["Successful"] = sent
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

// running is a function of the product, with its standard output in a file.
type running struct {
	t      *testing.T
	handle lambdas.Handler
	output string
}

// run opens a function as Lambda does, on a fakeAWS, with a handler of the stream orders.
func run(t *testing.T, name lambdas.Function, backend fakeAWS, handler record.Handler) *running {
	t.Helper()
	server := httptest.NewServer(backend)
	t.Cleanup(server.Close)
	// nothing of the environment, which may name emulators
	variables := map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_MAX_ATTEMPTS": "1",
		environment.Config:      filepath.Join(t.TempDir(), "once.yaml"),
		environment.GroupsTable: "groups", environment.TokensTable: "tokens", environment.TrustedSenders: "AROA",
		environment.IngressQueue: server.URL + "/1/ingress", environment.IngressFIFOQueue: server.URL + "/1/ingress.fifo",
		environment.PublishQueue: server.URL + "/1/publish", environment.PublishFIFOQueue: server.URL + "/1/publish.fifo",
		environment.DeadQueue: server.URL + "/1/dead", environment.DeadPublishQueue: server.URL + "/1/dead-publish",
	}
	getenv := func(name string) string { return variables[name] }
	write(t, getenv(environment.Config), "streams: {orders: {}}")
	settings, err := environment.Read(getenv)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := lambdaconfig.Load(getenv)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, output: filepath.Join(t.TempDir(), "stdout")}
	out, err := os.Create(r.output)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	defer func(before *os.File) { os.Stdout = before }(os.Stdout)
	os.Stdout = out
	var declared []system.Stream
	if handler != nil {
		declared = append(declared, system.Stream{Stream: record.Stream{Name: "orders", Admission: record.ByKey, Handler: handler}})
	}
	s, err := lambdas.Open(name, settings, lambdas.NewClients(cfg), slog.New(slog.NewTextHandler(t.Output(), nil)), declared...)
	if err != nil {
		t.Fatal(err)
	}
	r.handle = s.Handler()
	return r
}

// metrics returns the metrics that the function has written so far.
func (r *running) metrics() []point {
	r.t.Helper()
	lines, err := os.ReadFile(r.output)
	if err != nil {
		r.t.Fatal(err)
	}
	return embedded(r.t, string(lines))
}

// post sends a message through API Gateway's event and returns the status.
func (r *running) post(path, key string) int {
	r.t.Helper()
	front := host.Front(func(ctx context.Context, event []byte) ([]byte, error) {
		answer, err := r.handle(ctx, event)
		if err != nil {
			return nil, err
		}
		return json.Marshal(answer)
	})
	request := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, path, strings.NewReader("{}"))
	request.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	front.ServeHTTP(w, request)
	return w.Code
}

// deliver passes a message of the ingress queue to the function.
func (r *running) deliver(id string) {
	r.t.Helper()
	event, err := json.Marshal(host.Event("arn:aws:sqs:eu-central-1:1:ingress.fifo", []queue.Delivery{{
		Message: queue.Message{Body: "{}", Attributes: map[string]string{"once-stream": "orders", "once-id": id, "once-group": "g"}, Group: "g", Sender: "AROA:x"},
		ID:      id, Receipt: id, Receives: 1,
	}}))
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.handle(r.t.Context(), event); err != nil {
		r.t.Fatal(err)
	}
}

// observed returns the metrics of events, as a function writes them.
func observed(t *testing.T, events ...record.Event) []point {
	t.Helper()
	var out strings.Builder
	tm, err := telemetry.Open(t.Context(), telemetry.Options{Output: &out})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		tm.Observe(e)
	}
	tm.Flush(t.Context(), nil)
	return embedded(t, out.String())
}
