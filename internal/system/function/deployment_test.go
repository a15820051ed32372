package function

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/blob/s3blob"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/localstack/lambda/host"
)

const deployedConfig = `
streams:
  orders:   {destinations: [shop, ahead]}
  payments: {admission: sequence, destinations: [bank]}
  tokens:   {admission: token, destinations: [shop]}
destinations:
  shop:  {webhook: %q}
  bank:  {webhook: %q}
  ahead: {stream: payments}
`

// visibility is the visibility timeout of the queues, after which a failed message is retried. It
// is longer than an invocation; if an invocation exceeds it, on a busy machine, two functions
// process the message, which changes nothing.
const visibility = 4 * time.Second

// TestMain runs deployments in parallel, because they mostly wait, unless the command line sets the
// number. It removes the built functions.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // the system does so later
	}
	os.Exit(code)
}

// A deployment is the resources of a stack on emulators: tables, queues, the built functions and
// their event source mappings.
type deployment struct {
	store   *dynamostore.Store
	tables  dynamostore.Tables
	queues  map[string]*sqsqueue.Queue // by the name of their variable
	url     string
	webhook *hook
	process string // the name of the program that is the process function
	env     []string
}

// An invoker invokes a function.
type invoker func(context.Context, []byte) ([]byte, error)

// deploy starts a deployment; between wraps the invocations of functions by queues.
func deploy(t *testing.T, between func(invoker) invoker) *deployment {
	t.Helper()
	return deployProcess(t, "process", between)
}

const largeConfig = `
streams:
  web:     {destinations: [shop]}
  tokens:  {admission: token, destinations: [shop]}
  numbers: {admission: sequence, destinations: [shop]}
  topics:  {destinations: [shop, news]}
  queued:  {destinations: [shop, jobs]}
destinations:
  shop: {webhook: %q}
  news: {sns: news}
  jobs: {sqs: jobs}
`

// deployLarge starts a deployment with a bucket.
func deployLarge(t *testing.T, between func(invoker) invoker) *deployment {
	t.Helper()
	t.Parallel()
	d := prepare(t, "process")
	bucket, clients := newBucket(t), NewClients(awstest.Config(t, "S3"))
	var err error
	if d.store, err = dynamostore.New(clients.DynamoDB, d.tables, dynamostore.Options{Claims: s3blob.NewClaims(clients.S3, bucket)}); err != nil {
		t.Fatal(err)
	}
	d.env = append(d.env, environment.Bucket+"="+bucket, environment.Config+"="+fmt.Sprintf(largeConfig, d.webhook.url+"/shop"))
	d.run(t, between)
	return d
}

// deployProcess starts a deployment whose process function is another program.
func deployProcess(t *testing.T, process string, between func(invoker) invoker) *deployment {
	t.Helper()
	t.Parallel()
	d := prepare(t, process)
	d.run(t, between)
	return d
}

// prepare makes the resources of a deployment.
func prepare(t *testing.T, process string) *deployment {
	t.Helper()
	clients := NewClients(awstest.Config(t, "DYNAMODB", "SQS"))
	d := &deployment{queues: map[string]*sqsqueue.Queue{}, webhook: newHook(t), process: process}
	name, tables := "test-"+rand.Text(), awstest.Tables(t, clients.DynamoDB)
	d.tables = tables
	var err error
	if d.store, err = dynamostore.New(clients.DynamoDB, tables, dynamostore.Options{}); err != nil {
		t.Fatal(err)
	}
	d.env = []string{
		// as ElasticMQ calls all senders
		environment.GroupsTable + "=" + tables.Groups, environment.TokensTable + "=" + tables.Tokens, environment.TrustedSenders + "=127.0.0.1",
		environment.Config + "=" + fmt.Sprintf(deployedConfig, d.webhook.url+"/shop", d.webhook.url+"/bank"), "AWS_LAMBDA_LOG_FORMAT=JSON",
	}
	for variable, suffix := range map[string]string{
		environment.IngressQueue: "ingress", environment.IngressFIFOQueue: "ingress.fifo", environment.PublishQueue: "publish", environment.PublishFIFOQueue: "publish.fifo",
		environment.DeadQueue: "dead", environment.DeadPublishQueue: "dead-publish",
	} {
		url := awstest.Queue(t, clients.SQS, name+"-"+suffix, nil)
		d.queues[variable] = sqsqueue.New(clients.SQS, url)
		d.env = append(d.env, variable+"="+url)
	}
	return d
}

// built is the folder of the functions: they are built once, for all tests.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// bootstrap returns the binary of a function, by the name of its package.
func bootstrap(t *testing.T, function string) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "functions"); built.err != nil { //nolint:usetesting // it outlives the test that comes first
			return
		}
		for module, program := range map[string]string{"../../..": "./functions/...", "../../../examples": "./lambda"} {
			c := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", built.dir, program)
			c.Dir, c.Env = module, append(os.Environ(), "CGO_ENABLED=0")
			if out, err := c.CombinedOutput(); err != nil {
				built.err = fmt.Errorf("build functions: %w\n%s", err, out)
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, function)
}

// run starts the front and the event source mappings, two of each queue, and stops them before the
// test ends.
func (d *deployment) run(t *testing.T, between func(invoker) invoker) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var pollers sync.WaitGroup
	front := httptest.NewServer(host.Front(d.instance(t, "ingest").Invoke))
	d.url = front.URL
	for variable, function := range map[string]string{
		environment.IngressQueue: "process", environment.IngressFIFOQueue: "process", environment.PublishQueue: "publish", environment.PublishFIFOQueue: "publish",
	} {
		for range 2 {
			source := host.Source{Queue: d.queues[variable], Visibility: visibility, Wait: time.Second}
			invoke := between(d.instance(t, function).Invoke)
			pollers.Go(func() { source.Poll(ctx, invoke) })
		}
	}
	t.Cleanup(func() {
		front.Close()
		cancel()
		pollers.Wait()
	})
}

func (d *deployment) instance(t *testing.T, function string) *host.Instance {
	t.Helper()
	program := function
	if function == "process" {
		program = d.process
	}
	i := host.New(bootstrap(t, program), host.Options{Name: function, Env: d.env, Output: t.Output()})
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

// post sends a message and returns status and body of the answer.
func (d *deployment) post(t *testing.T, stream, body string, header map[string]string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/streams/"+stream+"/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

func (d *deployment) accepted(t *testing.T, stream, body string, header map[string]string) {
	t.Helper()
	if status, answer := d.post(t, stream, body, header); status != http.StatusAccepted {
		t.Errorf("message %s of %s: %d %s", body, stream, status, answer)
	}
}

// settled waits until no group has pending effects or held messages.
func (d *deployment) settled(t *testing.T) {
	t.Helper()
	eventually.Succeeds(t, func() error {
		groups, err := d.store.Groups(t.Context(), "", record.GroupKey{}, 1000)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(groups, func(g record.Group) bool { return len(g.Pending) > 0 || g.HasHeld() }) {
			return errors.New("something stays pending or held")
		}
		return nil
	})
}
