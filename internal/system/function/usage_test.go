package function

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/system/function/tasks"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/localstack/lambda/host"
)

var updateUsage = flag.Bool("update-usage", false, "write testdata/usage.json, and the table of docs/costs.md")

const (
	usageFile = "testdata/usage.json"
	usagePage = "../../../docs/costs.md"
	// usageMark is the line of the page behind which the test writes.
	usageMark = "<!-- What follows is written by: go test ./internal/system/function -run TheUsageOfAMessage -update-usage -->\n"
)

// usage is the usage of the services by messages and sweeps.
type usage struct {
	Cases []usageOf `json:"cases"`
	// Sweep and SweepAll are one sweep each of a system without messages.
	Sweep    counts `json:"sweep"`
	SweepAll counts `json:"sweep_all"`
}

// usageOf is one configuration of a stream, with the usage of one message until its effect was sent.
type usageOf struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Stream string `json:"stream"`
	Each   counts `json:"each_message"`
	// Metrics is how many metrics its functions report.
	Metrics int `json:"metrics"`
}

// counts is the usage of the services. The requests to queues are those of senders and functions, and
// those with which Lambda receives and deletes messages.
type counts struct {
	API        float64 `json:"api_requests"`
	Ingest     float64 `json:"ingest_invocations"`
	Process    float64 `json:"process_invocations"`
	Publish    float64 `json:"publish_invocations"`
	Standard   float64 `json:"sqs_standard_requests"`
	FIFO       float64 `json:"sqs_fifo_requests"`
	WriteUnits float64 `json:"write_units"`
	ReadUnits  float64 `json:"read_units"`
	LogBytes   float64 `json:"log_bytes"`
}

// per returns the counts of one of n messages.
func (c counts) per(n float64) counts {
	return counts{c.API / n, c.Ingest / n, c.Process / n, c.Publish / n, c.Standard / n, c.FIFO / n, c.WriteUnits / n, c.ReadUnits / n, math.Round(c.LogBytes / n)}
}

// logTolerance is the part by which the bytes of a log line may differ from run to run: times and
// ages have more or fewer digits.
const logTolerance = 0.1

// TestTheUsageOfAMessage counts the usage of a message in the three functions, from its request until
// its effect was sent: requests to SQS, units of DynamoDB, invocations, and bytes of the log.
func TestTheUsageOfAMessage(t *testing.T) {
	var got usage
	for _, c := range usageCases() {
		got.Cases = append(got.Cases, measureCase(t, c))
	}
	got.Sweep, got.SweepAll = measureSweep(t, tasks.Sweep), measureSweep(t, tasks.SweepAll)
	stored := read(t, usageFile)
	var want usage
	if err := json.Unmarshal([]byte(stored), &want); err != nil {
		t.Fatal(err)
	}
	bytesAlike := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".LogBytes" }, cmpopts.EquateApprox(logTolerance, 0))
	if d := cmp.Diff(want, got, bytesAlike); d != "" && !*updateUsage {
		t.Errorf("%s is not what is counted now, run it with -update-usage (-written +counted)\n%s", usageFile, d)
	}
	page := read(t, usagePage)
	before, _, ok := strings.Cut(page, usageMark)
	if !ok {
		t.Fatalf("%s has no line %s", usagePage, usageMark)
	}
	if !*updateUsage {
		if d := cmp.Diff(page, before+usageMark+want.page()); d != "" {
			t.Errorf("%s does not have these numbers, run it with -update-usage (-written +counted)\n%s", usagePage, d)
		}
		return
	}
	text, err := json.MarshalIndent(got, "", "  ")
	if err == nil {
		err = errors.Join(os.WriteFile(usageFile, append(text, '\n'), 0o600), os.WriteFile(usagePage, []byte(before+usageMark+got.page()), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// page returns the end of the page about costs.
func (u usage) page() string {
	var b strings.Builder
	b.WriteString(`
## End to end

What a message uses of each service until its effect is sent, and what a sweep uses of a stack without messages. Multiply by the prices of your region. The time that functions run comes on top: it depends on your handler and your
destination. It was counted on emulators, not in an account. The requests with which Lambda receives and deletes messages count as one each for every batch; a unit that DynamoDB charges and DynamoDB Local does not report, for what is not found, is added.

| | ` + "key | token | sequence | a sweep | a sweep of all groups |\n|---|---|---|---|---|---|\n")
	row := func(name string, of func(counts) float64) {
		b.WriteString("| " + name)
		for _, c := range u.Cases {
			fmt.Fprintf(&b, " | %g", of(c.Each))
		}
		fmt.Fprintf(&b, " | %g | %g |\n", of(u.Sweep), of(u.SweepAll))
	}
	row("requests to API Gateway", func(c counts) float64 { return c.API })
	row("invocations of functions", func(c counts) float64 { return c.Ingest + c.Process + c.Publish })
	row("requests to FIFO queues", func(c counts) float64 { return c.FIFO })
	row("requests to standard queues", func(c counts) float64 { return c.Standard })
	row("write units", func(c counts) float64 { return c.WriteUnits })
	row("read units", func(c counts) float64 { return c.ReadUnits })
	row("bytes that the functions log", func(c counts) float64 { return c.LogBytes })
	b.WriteString("\n")
	for _, c := range u.Cases {
		fmt.Fprintf(&b, "- **%s**: %s; its stream reports %d metrics.\n", c.Name, c.Title, c.Metrics)
	}
	b.WriteString(`
Lambda itself logs some 600 bytes for an invocation. A metric that is reported in an hour is charged for it; each counts twice, for its stream and for the whole deployment. What an idle stack costs is [here](deploy.md#what-it-costs).

A caller that waits for the reply (` + "`Prefer: wait`" + `) keeps the ingest function running until it is there, and each look for it reads the table. A retried message costs its requests again.
`)
	return b.String()
}

// A usageCase is a configuration and its messages.
type usageCase struct {
	usageOf
	stream string
	batch  int
	// handler says that the process function has a handler in Go that keeps a state.
	handler bool
	header  func(i int) map[string]string // of a request, or nil for messages over SQS
}

func usageCases() []usageCase {
	return []usageCase{
		{
			usageOf: usageOf{Name: "key", Title: "admission `key`, over HTTP, naming no group, each message alone, forwarded to one destination", Stream: "{destinations: [shop]}"},
			stream:  "orders", batch: 1,
			header: func(i int) map[string]string { return map[string]string{"Idempotency-Key": fmt.Sprint("order-", i)} },
		},
		{
			usageOf: usageOf{Name: "token", Title: "admission `token`, over HTTP, a Go handler with state, each message alone in a new group that it names, one effect", Stream: "{admission: token, destinations: [shop]}"},
			stream:  "payments", batch: 1, handler: true,
			header: func(i int) map[string]string {
				return map[string]string{"Idempotency-Key": fmt.Sprint("payment-", i), "Once-Group": fmt.Sprint("customer-", i)}
			},
		},
		{
			usageOf: usageOf{Name: "sequence", Title: "admission `sequence`, over the FIFO queue, in batches of ten of one group, forwarded to one destination", Stream: "{admission: sequence, destinations: [shop]}"},
			stream:  "chat", batch: 10,
		},
	}
}

// usageMessages is how many messages of a case are counted.
const usageMessages = 40

// measureCase sends messages one batch after the other, each when the one before is done.
func measureCase(t *testing.T, c usageCase) usageOf {
	t.Helper()
	m := newMeasured(t, c.stream, c.Stream, c.handler)
	for i := 0; i < usageMessages; i += c.batch {
		if c.header != nil {
			m.post(c.stream, c.header(i))
		} else {
			m.send(c.stream, i, c.batch)
		}
		m.settle()
	}
	if got := len(m.hook.wait(t, usageMessages)["shop"]); got != usageMessages {
		t.Fatalf("%d effects, want %d", got, usageMessages)
	}
	out := c.usageOf
	out.Each = m.total.per(usageMessages)
	out.Metrics = len(m.metrics())
	return out
}

// measureSweep counts one sweep of empty tables.
func measureSweep(t *testing.T, task string) counts {
	t.Helper()
	m := newMeasured(t, "orders", "{}", false)
	m.invoke(Process, tasks.Task{Once: task})
	return m.total.per(1)
}

// measured is a deployment in this process whose use of services is counted.
type measured struct {
	t       *testing.T
	hook    *hook
	systems map[Function]*System
	queues  map[string]*sqsqueue.Queue // by the name of their variable
	log     bytes.Buffer
	units   dynamostore.Meter

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
