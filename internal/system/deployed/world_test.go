package deployed_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/deployed/stacktest"
	"github.com/effectively-once/once/internal/system/pipeline"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

const configuration = `streams:
  orders:
    destinations: [shop]
  chat:
    admission: sequence
    gap: {policy: skip, after: 1ms}
    destinations: [shop]
destinations:
  shop: {webhook: "https://shop.example/hook"}
`

// A world is a deployed stack with its functions.
type world struct {
	aws      *stacktest.AWS
	config   *config.Config
	stack    *deployed.Stack
	system   *deployed.System
	deployed *pipeline.Pipeline
	shop     *shop
	sqs      *sqs.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, configuration)
}

// newWorldOf returns a world with another configuration.
func newWorldOf(t *testing.T, text string) *world {
	t.Helper()
	w := &world{aws: stacktest.Start(t), shop: &shop{}, config: parsed(t, text)}
	w.aws.Deploy(t, text)
	w.open(t)
	cfg, err := awsconfig.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.sqs = sqs.NewFromConfig(cfg)
	store, err := dynamostore.New(dynamodb.NewFromConfig(cfg), dynamostore.Tables{Groups: w.aws.Outputs["GroupsTable"], Tokens: w.aws.Outputs["TokensTable"]}, dynamostore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.deployed, err = pipeline.New(pipeline.Config{
		Config: w.config, Store: store, Trusted: []string{stacktest.Sender},
		Ports: pipeline.Ports{
			Ingress: w.queue("Ingress"), IngressFIFO: w.queue("IngressFifo"), Publish: w.queue("Publish"), PublishFIFO: w.queue("PublishFifo"),
			Dead: w.queue("Dead"), DeadPublish: w.queue("DeadPublish"),
		},
		Open: func(string, config.Destination, pipeline.Open) (record.Sender, error) { return w.shop, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("once.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open finds the stack again, after a change of the emulated AWS.
func (w *world) open(t *testing.T) {
	t.Helper()
	var err error
	if w.stack, err = deployed.Open(t.Context(), deployed.Options{Name: "Once"}); err != nil {
		t.Fatal(err)
	}
	if w.system, err = w.stack.System(deployed.SystemOptions{Config: w.config}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) queue(kind string) queue.Queue {
	return sqsqueue.New(w.sqs, w.aws.Outputs[kind+"QueueUrl"])
}

// invoke replaces the answer of a function.
func (w *world) invoke(function string, answer func([]byte) any) {
	f := w.aws.Functions[function]
	f.Invoke = answer
	w.aws.Functions[function] = f
}

// take receives and deletes all messages of a queue.
func (w *world) take(t *testing.T, kind string) []queue.Delivery {
	t.Helper()
	return awstest.Take(t, w.queue(kind))
}

// messages decodes the deliveries of take like the process function.
func (w *world) messages(t *testing.T, kind string) []record.Message {
	t.Helper()
	var out []record.Message
	for _, d := range w.take(t, kind) {
		message, _, err := wire.FromQueue(&d, wire.Defaults{Trusted: []string{stacktest.Sender}})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, message)
	}
	return out
}

// publish publishes the groups of the triggers on the publish queue.
func (w *world) publish(t *testing.T) {
	t.Helper()
	got := w.deployed.Publish().Handle(t.Context(), w.take(t, "PublishFifo"))
	if slices.ContainsFunc(got, func(d queue.Disposition) bool { return d.Retry }) {
		t.Fatal(got)
	}
}

func (w *world) process(t *testing.T, messages ...record.Message) {
	t.Helper()
	for _, o := range w.deployed.Engine.Process(t.Context(), messages) {
		if !o.Settled() {
			t.Fatal(o.Err)
		}
	}
}

func (w *world) refuse(t *testing.T, refused ...record.Refused) {
	t.Helper()
	if err := w.deployed.Queues.DeadLetter(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
}

// order is a message as accepted by the API.
func order(id, principal string) record.Message {
	return record.Message{
		Principal: principal, Stream: "orders", ID: id, Group: "customer-7", Body: []byte(`{"item":7}`), Accepted: time.Now().UTC().Truncate(time.Second),
	}
}

// shop is a destination that records its deliveries.
type shop struct {
	mu   sync.Mutex
	got  []record.Delivery
	fail bool
}

func (s *shop) Send(_ context.Context, deliveries []record.Delivery) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(deliveries))
	for i, d := range deliveries {
		if s.fail {
			errs[i] = errors.New("closed")
			continue
		}
		s.got = append(s.got, d)
	}
	return errs
}
