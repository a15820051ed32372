// Package awstest connects tests to the emulators of AWS that the environment names, and makes
// tables and queues there.
package awstest

import (
	"context"
	"crypto/rand"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/queue"
)

// Need skips the test if the environment has no endpoint of one of the services, such as "SQS".
func Need(t *testing.T, services ...string) {
	t.Helper()
	for _, s := range services {
		if os.Getenv("AWS_ENDPOINT_URL_"+s) == "" {
			t.Skipf("AWS_ENDPOINT_URL_%s is not set: put localstack/aws.sh run in front of the command", s)
		}
	}
}

// Config returns the settings for clients of the services. It skips the test as [Need] does.
func Config(t *testing.T, services ...string) aws.Config {
	t.Helper()
	Need(t, services...)
	cfg, err := awsconfig.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Tables makes empty tables, and deletes them when the test ends.
func Tables(t *testing.T, client *dynamodb.Client) dynamostore.Tables {
	t.Helper()
	name := "test-" + rand.Text()
	tables := dynamostore.Tables{Groups: name + "-groups", Tokens: name + "-tokens"}
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
	}
	return tables
}

// Queue makes a queue, first-in-first-out if its name ends in ".fifo", and deletes it when the test
// ends. It returns the URL.
func Queue(t *testing.T, client *sqs.Client, name string, attributes map[string]string, options ...func(*sqs.Options)) string {
	t.Helper()
	in := &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{}}
	maps.Copy(in.Attributes, attributes)
	if queue.FIFO(name) {
		in.Attributes["FifoQueue"] = "true"
	}
	out, err := client.CreateQueue(t.Context(), in, options...)
	if err != nil {
		t.Fatalf("create queue: %v", err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteQueue(context.WithoutCancel(t.Context()), &sqs.DeleteQueueInput{QueueUrl: out.QueueUrl}, options...); err != nil {
			t.Errorf("delete queue: %v", err)
		}
	})
	return aws.ToString(out.QueueUrl)
}

// Take receives and deletes all messages of a queue.
func Take(t *testing.T, q queue.Queue) []queue.Delivery {
	t.Helper()
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
