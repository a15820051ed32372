package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/system/deployed/stacktest"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// settleEvery is the interval between looks at a table.
const settleEvery = 500 * time.Millisecond

// functionsFolder has the bootstrap binaries of this machine.
var functionsFolder = sync.OnceValues(func() (string, error) { return buildFunctions("functions") })

// buildFunctions builds the functions, with further arguments, into a folder.
func buildFunctions(folder string, args ...string) (string, error) {
	for _, name := range []string{"ingest", "process", "publish"} {
		args := append(slices.Clone(args), "-tags", "lambda.norpc", "./functions/"+name)
		if _, err := build(filepath.Join(folder, name, "bootstrap"), args...); err != nil {
			return "", err
		}
	}
	return filepath.Join(bin, folder), nil
}

// A deployment is a system run by localstack/lambda: the real functions as processes, on DynamoDB
// and SQS at the endpoints of the environment.
type deployment struct {
	*server
	name   string
	sqs    *sqs.Client
	tables *tables
}

// newDeployment prepares a deployment of the contract under names of its own; it does not start it.
func newDeployment(t *testing.T, r *receiver, args ...string) *deployment {
	t.Helper()
	return newDeploymentOf(t, r, func(queue string) string { return contractTo(t, r.url, queue) }, args...)
}

// newDeploymentOf prepares a deployment of a configuration, which may send to a queue.
func newDeploymentOf(t *testing.T, r *receiver, configuration func(queue string) string, args ...string) *deployment {
	t.Helper()
	for _, name := range []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS"} {
		if os.Getenv(name) == "" {
			t.Skipf("%s is not set: localstack/aws.sh run starts what the functions need", name)
		}
	}
	folder, err := functionsFolder()
	must(t, err)
	d := &deployment{name: "e2e-" + uuid.NewString()[:8], sqs: newSQSClient(t, os.Getenv("AWS_ENDPOINT_URL_SQS"))}
	d.tables = newTables(t, d.name+"-groups", d.name+"-tokens")
	t.Cleanup(func() { must(t, d.remove(context.WithoutCancel(t.Context()))) })
	_, err = d.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(d.name + ".fifo"), Attributes: map[string]string{"FifoQueue": "true"}})
	must(t, err)
	d.server = newHost(t, configuration(d.name+".fifo"))
	d.args = append([]string{"--functions", folder, "--name", d.name}, args...)
	d.env = []string{r.env()}
	return d
}

// newHost prepares a server that runs the functions, in place of the product's own.
func newHost(t *testing.T, configuration string) *server {
	t.Helper()
	s := newServer(t, onceBinary, configuration)
	path, err := lambdaBinary()
	must(t, err)
	s.program = []string{path, "--config", s.path("once.yaml")}
	return s
}

// remove deletes the deployment's tables and queues.
func (d *deployment) remove(ctx context.Context) error {
	var errs []error
	queues, err := d.sqs.ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: &d.name})
	if err != nil {
		return err
	}
	for _, url := range queues.QueueUrls {
		_, err := d.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url})
		errs = append(errs, err)
	}
	for _, table := range []string{d.tables.groups, d.tables.tokens} {
		_, err := d.tables.client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &table})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (d *deployment) queue(t *testing.T, name string) *string {
	t.Helper()
	return queueURL(t, d.sqs, d.name+name)
}

// leftovers returns a description of the work left in the tables and in the queues.
func (d *deployment) leftovers(t *testing.T) ([]string, error) {
	t.Helper()
	left, err := d.tables.leftovers(t.Context())
	for _, name := range []string{"-ingress", "-ingress.fifo", "-publish", "-publish.fifo"} {
		more, err := queueDepth(t.Context(), d.sqs, d.queue(t, name))
		if err != nil {
			return nil, err
		}
		left = append(left, more...)
	}
	return left, err
}

// queueDepth returns a description of a queue's messages, if there are any.
func queueDepth(ctx context.Context, client *sqs.Client, url *string) ([]string, error) {
	out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
	}})
	if err != nil {
		return nil, err
	}
	for _, n := range out.Attributes {
		if n != "0" {
			return []string{fmt.Sprintf("%s has %v", *url, out.Attributes)}, nil
		}
	}
	return nil, nil
}

// startLambda starts the functions under the local Lambda host.
func startLambda(t *testing.T) *target {
	t.Helper()
	r := newReceiver(t, 0)
	d := newDeployment(t, r, "--sweep-every", "1s")
	must(t, d.start())
	x := &target{
		url: d.url(), receiver: r, sqs: d.sqs,
		urls:      map[string]*string{"ingress": d.queue(t, "-ingress"), "ingress.fifo": d.queue(t, "-ingress.fifo")},
		leftovers: func() ([]string, error) { return d.leftovers(t) },
		believing: true,
	}
	d.pretend(t)
	x.outside(t, d.queue(t, "-ingress-dead"), d.queue(t, ".fifo"), func(reason string) ([]byte, error) {
		return d.once("redrive", "--stack", "Once", "--queue", "ingress-dead", "--reason", reason, "--json")
	})
	return x
}

// pretend makes the deployment look like a stack to a redrive, which needs its outputs and its
// process function.
func (d *deployment) pretend(t *testing.T) {
	t.Helper()
	folder, err := functionsFolder()
	must(t, err)
	outputs := map[string]string{
		"ApiUrl": d.url(), "GroupsTable": d.tables.groups, "TokensTable": d.tables.tokens, "Bucket": d.name + "-objects", "ProcessFunction": "process", "PublishFunction": "publish",
	}
	env := []string{
		"ONCE_CONFIG=" + d.path("once.yaml"), "ONCE_GROUPS_TABLE=" + d.tables.groups, "ONCE_TOKENS_TABLE=" + d.tables.tokens,
		// the sender of everything on emulators
		"ONCE_TRUSTED_SENDERS=127.0.0.1,000000000000",
	}
	for _, q := range []struct{ name, output, variable string }{
		{"-ingress", "IngressQueueUrl", "ONCE_INGRESS_QUEUE_URL"},
		{"-ingress.fifo", "IngressFifoQueueUrl", "ONCE_INGRESS_FIFO_QUEUE_URL"},
		{"-publish", "PublishQueueUrl", "ONCE_PUBLISH_QUEUE_URL"},
		{"-publish.fifo", "PublishFifoQueueUrl", "ONCE_PUBLISH_FIFO_QUEUE_URL"},
		{"-ingress-dead", "DeadQueueUrl", "ONCE_DEAD_QUEUE_URL"},
		{"-ingress-dead.fifo", "DeadFifoQueueUrl", "ONCE_DEAD_FIFO_QUEUE_URL"},
		{"-publish-dead", "DeadPublishQueueUrl", "ONCE_DEAD_PUBLISH_QUEUE_URL"},
		{"-publish-dead.fifo", "DeadPublishFifoQueueUrl", "ONCE_DEAD_PUBLISH_FIFO_QUEUE_URL"},
	} {
		outputs[q.output] = *d.queue(t, q.name)
		env = append(env, q.variable+"="+outputs[q.output])
	}
	env = append(env, "AWS_CONFIG_FILE=", "AWS_SHARED_CREDENTIALS_FILE=") // stacktest sets them for the command line
	process := host.New(filepath.Join(folder, "process", "bootstrap"), host.Options{Name: "process", Env: append(env, d.env...), Output: t.Output()})
	t.Cleanup(func() { must(t, process.Close()) })
	stack := stacktest.Start(t)
	stack.Outputs = outputs
	stack.Functions["process"] = stacktest.Function{Invoke: func(task []byte) any {
		answer, err := process.Invoke(t.Context(), task)
		if err != nil {
			return err
		}
		return json.RawMessage(answer)
	}}
}
