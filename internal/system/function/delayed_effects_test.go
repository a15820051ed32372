package function

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// A later world has a queue behind each kind of destination of AWS.
type later struct {
	t        *testing.T
	settings environment.Settings
	clients  Clients
	orders   system.Stream
	behind   map[string]*sqsqueue.Queue // by the name of the destination
}

// newLater makes a topic and a bus, each with a queue behind it, on the emulator that has both.
func newLater(t *testing.T) *later {
	t.Helper()
	cfg, name := awstest.Config(t, "SNS", "EVENTBRIDGE"), "test-"+rand.Text()
	x := &later{t: t, behind: map[string]*sqsqueue.Queue{}}
	x.settings, x.clients = emulated(t, fmt.Sprintf("streams: {orders: {}}\ndestinations:\n  jobs: {sqs: %s-jobs.fifo}\n  news: {sns: %s-news}\n  bus: {eventbridge: %s-bus}\n", name, name, name))
	x.clients.STS = NewClients(cfg).STS
	x.behind["jobs"] = sqsqueue.New(x.clients.SQS, awstest.Queue(t, x.clients.SQS, name+"-jobs.fifo", nil))
	there := sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.BaseEndpoint = aws.String(os.Getenv("AWS_ENDPOINT_URL_SNS")) })
	for _, to := range []string{"news", "bus"} {
		x.behind[to] = sqsqueue.New(there, awstest.Queue(t, there, name+"-"+to, nil))
	}
	var topic struct {
		ARN string `xml:"CreateTopicResult>TopicArn"`
	}
	x.must(x.clients.SNS.Form(t.Context(), "CreateTopic", url.Values{"Name": {name + "-news"}}, &topic))
	endpoint := strings.Replace(topic.ARN, ":sns:", ":sqs:", 1)
	x.must(x.clients.SNS.Form(t.Context(), "Subscribe", url.Values{
		"TopicArn": {topic.ARN}, "Protocol": {"sqs"}, "Endpoint": {endpoint}, "Attributes.entry.1.key": {"RawMessageDelivery"}, "Attributes.entry.1.value": {"true"},
	}, nil))
	events, bus := x.clients.EventBridge, name+"-bus"
	x.must(events.JSON(t.Context(), "CreateEventBus", map[string]any{"Name": bus}, nil))
	x.must(events.JSON(t.Context(), "PutRule", map[string]any{"Name": bus, "EventBusName": bus, "EventPattern": `{"source": ["once.orders"]}`}, nil))
	target := strings.Replace(endpoint, "-news", "-bus", 1)
	x.must(events.JSON(t.Context(), "PutTargets", map[string]any{"Rule": bus, "EventBusName": bus, "Targets": []any{map[string]any{"Id": "queue", "Arn": target}}}, nil))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err1 := x.clients.SNS.Form(ctx, "DeleteTopic", url.Values{"TopicArn": {topic.ARN}}, nil)
		err2 := events.JSON(ctx, "RemoveTargets", map[string]any{"Rule": bus, "EventBusName": bus, "Ids": []string{"queue"}}, nil)
		err3 := events.JSON(ctx, "DeleteRule", map[string]any{"Name": bus, "EventBusName": bus}, nil)
		err4 := events.JSON(ctx, "DeleteEventBus", map[string]any{"Name": bus}, nil)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Error(err)
		}
	})
	x.orders = system.Stream{Stream: record.Stream{Name: "orders", Handler: x.handle}}
	return x
}

// handle sends to each destination now, in two seconds, and in twenty minutes.
func (x *later) handle(_ context.Context, a *record.Attempt, _ record.Message) error {
	for _, to := range []string{"jobs", "news", "bus"} {
		for _, after := range []time.Duration{20 * time.Minute, 0, 2 * time.Second} {
			e := record.Effect{To: []string{to}, ContentType: "application/json", Body: []byte(`"` + to + " after " + after.String() + `"`)}
			if err := a.SendAfter(e, after); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *later) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *later) open(function Function, clients Clients) *System {
	x.t.Helper()
	s, err := Open(function, x.settings, clients, nil, x.orders)
	x.must(err)
	return s
}

// publish calls a function with the messages that are visible on the publish queues, twice with
// each: SQS delivers a message again if the function dies. It returns how many messages failed.
func (x *later) publish(s *System) (failed int) {
	x.t.Helper()
	for _, url := range []string{x.settings.Queues.PublishFIFO, x.settings.Queues.Publish} {
		for _, d := range awstest.Take(x.t, sqsqueue.New(x.clients.SQS, url)) {
			event, err := json.Marshal(host.Event("arn:aws:sqs:us-east-1:000000000000:"+path.Base(url), []queue.Delivery{d}))
			x.must(err)
			for range 2 {
				answer, err := s.Handler()(x.t.Context(), event)
				x.must(err)
				failed += len(answer.(events.SQSEventResponse).BatchItemFailures)
			}
		}
	}
	return failed
}

// dying returns clients whose writes to DynamoDB fail as long as it is told.
func (x *later) dying(dies *atomic.Bool) Clients {
	out := x.clients
	out.DynamoDB = dynamodb.New(x.clients.DynamoDB.Options(), func(o *dynamodb.Options) {
		o.RetryMaxAttempts = 1
		o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("dying", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				if dies.Load() && slices.Contains([]string{"UpdateItem", "TransactWriteItems", "DeleteItem"}, awsmiddleware.GetOperationName(ctx)) {
					return middleware.InitializeOutput{}, middleware.Metadata{}, errors.New("the function has died")
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.After)
		})
	})
	return out
}

// collect adds the identities that have arrived behind each destination, with their bodies.
func (x *later) collect(got map[string]string) {
	x.t.Helper()
	for to, q := range x.behind {
		for _, d := range awstest.Take(x.t, q) {
			id, body := d.Attributes["once-id"], d.Body
			if to == "bus" {
				var event struct {
					Detail struct {
						Identity string          `json:"identity"`
						Body     json.RawMessage `json:"body"`
					} `json:"detail"`
				}
				x.must(json.Unmarshal([]byte(d.Body), &event))
				id, body = event.Detail.Identity, string(event.Detail.Body)
			}
			if before, copied := got[id]; copied && (before != body || to == "jobs") {
				x.t.Errorf("%s has arrived with %s and %s, want one", id, before, body)
			}
			got[id] = body
		}
	}
}

func TestDelayedEffectsReachEachDestinationOfAWSUnderOneIdentityThoughFunctionsDie(t *testing.T) {
	x := newLater(t)
	process := x.open(Process, x.clients)
	if o := process.pipeline.Engine.Process(t.Context(), []record.Message{{Stream: "orders", Group: "g", ID: "a", Accepted: time.Now()}})[0]; o.Kind != record.Processed {
		t.Fatalf("got %+v, want that it is processed", o)
	}
	var dies atomic.Bool
	dies.Store(true)
	key := record.GroupKey{Stream: "orders", Group: "g"}
	if err := x.open(Publish, x.dying(&dies)).pipeline.Engine.Publish(t.Context(), []record.GroupKey{key})[0]; err == nil {
		t.Fatal("the function that dies has published, want an error: the effects stay pending")
	}
	x.must(process.pipeline.Queues.Trigger(t.Context(), []record.GroupKey{key}, 0)) // once more
	s := x.open(Publish, x.clients)
	want, got := map[string]string{}, map[string]string{}
	for i, to := range []string{"jobs", "news", "bus"} {
		for k, after := range []string{"20m0s", "0s", "2s"} {
			want[fmt.Sprint("orders/g/", 3*i+k+1)] = `"` + to + " after " + after + `"`
		}
	}
	for end := time.Now().Add(time.Minute); len(got) < 6 && time.Now().Before(end); {
		if failed := x.publish(s); failed > 0 {
			t.Fatalf("%d messages failed, want none", failed)
		}
		x.collect(got)
	}
	items, err := x.clients.delays(x.settings).Due(t.Context(), delay.Key{}, time.Now().Add(time.Hour), 100)
	if err != nil || len(items) != 3 || len(got) != 6 {
		t.Fatalf("%d effects wait in the table (%v), and %v have arrived; want 3 and 6", len(items), err, got)
	}
	soon := func() time.Time { return time.Now().Add(20 * time.Minute) }
	if moved, err := delay.NewKeeper(x.clients.delays(x.settings), process.pipeline.Queues.Move, delay.Options{Ahead: moveAhead, Now: soon}).MoveDue(t.Context()); err != nil || moved != 3 {
		t.Fatalf("moved %d (%v), want 3", moved, err)
	}
	for end := time.Now().Add(time.Minute); len(got) < len(want) && time.Now().Before(end); {
		if failed := x.publish(s); failed > 0 {
			t.Fatalf("%d messages failed, want none", failed)
		}
		x.collect(got)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, url := range []string{x.settings.Queues.Dead, x.settings.Queues.DeadPublish} {
		if letters := awstest.Take(t, sqsqueue.New(x.clients.SQS, url)); len(letters) > 0 {
			t.Errorf("%d dead letters, want none", len(letters))
		}
	}
}
