package stacktest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/system/function"
)

// Sender is the sender of every message in ElasticMQ; the functions trust it.
const Sender = "127.0.0.1"

// Deploy makes tables and queues at the endpoints in the environment, and the process and publish
// functions of a stack, with a configuration. The functions do the tasks that they are sent. All of
// them are deleted when the test ends. Without endpoints it skips the test.
func (a *AWS) Deploy(t *testing.T, configuration string) {
	t.Helper()
	for _, name := range []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS"} {
		if os.Getenv(name) == "" {
			t.Skipf("%s is not set: localstack/aws.sh run starts the tables and queues of a stack", name)
		}
	}
	cfg, err := awsconfig.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := "stack-" + rand.Text()
	a.tables(t, dynamodb.NewFromConfig(cfg), name)
	a.queues(t, sqs.NewFromConfig(cfg), name)
	a.Outputs["ApiUrl"], a.Outputs["Bucket"] = "https://api.example", name
	environment := map[string]string{function.EnvConfig: "once.yaml", function.EnvTrustedSenders: "AROAPROCESS,AROAPUBLISH," + Sender + "," + a.Account}
	for variable, output := range map[string]string{
		function.EnvGroupsTable: "GroupsTable", function.EnvTokensTable: "TokensTable", function.EnvBucket: "Bucket",
		function.EnvIngressQueue: "IngressQueueUrl", function.EnvIngressFIFOQueue: "IngressFifoQueueUrl",
		function.EnvPublishQueue: "PublishQueueUrl", function.EnvPublishFIFOQueue: "PublishFifoQueueUrl",
		function.EnvDeadQueue: "DeadQueueUrl", function.EnvDeadFIFOQueue: "DeadFifoQueueUrl",
		function.EnvDeadPublishQueue: "DeadPublishQueueUrl", function.EnvDeadPublishFIFOQueue: "DeadPublishFifoQueueUrl",
	} {
		environment[variable] = a.Outputs[output]
	}
	a.Functions["process"] = Function{
		Timeout: 30, Environment: environment, Config: configuration, Queues: a.arns("IngressQueueUrl", "IngressFifoQueueUrl"), Sweeps: true,
		Invoke: tasks(t, function.Process, environment, configuration),
	}
	a.Functions["publish"] = Function{
		Timeout: 30, Environment: environment, Config: configuration, Queues: a.arns("PublishQueueUrl", "PublishFifoQueueUrl"),
		Invoke: tasks(t, function.Publish, environment, configuration),
	}
	a.Functions["other"] = Function{Timeout: 900}
	a.Outputs["ProcessFunction"], a.Outputs["PublishFunction"] = "process", "publish"
}

// tasks is a function in this process, with an environment and the text of its configuration. It is
// opened for each invocation.
func tasks(t *testing.T, which function.Function, environment map[string]string, configuration string) func([]byte) any {
	t.Helper()
	return func(payload []byte) any {
		settings, err := function.ReadSettings(func(name string) string {
			if name == function.EnvConfig {
				return configuration + "\n\n" // text of several lines is not a path
			}
			return environment[name]
		})
		if err != nil {
			return err
		}
		clients, err := function.NewClients(t.Context())
		if err != nil {
			return err
		}
		s, err := function.Open(which, settings, clients, nil)
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

func (a *AWS) tables(t *testing.T, client *dynamodb.Client, name string) {
	t.Helper()
	tables := dynamostore.Tables{Groups: name + "-groups", Tokens: name + "-tokens"}
	a.Outputs["GroupsTable"], a.Outputs["TokensTable"] = tables.Groups, tables.Tokens
	for _, in := range dynamostore.Schema(tables) {
		if _, err := client.CreateTable(t.Context(), in); err != nil {
			t.Fatalf("create table: %v", err)
		}
		t.Cleanup(func() {
			if _, err := client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: in.TableName}); err != nil {
				t.Errorf("delete table: %v", err)
			}
		})
		if err := dynamodb.NewTableExistsWaiter(client).Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: in.TableName}, time.Minute); err != nil {
			t.Fatalf("wait for table: %v", err)
		}
		_, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName: in.TableName, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamostore.TTLAttribute), Enabled: aws.Bool(true)},
		})
		if err != nil {
			t.Fatalf("set time to live: %v", err)
		}
	}
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
		attributes["FifoQueue"] = "true"
	}
	out, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatalf("create queue: %v", err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteQueue(context.WithoutCancel(t.Context()), &sqs.DeleteQueueInput{QueueUrl: out.QueueUrl}); err != nil {
			t.Errorf("delete queue: %v", err)
		}
	})
	a.Outputs[kind+"QueueUrl"] = aws.ToString(out.QueueUrl)
	return aws.ToString(out.QueueUrl)
}
