package e2e

import (
	"cmp"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// A stack of contract.yaml, deployed somewhere from where this machine can be reached at the receiver's address, is told by the environment:
//
//	ONCE_E2E_API_URL    its front door, open to every caller
//	ONCE_E2E_STACK      its name; defaults to Once
//	AWS_ENDPOINT_URL …  where it is
//
// Its functions have the variable E2E_WEBHOOK_SECRET, which TestContract logs when it is set otherwise than the receiver's.
const (
	envAPI   = "ONCE_E2E_API_URL"
	envStack = "ONCE_E2E_STACK"
)

// targets are what the contract is checked on.
func targets() map[string]func(*testing.T) *target {
	if os.Getenv(envAPI) != "" {
		return map[string]func(*testing.T) *target{"deployed": startDeployed}
	}
	return map[string]func(*testing.T) *target{"embedded": startEmbedded, "lambda": startLambda}
}

func startDeployed(t *testing.T) *target {
	t.Helper()
	r := newReceiverAt(t, contractAddress, 0)
	outputs := stackOutputs(t, cmp.Or(os.Getenv(envStack), "Once"))
	output := func(name string) *string {
		t.Helper()
		if outputs[name] == "" {
			t.Fatalf("the stack has no output %s, but %v", name, outputs)
		}
		return aws.String(outputs[name])
	}
	client := newSQSClient(t, cmp.Or(os.Getenv("AWS_ENDPOINT_URL_SQS"), os.Getenv("AWS_ENDPOINT_URL")))
	destination, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(contractQueue), Attributes: map[string]string{"FifoQueue": "true"}})
	must(t, err)
	stored := newTables(t, *output("GroupsTable"), *output("TokensTable"))
	x := &target{
		url: strings.TrimSuffix(os.Getenv(envAPI), "/"), receiver: r, sqs: client,
		urls:      map[string]*string{"ingress": output("IngressQueueUrl"), "ingress.fifo": output("IngressFifoQueueUrl")},
		leftovers: func() ([]string, error) { return stored.leftovers(t.Context()) },
	}
	x.outside(t, output("DeadQueueUrl"), output("IngressQueueUrl"), destination.QueueUrl)
	return x
}

func stackOutputs(t *testing.T, name string) map[string]string {
	t.Helper()
	c, err := config.LoadDefaultConfig(t.Context())
	must(t, err)
	out, err := cloudformation.NewFromConfig(c).DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: &name})
	must(t, err)
	outputs := map[string]string{}
	for _, o := range out.Stacks[0].Outputs {
		outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	return outputs
}
