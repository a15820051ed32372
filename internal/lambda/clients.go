package lambda

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/pipeline"
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

// ports are the queues of a deployment. SQS has a message durably when it answers, so that every order of calls is kept.
func ports(client *sqs.Client, urls QueueURLs) pipeline.Ports {
	port := func(url string) queue.Queue { return sqsqueue.New(client, url) }
	return pipeline.Ports{
		Ingress: port(urls.Ingress), IngressFIFO: port(urls.IngressFIFO), Publish: port(urls.Publish), PublishFIFO: port(urls.PublishFIFO),
		Dead: port(urls.Dead), DeadPublish: port(urls.DeadPublish),
	}
}
