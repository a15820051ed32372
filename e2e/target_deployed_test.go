package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// The environment describes a stack of contract.yaml that is deployed on an emulator on this
// machine, and whose functions reach the receiver:
//
//	ONCE_CONTRACT       its configuration: contract.yaml with another address of the receiver
//	ONCE_API_URL        its API, open to every caller
//	ONCE_OUTPUTS        the file of its outputs, written by cdk deploy
//	AWS_ENDPOINT_URL …  its endpoints
//
// Its functions have the variable E2E_WEBHOOK_SECRET with the value of contractSecret.
const (
	envContract = "ONCE_CONTRACT"
	envAPI      = "ONCE_API_URL"
	envOutputs  = "ONCE_OUTPUTS"
)

// targets returns the systems on which the contract is checked.
func targets() map[string]func(*testing.T) *target {
	if os.Getenv(envAPI) != "" {
		return map[string]func(*testing.T) *target{"deployed": startDeployed}
	}
	return map[string]func(*testing.T) *target{"embedded": startEmbedded, "lambda": startLambda}
}

func startDeployed(t *testing.T) *target {
	t.Helper()
	text, err := os.ReadFile(os.Getenv(envContract))
	must(t, err)
	_, rest, _ := strings.Cut(string(text), `webhook: "http://`)
	address, _, _ := strings.Cut(rest, "/")
	r := newReceiverAt(t, address, 0)
	stack, outputs := stackOutputs(t)
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
		sweep: func() error {
			_, err := onStack(t, stack, "sweep")
			return err
		},
		believing: true,
		services:  newServices(t, output),
	}
	x.outside(t, output("DeadQueueUrl"), destination.QueueUrl, func(reason string) ([]byte, error) {
		return onStack(t, stack, "redrive", "--reason", reason, "--json")
	})
	return x
}

// stackOutputs reads the stack's name and outputs.
func stackOutputs(t *testing.T) (stack string, outputs map[string]string) {
	t.Helper()
	text, err := os.ReadFile(os.Getenv(envOutputs))
	must(t, err)
	var stacks map[string]map[string]string
	must(t, json.Unmarshal(text, &stacks))
	for stack, outputs = range stacks {
		if outputs["IngressQueueUrl"] != "" {
			return stack, outputs
		}
	}
	t.Fatalf("%s has no stack of once", os.Getenv(envOutputs))
	return "", nil
}

// onStack runs an operator's command.
func onStack(t *testing.T, stack, command string, args ...string) ([]byte, error) {
	t.Helper()
	binary, err := onceBinary()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{command, "--stack", stack, "--config", os.Getenv(envContract)}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("once %s: %w\n%s", command, err, stderr.Bytes())
	}
	return out, nil
}
