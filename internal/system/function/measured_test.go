package function

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"
	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/internal/testkit/capacity"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// measured is a deployment in this process whose use of services is counted.
type measured struct {
	t       *testing.T
	hook    *hook
	systems map[Function]*System
	queues  map[string]*sqsqueue.Queue // by the name of their variable
	log     bytes.Buffer
	units   capacity.Meter

	mu    sync.Mutex
	total counts
}

func newMeasured(t *testing.T, stream, settings string, handler bool) *measured {
	t.Helper()
	m := &measured{t: t, hook: newHook(t), systems: map[Function]*System{}, queues: map[string]*sqsqueue.Queue{}}
	cfg := awstest.Config(t, "DYNAMODB", "SQS")
	plain := NewClients(cfg)
	counted := m.clients(cfg)
	name, tables := "test-"+rand.Text(), awstest.Tables(t, plain.DynamoDB)
	env := map[string]string{
		environment.GroupsTable: tables.Groups, environment.TokensTable: tables.Tokens, environment.TrustedSenders: "127.0.0.1",
		environment.Config: fmt.Sprintf("streams:\n  %s: %s\ndestinations:\n  shop: {webhook: %q}\n", stream, settings, m.hook.url+"/shop"),
	}
	for variable, suffix := range map[string]string{
		environment.IngressQueue: "ingress", environment.IngressFIFOQueue: "ingress.fifo", environment.PublishQueue: "publish", environment.PublishFIFOQueue: "publish.fifo",
		environment.DeadQueue: "dead", environment.DeadPublishQueue: "dead-publish",
	} {
		env[variable] = awstest.Queue(t, plain.SQS, name+"-"+suffix, nil)
		m.queues[variable] = sqsqueue.New(counted.SQS, env[variable])
	}
	parsed, err := environment.Read(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	log := telemetry.NewLog(&m.log, "", "INFO")
	for _, f := range []Function{Ingest, Process, Publish} {
		watch, err := telemetry.Open(t.Context(), telemetry.Options{Output: &m.log, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		var declared []system.Stream
		if handler && f == Process {
			declared = []system.Stream{{Stream: record.Stream{Name: stream, Admission: parsed.Config.Streams[stream].Admission, Handler: keep}}}
		}
		if m.systems[f], err = open(f, parsed, counted, watch, log, declared); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// keep is a handler with a small state and an effect.
func keep(_ context.Context, a *record.Attempt, m record.Message) error {
	a.State = append([]byte("state "), m.Body...)
	a.Send(record.Effect{To: []string{"shop"}, Body: m.Body})
	return nil
}

// clients returns clients that count.
func (m *measured) clients(cfg aws.Config) Clients {
	c := NewClients(cfg)
	c.DynamoDB = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.DisableValidateResponseChecksum = true
		m.units.Attach(o)
		o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("CountMissing", m.missing), middleware.Before)
		})
	})
	c.SQS = sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("CountRequests", m.request), middleware.Before)
		})
	})
	return c
}

// missing adds what DynamoDB charges and DynamoDB Local does not report: a unit for an item of a
// batch that is not there, and half a unit for a query or a scan that finds nothing.
func (m *measured) missing(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	out, metadata, err := next.HandleInitialize(ctx, in)
	if err != nil {
		return out, metadata, err
	}
	more := 0.0
	switch found := out.Result.(type) {
	case *dynamodb.BatchGetItemOutput:
		for _, keys := range in.Parameters.(*dynamodb.BatchGetItemInput).RequestItems {
			more += float64(len(keys.Keys))
		}
		for _, items := range found.Responses {
			more -= float64(len(items))
		}
	case *dynamodb.QueryOutput:
		more = least(found.ConsumedCapacity, in.Parameters.(*dynamodb.QueryInput).ConsistentRead)
	case *dynamodb.ScanOutput:
		more = least(found.ConsumedCapacity, in.Parameters.(*dynamodb.ScanInput).ConsistentRead)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.ReadUnits += more
	return out, metadata, err
}

// least returns the units that a report lacks of the least that a query or a scan costs.
func least(reported *types.ConsumedCapacity, consistent *bool) float64 {
	switch {
	case reported != nil && aws.ToFloat64(reported.CapacityUnits) > 0:
		return 0
	case aws.ToBool(consistent):
		return 1
	}
	return 0.5
}

func (m *measured) request(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	url := reflect.ValueOf(in.Parameters).Elem().FieldByName("QueueUrl")
	if !url.IsValid() {
		m.t.Errorf("%s has no queue", awsmiddleware.GetOperationName(ctx))
		return next.HandleInitialize(ctx, in)
	}
	m.mu.Lock()
	if queue.FIFO(url.Elem().String()) {
		m.total.FIFO++
	} else {
		m.total.Standard++
	}
	m.mu.Unlock()
	return next.HandleInitialize(ctx, in)
}

// invoke invokes a function, and adds its units and its log.
func (m *measured) invoke(f Function, event any) {
	m.t.Helper()
	text, err := json.Marshal(event)
	if err != nil {
		m.t.Fatal(err)
	}
	m.invokeText(m.t.Context(), f, text)
}

func (m *measured) invokeText(ctx context.Context, f Function, event []byte) []byte {
	m.t.Helper()
	before := m.log.Len()
	ctx, cancel := context.WithTimeout(lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: uuid.NewString()}), time.Minute)
	defer cancel()
	answer, err := m.systems[f].Handler()(ctx, event)
	if err != nil {
		m.t.Fatalf("%s: %v", f, err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		m.t.Fatal(err)
	}
	units := m.units.Reset()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total.WriteUnits += units.WriteUnits
	m.total.ReadUnits += units.ReadUnits
	m.total.LogBytes += float64(m.log.Len() - before)
	switch f {
	case Ingest:
		m.total.Ingest++
	case Process:
		m.total.Process++
	case Publish:
		m.total.Publish++
	}
	return text
}

// post sends one message by the API.
func (m *measured) post(stream string, header map[string]string) {
	m.t.Helper()
	r := httptest.NewRequestWithContext(m.t.Context(), http.MethodPost, "/v1/streams/"+stream+"/messages", strings.NewReader(`{"item":7}`))
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	host.Front(func(ctx context.Context, event []byte) ([]byte, error) { return m.invokeText(ctx, Ingest, event), nil }).ServeHTTP(w, r)
	if w.Code != http.StatusAccepted {
		m.t.Fatalf("%d %s", w.Code, w.Body)
	}
	m.total.API++
}

// send sends a batch of numbered messages to the FIFO queue, as a sender does: its request counts.
func (m *measured) send(stream string, first, n int) {
	m.t.Helper()
	messages := make([]queue.Message, n)
	for i := range messages {
		messages[i] = wire.ToQueue(record.Message{Stream: stream, Group: "room", Source: "ann", Sequence: uint64(first + i + 1), Body: []byte(`{"item":7}`)})
	}
	for _, sent := range m.queues[environment.IngressFIFOQueue].Send(m.t.Context(), messages) {
		if sent.Err != nil {
			m.t.Fatal(sent.Err)
		}
	}
}

// settle invokes the functions with the messages of their queues until there are none. As Lambda does, it
// receives up to ten messages with one request, and deletes them with one. Requests that find
// nothing are not counted: they are the polling of an idle stack.
func (m *measured) settle() {
	m.t.Helper()
	for again := true; again; {
		again = false
		for variable, f := range map[string]Function{environment.IngressQueue: Process, environment.IngressFIFOQueue: Process, environment.PublishQueue: Publish, environment.PublishFIFOQueue: Publish} {
			again = m.serve(m.queues[variable], f) || again
		}
	}
}

func (m *measured) serve(q *sqsqueue.Queue, f Function) bool {
	m.t.Helper()
	batch, err := q.Receive(m.t.Context(), 10, time.Minute, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(batch) == 0 {
		m.mu.Lock()
		if queue.FIFO(q.Name()) {
			m.total.FIFO--
		} else {
			m.total.Standard--
		}
		m.mu.Unlock()
		return false
	}
	m.invoke(f, host.Event("arn:aws:sqs:us-east-1:000000000000:"+q.Name(), batch))
	receipts := make([]string, len(batch))
	for i, d := range batch {
		receipts[i] = d.Receipt
	}
	for _, err := range q.Delete(m.t.Context(), receipts) {
		if err != nil {
			m.t.Fatal(err)
		}
	}
	return true
}

// metrics returns the names of the metrics in the log.
func (m *measured) metrics() map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(m.log.String()) {
		var doc struct {
			AWS struct {
				CloudWatchMetrics []struct{ Metrics []struct{ Name string } }
			} `json:"_aws"`
		}
		if json.Unmarshal([]byte(line), &doc) != nil {
			continue
		}
		for _, directive := range doc.AWS.CloudWatchMetrics {
			for _, metric := range directive.Metrics {
				names[metric.Name] = true
			}
		}
	}
	return names
}
