package stacktest

import (
	"encoding/json"
	"path"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/system/function"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// Sender is the sender of every message in ElasticMQ; the functions trust it.
const Sender = "127.0.0.1"

// Deploy makes tables and queues at the endpoints in the environment, and the process and publish
// functions of a stack, with a configuration. The functions do the tasks that they are sent. All of
// them are deleted when the test ends. Without endpoints it skips the test.
func (a *AWS) Deploy(t *testing.T, configuration string) {
	t.Helper()
	cfg := awstest.Config(t, "DYNAMODB", "SQS")
	name := a.tables(t, dynamodb.NewFromConfig(cfg))
	a.queues(t, sqs.NewFromConfig(cfg), name)
	a.Outputs["ApiUrl"], a.Outputs["Bucket"] = "https://api.example", name
	variables := map[string]string{environment.Config: "once.yaml", environment.TrustedSenders: "AROAPROCESS,AROAPUBLISH," + Sender + "," + a.Account}
	for variable, output := range map[string]string{
		environment.GroupsTable: "GroupsTable", environment.TokensTable: "TokensTable", environment.Bucket: "Bucket",
		environment.IngressQueue: "IngressQueueUrl", environment.IngressFIFOQueue: "IngressFifoQueueUrl",
		environment.PublishQueue: "PublishQueueUrl", environment.PublishFIFOQueue: "PublishFifoQueueUrl",
		environment.DeadQueue: "DeadQueueUrl", environment.DeadFIFOQueue: "DeadFifoQueueUrl",
		environment.DeadPublishQueue: "DeadPublishQueueUrl", environment.DeadPublishFIFOQueue: "DeadPublishFifoQueueUrl",
	} {
		variables[variable] = a.Outputs[output]
	}
	a.Functions["process"] = Function{
		Timeout: 30, Environment: variables, Config: configuration, Queues: a.arns("IngressQueueUrl", "IngressFifoQueueUrl"), Sweeps: true,
		Invoke: inProcess(t, function.Process, variables, configuration),
	}
	a.Functions["publish"] = Function{
		Timeout: 30, Environment: variables, Config: configuration, Queues: a.arns("PublishQueueUrl", "PublishFifoQueueUrl"),
		Invoke: inProcess(t, function.Publish, variables, configuration),
	}
	a.Functions["other"] = Function{Timeout: 900}
	a.Outputs["ProcessFunction"], a.Outputs["PublishFunction"] = "process", "publish"
}

// inProcess returns what invokes a function in this process, with an environment and the text of its
// configuration. The function is opened for each invocation.
func inProcess(t *testing.T, which function.Function, variables map[string]string, configuration string) func([]byte) any {
	t.Helper()
	return func(payload []byte) any {
		settings, err := environment.Read(func(name string) string {
			if name == environment.Config {
				return configuration + "\n\n" // text of several lines is not a path
			}
			return variables[name]
		})
		if err != nil {
			return err
		}
		cfg, err := awsconfig.Load(t.Context())
		if err != nil {
			return err
		}
		s, err := function.Open(which, settings, function.NewClients(cfg), nil)
		if err != nil {
			return err
		}
		answer, err := s.Handler()(t.Context(), payload)
		if err != nil {
			return err
		}
		return answer
	}
}

func (a *AWS) arns(outputs ...string) []string {
	list := make([]string, len(outputs))
	for i, o := range outputs {
		list[i] = "arn:aws:sqs:us-east-1:000000000000:" + path.Base(a.Outputs[o])
	}
	return list
}

// tables makes the tables and returns the prefix of their names.
func (a *AWS) tables(t *testing.T, client *dynamodb.Client) string {
	t.Helper()
	tables := awstest.Tables(t, client)
	a.Outputs["GroupsTable"], a.Outputs["TokensTable"] = tables.Groups, tables.Tokens
	for _, name := range []string{tables.Groups, tables.Tokens} {
		_, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamostore.TTLAttribute), Enabled: aws.Bool(true)},
		})
		if err != nil {
			t.Fatalf("set time to live: %v", err)
		}
	}
	return strings.TrimSuffix(tables.Groups, "-groups")
}

func (a *AWS) queues(t *testing.T, client *sqs.Client, name string) {
	t.Helper()
	for _, kind := range []struct{ work, dead string }{{"Ingress", "Dead"}, {"IngressFifo", "DeadFifo"}, {"Publish", "DeadPublish"}, {"PublishFifo", "DeadPublishFifo"}} {
		dead := a.queue(t, client, name, kind.dead, map[string]string{"MessageRetentionPeriod": "1209600"})
		policy, err := json.Marshal(map[string]string{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:" + path.Base(dead), "maxReceiveCount": "100"})
		if err != nil {
			t.Fatal(err)
		}
		a.queue(t, client, name, kind.work, map[string]string{"RedrivePolicy": string(policy), "VisibilityTimeout": "180"})
	}
}

func (a *AWS) queue(t *testing.T, client *sqs.Client, name, kind string, attributes map[string]string) string {
	t.Helper()
	name += "-" + kind
	if strings.HasSuffix(kind, "Fifo") {
		name += ".fifo"
	}
	url := awstest.Queue(t, client, name, attributes)
	a.Outputs[kind+"QueueUrl"] = url
	return url
}
