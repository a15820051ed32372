package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/system/function"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

func TestParseReportsUnusableOptions(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	for args, want := range map[string]string{
		"-duplicate 1.5":             "-duplicate must be between 0 and 1",
		"-duplicate NaN":             "-duplicate must be between 0 and 1",
		"-hang -0.1":                 "-hang must be between 0 and 1",
		"-batches 0":                 "-batches must be at least 1",
		"-batch 0":                   "-batch must be at least 1",
		"-requests 0":                "-requests must be at least 1",
		"-kill-every -1s":            "-kill-every must be at least 0",
		"-kill-nth -1":               "-kill-nth must be at least 0",
		"-timeout 0s":                "-timeout must be more than 0",
		"-sweep-every -1s":           "-sweep-every must be more than 0",
		"-timeout 1m -visibility 1m": "-visibility must be longer than the timeout, 1m0s",
		"-nothing":                   "flag provided but not defined",
		"shop.yaml":                  "unexpected argument",
		"-config nowhere.yaml":       "nowhere.yaml",
	} {
		if err := command(t.Context(), strings.Fields(args), io.Discard); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an errUsage with %q", args, err, want)
		}
	}
}

func TestParseRequiresEndpointsOfDynamoDBAndSQS(t *testing.T) {
	for _, c := range []struct{ dynamodb, both, want string }{
		{"", "", "AWS_ENDPOINT_URL_DYNAMODB and AWS_ENDPOINT_URL_SQS are not set; start emulators and set the variables, as localstack/aws.sh run"},
		{"http://127.0.0.1:1", "", "AWS_ENDPOINT_URL_SQS is not set"},
		{"127.0.0.1:1", "", "AWS_ENDPOINT_URL_DYNAMODB is not an address"},
		{"http://127.0.0.1:1", "http://", "AWS_ENDPOINT_URL is not an address"},
	} {
		t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", c.dynamodb)
		t.Setenv("AWS_ENDPOINT_URL_SQS", "")
		t.Setenv("AWS_ENDPOINT_URL", c.both)
		if _, err := parse(nil, io.Discard); !errors.Is(err, awsconfig.ErrEndpoint) || !errors.Is(err, errUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestBootstrapsComeFromAFolderOrTheSourceOrDist(t *testing.T) {
	tools := t.TempDir() // a go that writes the folder that it would build, in place of a program
	script := "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nmkdir -p \"$(dirname \"$2\")\"\n(cd \"$3\" && pwd) >\"$2\"\n"
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+string(filepath.ListSeparator)+os.Getenv("PATH"))
	found, err := findBootstraps(t.Context(), "", t.TempDir()) // tests run inside the repository
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range found {
		if built, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(built), "/functions/"+name+"\n") {
			t.Errorf("%s is built from %s, %v", name, built, err)
		}
	}
	folder := filepath.Dir(filepath.Dir(found[ingest]))
	named, err := findBootstraps(t.Context(), folder, "")
	if d := cmp.Diff(found, named); err != nil || d != "" {
		t.Errorf("%v (-built +named):\n%s", err, d)
	}
	t.Chdir(t.TempDir())
	if _, err := findBootstraps(t.Context(), "", ""); !errors.Is(err, errBootstraps) || !strings.Contains(err.Error(), "dist") {
		t.Errorf("got %v", err)
	}
	if err := os.Rename(folder, "dist"); err != nil {
		t.Fatal(err)
	}
	if _, err := findBootstraps(t.Context(), "", ""); err != nil {
		t.Error(err)
	}
}

func TestFaultsAreInjectedAtTheirRateAndCounted(t *testing.T) {
	batch := make([]queue.Delivery, 10)
	always, never := &culprit{faults: faults{Duplicate: 1, Hang: 1}}, &culprit{}
	for range 10 {
		if chosen, after := always.again(batch); len(chosen) != 10 || after < 0 || after >= copyWithin {
			t.Errorf("%d duplicates after %v", len(chosen), after)
		}
		if _, hangs := always.hang(); !hangs {
			t.Error("it does not hang")
		}
		if chosen, _ := never.again(batch); len(chosen) > 0 {
			t.Errorf("%d duplicates that nobody asked for", len(chosen))
		}
		if _, hangs := never.hang(); hangs {
			t.Error("it hangs, and nobody asked for it")
		}
	}
	rarely := &culprit{faults: faults{Hang: 1e-9}}
	for n := range 20 {
		if _, hangs := rarely.hang(); hangs != (n == 9) {
			t.Errorf("invocation %d hangs: %v; want only the tenth to hang", n+1, hangs)
		}
	}
	if always.duplicates.Load() != 100 || always.hangs.Load() != 10 {
		t.Errorf("counted %d duplicates and %d hangs", always.duplicates.Load(), always.hangs.Load())
	}
}

// endpoints skips a test if there is no emulator to run it on.
func endpoints(t *testing.T) function.Clients {
	t.Helper()
	return function.NewClients(awstest.Config(t, "DYNAMODB", "SQS"))
}

// A trial is a started run.
type trial struct {
	url  string
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, name string, timeout time.Duration) *trial {
	t.Helper()
	return startWith(t, name, "", timeout)
}

func startWith(t *testing.T, name, config string, timeout time.Duration) *trial {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	address, x := make(chan string, 1), &trial{stop: cancel, done: make(chan error, 1)}
	o := defaults()
	o.name, o.config, o.timeout = name, config, timeout
	o.listen, o.output, o.ready = "127.0.0.1:0", t.Output(), func(a string) { address <- a }
	go func() { x.done <- serveFunctions(ctx, o) }()
	select {
	case a := <-address:
		x.url = "http://" + a
	case err := <-x.done:
		t.Fatal(err)
	}
	return x
}

func (x *trial) send(t *testing.T, method, path, body string) (status int, replayed string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, x.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", `"first"`)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Idempotent-Replayed")
}

func TestASecondRunContinuesWhereTheFirstOneEnded(t *testing.T) {
	clients := endpoints(t)
	name := "run-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() { remove(t, clients, name) })
	for _, replayed := range []string{"", "true"} {
		x := start(t, name, 20*time.Second)
		if status, _ := x.send(t, http.MethodGet, "/healthz", ""); status != http.StatusOK {
			t.Errorf("health: %d", status)
		}
		if status, said := x.send(t, http.MethodPost, "/v1/streams/messages/messages", "hello"); status != http.StatusAccepted || said != replayed {
			t.Errorf("%d, replayed %q, want %q", status, said, replayed)
		}
		x.stop()
		if err := <-x.done; err != nil {
			t.Fatal(err)
		}
	}
	checkShapes(t, clients, name)
}

// checkShapes compares tables and queues with those of package infra.
func checkShapes(t *testing.T, clients function.Clients, name string) {
	t.Helper()
	for _, table := range []string{"-groups", "-tokens"} {
		out, err := clients.DynamoDB.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(name + table)})
		if err != nil || aws.ToString(out.TimeToLiveDescription.AttributeName) != "expires" || out.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusEnabled {
			t.Errorf("time to live of %s: %+v, %v", table, out, err)
		}
	}
	for queueName, dead := range map[string]string{
		"-ingress": "-ingress-dead", "-ingress.fifo": "-ingress-dead.fifo", "-publish": "-publish-dead", "-publish.fifo": "-publish-dead.fifo",
	} {
		url, err := clients.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(name + queueName)})
		if err != nil {
			t.Fatal(err)
		}
		out, err := clients.SQS.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: url.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{"All"}})
		if err != nil {
			t.Fatal(err)
		}
		var policy struct {
			Target string `json:"deadLetterTargetArn"`
		}
		if err := json.Unmarshal([]byte(out.Attributes["RedrivePolicy"]), &policy); err != nil || !strings.HasSuffix(policy.Target, ":"+name+dead) {
			t.Errorf("dead letters of %s go to %s, %v", queueName, policy.Target, err)
		}
		if got := out.Attributes["VisibilityTimeout"]; got != "120" {
			t.Errorf("visibility of %s: %s s, want six times the timeout", queueName, got)
		}
	}
}

func remove(t *testing.T, clients function.Clients, name string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	queues, err := clients.SQS.ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: &name})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range queues.QueueUrls {
		if _, err := clients.SQS.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
			t.Error(err)
		}
	}
	for _, table := range []string{"-groups", "-tokens"} {
		if _, err := clients.DynamoDB.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: aws.String(name + table)}); err != nil {
			t.Error(err)
		}
	}
}

func TestAConfigurationThatTheFunctionsRefuseIsAnErrorAtTheStart(t *testing.T) {
	clients := endpoints(t)
	name := "run-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() { remove(t, clients, name) })
	path := filepath.Join(t.TempDir(), "once.yaml")
	if err := os.WriteFile(path, []byte("streams:\n  a: {destinations: [f]}\ndestinations:\n  f: {file: out.jsonl}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	o := defaults()
	o.name, o.config, o.output = name, path, &output
	err := serveFunctions(t.Context(), o)
	if err == nil || !strings.Contains(output.String(), "out.jsonl") {
		t.Errorf("got %v, and the output %q", err, output.String())
	}
}

func TestASourceHasAQueueWhoseMessagesReachItsStream(t *testing.T) {
	clients := endpoints(t)
	name := "run-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() { remove(t, clients, name) })
	out, err := clients.SQS.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(name + "-out")})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "once.yaml")
	text := "streams: {news: {destinations: [out]}}\ndestinations: {out: {sqs: " + aws.ToString(out.QueueUrl) + "}}\n" +
		"ingress: {letters: {from: eventbridge, stream: news, id: $.detail.order}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	x := startWith(t, name, path, 20*time.Second)
	queue, err := clients.SQS.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(name + "-source-letters")})
	if err != nil {
		t.Fatal(err)
	}
	event := `{"id":"e-1","source":"shop","detail-type":"placed","time":"2026-01-02T03:04:05Z","detail":{"order":"o-7"}}`
	for range 2 {
		if _, err := clients.SQS.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: &event}); err != nil {
			t.Fatal(err)
		}
	}
	var bodies []string
	for end := time.Now().Add(time.Minute); len(bodies) == 0 && time.Now().Before(end); {
		got, err := clients.SQS.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: out.QueueUrl, WaitTimeSeconds: 2, MaxNumberOfMessages: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Messages {
			bodies = append(bodies, aws.ToString(m.Body))
		}
	}
	if d := cmp.Diff([]string{event}, bodies); d != "" {
		t.Errorf("at the destination (-want +got):\n%s", d)
	}
	x.stop()
	if err := <-x.done; err != nil {
		t.Fatal(err)
	}
}
