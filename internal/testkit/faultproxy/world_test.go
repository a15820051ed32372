package faultproxy_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	configuration "github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/pipeline"
	"github.com/effectively-once/once/internal/testkit/faultproxy"
)

const endpoint = "AWS_ENDPOINT_URL_DYNAMODB"

// A service is a DynamoDB with empty tables.
type service struct {
	client *dynamodb.Client
	tables dynamostore.Tables
	store  *dynamostore.Store // without faults
}

func newService(t *testing.T) *service {
	t.Helper()
	if os.Getenv(endpoint) == "" {
		t.Skipf("%s is not set: localstack/dynamodb-local.sh up starts a DynamoDB to test against", endpoint)
	}
	// if the service hung, each test would wait for all tries of each call
	ctx, cancel := context.WithTimeout(t.Context(), faultproxy.Limit)
	defer cancel()
	cfg, err := awsconfig.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	name := "test-" + rand.Text()
	s := &service{client: dynamodb.NewFromConfig(cfg, quiet), tables: dynamostore.Tables{Groups: name + "-groups", Tokens: name + "-tokens"}}
	for _, in := range dynamostore.Schema(s.tables) {
		if _, err := s.client.CreateTable(ctx, in); err != nil {
			t.Fatalf("create table: %v", err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), faultproxy.Limit)
			defer cancel()
			if _, err := s.client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: in.TableName}); err != nil {
				t.Errorf("delete table: %v", err)
			}
		})
		if err := dynamodb.NewTableExistsWaiter(s.client).Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, time.Minute); err != nil {
			t.Fatalf("wait for table: %v", err)
		}
	}
	if s.store, err = dynamostore.New(s.client, s.tables, dynamostore.Options{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// quiet does not check checksums, because the errors of DynamoDB Local have none, and does not log
// truncated answers, because the tests make them. A service that hangs fails the test.
func quiet(o *dynamodb.Options) {
	o.DisableValidateResponseChecksum, o.Logger = true, logging.Nop{}
	o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(faultproxy.Limit)
}

// tries makes the SDK try each call n times, without pauses.
func tries(n int) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.RateLimiter = n, ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
	})
}

// A world is a pipeline whose store is behind a faulty proxy, with queues that work, and a
// destination that records its deliveries.
type world struct {
	*service
	*pipeline.Pipeline
	beside *pipeline.Pipeline // of another worker, whose calls always work
	name   string             // the unique prefix of the world's groups and messages
	plan   faultproxy.Plan
	proxy  *faultproxy.Proxy
	server *httptest.Server
	http   *http.Transport

	ingress, ingressFIFO, publish, publishFIFO, dead, deadPublish *line

	mu       sync.Mutex
	sent     []record.Delivery
	messages []record.Message // all sent messages
}

// open makes a world. The SDK tries each call the given number of times. The plan may be set until
// the first call.
func (s *service) open(attempts int) (*world, error) {
	w := &world{service: s, name: rand.Text()[:8], plan: faultproxy.Healthy}
	w.proxy = faultproxy.New(os.Getenv(endpoint), func(c faultproxy.Call) faultproxy.Fault { return w.plan(c) })
	w.server = httptest.NewServer(w.proxy)
	w.http = awshttp.NewBuildableClient().GetTransport()
	options := s.client.Options()
	options.BaseEndpoint, options.HTTPClient, options.Retryer = &w.server.URL, faultproxy.Impatient(&http.Client{Transport: w.http}), tries(attempts)
	store, err := dynamostore.New(dynamodb.New(options), s.tables, dynamostore.Options{Pause: func(ctx context.Context, _ int) error { return ctx.Err() }})
	if err != nil {
		return nil, err
	}
	w.ingress, w.ingressFIFO, w.publish = &line{name: "ingress"}, &line{name: "ingress.fifo"}, &line{name: "publish"}
	w.publishFIFO, w.dead, w.deadPublish = &line{name: "publish.fifo"}, &line{name: "dead"}, &line{name: "dead-publish"}
	var err1, err2 error
	w.Pipeline, err1 = w.pipeline(store)
	w.beside, err2 = w.pipeline(s.store)
	return w, errors.Join(err1, err2)
}

func (w *world) pipeline(store record.Store) (*pipeline.Pipeline, error) {
	return pipeline.New(pipeline.Config{
		Config: &configuration.Config{Destinations: map[string]configuration.Destination{"out": {File: "-"}}},
		Store:  store, Trusted: []string{wire.Sender},
		Ports: pipeline.Ports{
			Ingress: w.ingress, IngressFIFO: w.ingressFIFO, Publish: w.publish, PublishFIFO: w.publishFIFO, Dead: w.dead, DeadPublish: w.deadPublish,
		},
		Declared: []system.Stream{
			{Stream: record.Stream{Name: "keyed", Handler: handle}},
			{Stream: record.Stream{Name: "issued", Admission: record.ByToken, Handler: handle}},
			{Stream: record.Stream{Name: "numbered", Admission: record.BySequence, Handler: handle}},
		},
		Open: func(string, configuration.Destination, pipeline.Open) (record.Sender, error) { return w, nil },
	})
}

// handle counts the message in the state. If the body asks for it, handle sends the identity, or
// replies with it.
func handle(_ context.Context, a *record.Attempt, m record.Message) error {
	a.State = append(a.State, m.Identity()+","...)
	if sends(&m) {
		a.Send(record.Effect{To: []string{"out"}, Body: []byte(m.Identity())})
	}
	if text := reply(&m); text != "" {
		a.Reply(record.Reply{Status: 200, Body: []byte(text)})
	}
	return nil
}

func sends(m *record.Message) bool { return strings.Contains(string(m.Body), "send") }

// reply returns the expected reply to a message, or "".
func reply(m *record.Message) string {
	if strings.Contains(string(m.Body), "reply") {
		return m.Identity()
	}
	return ""
}

func text(r *record.Reply) string {
	if r == nil {
		return ""
	}
	return string(r.Body)
}

// Send implements record.Sender.
func (w *world) Send(_ context.Context, deliveries []record.Delivery) []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, deliveries...)
	return make([]error, len(deliveries))
}

// rivals is the number of messages that another worker processes between two calls. Numbered ones
// have a separate source.
const rivals = 9

// message makes a message of the world, and expects it to be processed. Its number decides whether
// it asks for an effect, a reply, or both.
func (w *world) message(stream, group string, number uint64) record.Message {
	m := record.Message{Stream: stream, Group: w.name + group, Body: []byte([]string{"", "send reply", "send", "reply send"}[number%4]), Accepted: time.Now()}
	switch {
	case stream == "numbered" && number == rivals:
		m.Source, m.Sequence = w.name+"q", 1
	case stream == "numbered":
		m.Source, m.Sequence = w.name+"p", number
	default:
		m.ID = fmt.Sprint(w.name, group, number)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.messages, func(n record.Message) bool { return n.GroupKey() == m.GroupKey() && n.Identity() == m.Identity() }) {
		w.messages = append(w.messages, m)
	}
	return m
}

const turns = 50

var errStuck = errors.New("it does not end")

// accept issues the token of a message and enqueues the message, and retries until both succeed.
func (w *world) accept(ctx context.Context, m record.Message) error {
	for range turns {
		if _, _, err := w.Engine.Issue(ctx, m); err != nil {
			continue
		}
		return w.Queues.Enqueue(ctx, m)
	}
	return fmt.Errorf("accept: %w", errStuck)
}

// call processes a message by Call, and retries until it succeeds.
func (w *world) call(ctx context.Context, m record.Message) error {
	for range turns {
		if o := w.Engine.Call(ctx, m); o.Settled() {
			if got, want := text(o.Reply), reply(&m); got != want {
				return fmt.Errorf("call %s: %s, reply %q, want %q", m.Identity(), o.Kind, got, want)
			}
			return nil
		}
	}
	return fmt.Errorf("call: %w", errStuck)
}

// deliver passes deliveries to a function once, and settles each by its disposition.
func (w *world) deliver(ctx context.Context, q *line, batch []queue.Delivery, serve queue.Handler) {
	for i, disposition := range serve(ctx, batch) {
		if disposition.Retry {
			_ = q.ChangeVisibility(ctx, batch[i].Receipt, 0)
		} else {
			q.Delete(ctx, []string{batch[i].Receipt})
		}
	}
}

// serve empties the queues: it processes and publishes all messages, also the delayed ones.
func (w *world) serve(ctx context.Context) error {
	for range turns {
		for _, feed := range w.feeds(w.Pipeline) {
			if batch, _ := feed.from.Receive(ctx, 10, 0, 0); len(batch) > 0 {
				w.deliver(ctx, feed.from, batch, feed.to)
			}
		}
		if w.ingress.len()+w.ingressFIFO.len()+w.publishFIFO.len() == 0 {
			if w.publish.len() == 0 {
				return nil
			}
			w.publish.pass()
		}
	}
	return errStuck
}

type feed struct {
	from *line
	to   queue.Handler
}

func (w *world) feeds(of *pipeline.Pipeline) []feed {
	process, publish := of.Process().Handle, of.Publish().Handle
	return []feed{{w.ingressFIFO, process}, {w.ingress, process}, {w.publishFIFO, publish}, {w.publish, publish}}
}

// twin lets the other worker do all work that is left, including copies of the messages that this
// worker has in flight. A message that it acknowledges is gone for both.
func (w *world) twin(ctx context.Context) {
	for _, feed := range w.feeds(w.beside) {
		batch := feed.from.again(10)
		more, _ := feed.from.Receive(ctx, 10, 0, 0)
		if batch = append(batch, more...); len(batch) > 0 {
			w.deliver(ctx, feed.from, batch, feed.to)
		}
	}
}

// rival lets the other worker process one more message of each group. A message that it does not
// settle is enqueued.
func (w *world) rival(ctx context.Context) {
	for _, key := range w.groups() {
		m := w.message(key.Stream, strings.TrimPrefix(key.Group, w.name), rivals)
		if key.Stream == "issued" {
			// otherwise it would be a dead letter, which the test finds
			_, _, _ = w.beside.Engine.Issue(ctx, m)
		}
		if o := w.beside.Engine.Call(ctx, m); !o.Settled() {
			_ = w.beside.Queues.Enqueue(ctx, m) // this queue never fails
		}
	}
}

// close ends the world's calls, late ones too.
func (w *world) close() {
	w.proxy.Drain()
	w.http.CloseIdleConnections()
	w.server.Close()
}
