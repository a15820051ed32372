package stack_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/awsconfig"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/pipeline"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/stack"
	"github.com/effectively-once/once/internal/stack/stacktest"
	"github.com/effectively-once/once/internal/wire"
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

// A world is a deployed stack, and what its functions do.
type world struct {
	aws      *stacktest.AWS
	stack    *stack.Stack
	system   *stack.System
	deployed *pipeline.Pipeline
	shop     *shop
	sqs      *sqs.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{aws: stacktest.Start(t), shop: &shop{}}
	w.aws.Deploy(t, configuration)
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
		Config: parsed(t), Store: store, Trusted: []string{stacktest.Sender},
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

func parsed(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Parse("once.yaml", []byte(configuration))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open finds the stack again, after a change of what stands in for AWS.
func (w *world) open(t *testing.T) {
	t.Helper()
	var err error
	if w.stack, err = stack.Open(t.Context(), stack.Options{Name: "Once"}); err != nil {
		t.Fatal(err)
	}
	if w.system, err = w.stack.System(stack.SystemOptions{Config: parsed(t)}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) queue(kind string) queue.Queue {
	return sqsqueue.New(w.sqs, w.aws.Outputs[kind+"QueueUrl"])
}

// invoke replaces what a function answers.
func (w *world) invoke(function string, answer func([]byte) any) {
	f := w.aws.Functions[function]
	f.Invoke = answer
	w.aws.Functions[function] = f
}

// take receives and deletes all that is on a queue.
func (w *world) take(t *testing.T, kind string) []queue.Delivery {
	t.Helper()
	q := w.queue(kind)
	var out []queue.Delivery
	for {
		batch, err := q.Receive(t.Context(), 10, time.Minute, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			return out
		}
		for _, d := range batch {
			out = append(out, d)
			if err := q.Delete(t.Context(), []string{d.Receipt})[0]; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// messages reads what take gives as the process function does.
func (w *world) messages(t *testing.T, kind string) []record.Message {
	t.Helper()
	var out []record.Message
	for _, m := range wire.Event("", w.take(t, kind)).Records {
		message, _, err := wire.FromSQS(m, wire.Defaults{Trusted: []string{stacktest.Sender}})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, message)
	}
	return out
}

// publish does what the triggers on the publish queue ask for.
func (w *world) publish(t *testing.T) {
	t.Helper()
	response, err := w.deployed.Publish().Handle(t.Context(), wire.Event("", w.take(t, "PublishFifo")))
	if err != nil || len(response.BatchItemFailures) > 0 {
		t.Fatal(response, err)
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

// order is a message as the front door takes it in.
func order(id, principal string) record.Message {
	return record.Message{
		Principal: principal, Stream: "orders", ID: id, Group: "customer-7", Body: []byte(`{"item":7}`), Accepted: time.Now().UTC().Truncate(time.Second),
	}
}

// shop takes what is sent.
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

// event is a message in the form of the queue, for those who look at one.
func event(d queue.Delivery) events.SQSMessage { return wire.Event("", []queue.Delivery{d}).Records[0] }
