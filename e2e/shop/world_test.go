package shop

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventbridgetypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	wait "github.com/effectively-once/once/internal/testkit/eventually"
)

// The configurations of the pipelines.
const (
	ordersConfig  = "streams: {orders: {destinations: [events]}}\ndestinations: {events: {eventbridge: default}}\n"
	billingConfig = "streams: {bills: {admission: sequence}}\n"
)

// Exit codes of the command line.
const (
	exitFailed   = 1
	exitRefused  = 3
	exitNotFound = 6
)

// A pipeline is one of the deployed pipelines.
type pipeline struct {
	stack, config string
	binary        string
	id            string
	outputs       map[string]string
	dropped       []string // the checks that fail because the emulator drops properties
}

func open(t *testing.T) (orders, billing *pipeline) {
	t.Helper()
	file := os.Getenv("ONCE_SHOP_OUTPUTS")
	if file == "" {
		t.Skip("localstack/shop.sh deploys the app and sets ONCE_SHOP_OUTPUTS")
	}
	text, err := os.ReadFile(file)
	must(t, err)
	var stacks map[string]map[string]string
	must(t, json.Unmarshal(text, &stacks))
	if stacks["Shop"] == nil {
		t.Fatalf("%s has no stack Shop: %s", file, text)
	}
	binary := filepath.Join(t.TempDir(), "once")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/once")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build once: %v\n%s", err, out)
	}
	dropped := checksOf(unsupported(t))
	return &pipeline{"Shop/Orders", ordersConfig, binary, "Orders", stacks["Shop"], dropped},
		&pipeline{"Shop/Billing", billingConfig, binary, "Billing", stacks["Shop"], dropped}
}

// unsupported reads the rules of the list of what the emulator drops.
func unsupported(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(os.Getenv("ONCE_SHOP_UNSUPPORTED"))
	must(t, err)
	rules := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		rule, _, _ := strings.Cut(line, "#")
		rules[strings.Join(strings.Fields(rule), " ")] = true
	}
	return rules
}

func (p *pipeline) output(name string) string { return p.outputs[p.id+name] }

// url returns the address of the API that an emulator serves without a name to look up.
func (p *pipeline) url() string {
	return regexp.MustCompile(`^https?://([^.]+)\.[^/]+`).ReplaceAllString(p.output("ApiUrl"), strings.TrimSuffix(os.Getenv("AWS_ENDPOINT_URL"), "/")+"/_aws/execute-api/$1")
}

// once runs a command on the pipeline and returns both outputs and the exit code.
func (p *pipeline) once(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.binary, append(args, "--stack", p.stack)...)
	cmd.Dir = t.TempDir() // a once.yaml of the working folder must not matter
	var out, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &notes
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), notes.String(), cmd.ProcessState.ExitCode()
}

// run returns the output of a command that succeeds.
func (p *pipeline) run(t *testing.T, args ...string) string {
	t.Helper()
	out, notes, code := p.once(t, args...)
	if code != 0 {
		t.Fatalf("once %q with %s: exit code %d\n%s%s", args, p.stack, code, out, notes)
	}
	return out
}

// json decodes the JSON output of a command. Its exit code may be that of a check that failed.
func (p *pipeline) json(t *testing.T, to any, args ...string) {
	t.Helper()
	out, notes, code := p.once(t, append(args, "--json")...)
	if code != 0 && (args[0] != "check" || code != exitFailed) {
		t.Fatalf("once %q with %s: exit code %d\n%s%s", args, p.stack, code, out, notes)
	}
	if err := json.Unmarshal([]byte(out), to); err != nil {
		t.Fatalf("once %q with %s: %v\n%s", args, p.stack, err, out)
	}
}

// exists decodes the JSON output of a command, and reports whether what it looks up exists.
func (p *pipeline) exists(t *testing.T, to any, args ...string) bool {
	t.Helper()
	out, notes, code := p.once(t, append(args, "--json")...)
	switch {
	case code == exitNotFound:
		return false
	case code != 0:
		t.Fatalf("once %q with %s: exit code %d\n%s%s", args, p.stack, code, out, notes)
	}
	must(t, json.Unmarshal([]byte(out), to))
	return true
}

// fails runs a command that must end with an exit code, and returns its standard error.
func (p *pipeline) fails(t *testing.T, want int, args ...string) string {
	t.Helper()
	out, notes, code := p.once(t, args...)
	if code != want {
		t.Errorf("once %q with %s: exit code %d, not %d\n%s%s", args, p.stack, code, want, out, notes)
	}
	return notes
}

// events collects the events of both pipelines from the default bus.
type events struct {
	queues *sqs.Client
	url    *string
	all    []string
}

func newEvents(t *testing.T) *events {
	t.Helper()
	c, err := config.LoadDefaultConfig(t.Context())
	must(t, err)
	e := &events{queues: sqs.NewFromConfig(c)}
	queue, err := e.queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("once-e2e-shop")})
	must(t, err)
	e.url = queue.QueueUrl
	attributes, err := e.queues.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: e.url, AttributeNames: []sqstypes.QueueAttributeName{"QueueArn"}})
	must(t, err)
	bus, rule := eventbridge.NewFromConfig(c), aws.String("once-e2e-shop")
	_, err = bus.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: rule, EventPattern: aws.String(`{"source":["once.orders","once.bills"]}`)})
	must(t, err)
	out, err := bus.PutTargets(t.Context(), &eventbridge.PutTargetsInput{
		Rule: rule, Targets: []eventbridgetypes.Target{{Id: aws.String("queue"), Arn: aws.String(attributes.Attributes["QueueArn"])}},
	})
	must(t, err)
	if out.FailedEntryCount != 0 {
		t.Fatalf("targets: %+v", out.FailedEntries)
	}
	return e
}

// received returns all events so far: source, identity and body.
func (e *events) received(t *testing.T) []string {
	t.Helper()
	for {
		out, err := e.queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: e.url, MaxNumberOfMessages: 10})
		must(t, err)
		if len(out.Messages) == 0 {
			return e.all
		}
		for _, m := range out.Messages {
			var x struct {
				Source string
				Detail struct {
					Identity string
					Body     json.RawMessage
				}
			}
			must(t, json.Unmarshal([]byte(*m.Body), &x))
			var body bytes.Buffer
			must(t, json.Compact(&body, x.Detail.Body)) // an emulator adds blanks
			e.all = append(e.all, x.Source+" "+x.Detail.Identity+" "+body.String())
			_, err = e.queues.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: e.url, ReceiptHandle: m.ReceiptHandle})
			must(t, err)
		}
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	wait.Succeeds(t, func() error {
		if !ok() {
			return errors.New(what)
		}
		return nil
	})
}

// file writes a configuration and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "once.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
