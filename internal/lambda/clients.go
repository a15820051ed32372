package lambda

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
)

// Clients are what the system asks of AWS.
type Clients struct {
	DynamoDB *dynamodb.Client
	SQS      *sqs.Client
}

// NewClients makes the clients of the account and region of the environment. Endpoints come from AWS_ENDPOINT_URL and its like.
func NewClients(ctx context.Context) (Clients, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return Clients{}, fmt.Errorf("read AWS settings: %w", err)
	}
	return Clients{
		DynamoDB: dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
			// An emulator sends no checksum with an error, and each failed condition would be logged.
			o.DisableValidateResponseChecksum = aws.ToString(o.BaseEndpoint) != ""
		}),
		SQS: sqs.NewFromConfig(cfg),
	}, nil
}

func newQueues(client *sqs.Client, urls QueueURLs) *queues {
	port := func(url string) queue.Queue { return sqsqueue.New(client, url) }
	return &queues{
		ingress: port(urls.Ingress), ingressFIFO: port(urls.IngressFIFO), publish: port(urls.Publish), publishFIFO: port(urls.PublishFIFO),
		dead: port(urls.Dead), deadPublish: port(urls.DeadPublish), byNumber: map[string]bool{},
		now: time.Now,
	}
}
