package function

import (
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/effectively-once/once/internal/aws/call"
	"github.com/effectively-once/once/internal/aws/secret"
	"github.com/effectively-once/once/internal/aws/sign"
	"github.com/effectively-once/once/internal/blob/s3blob"
	"github.com/effectively-once/once/internal/delay/dynamodelay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/claimcheck"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// Clients are the AWS clients of the system.
type Clients struct {
	DynamoDB       *dynamodb.Client
	EventBridge    *call.Client
	Lambda         *call.Client
	S3             *s3.Client
	SecretsManager *call.Client
	SNS            *call.Client
	SQS            *sqs.Client
	SSM            *call.Client
	STS            *sts.Client

	config aws.Config
}

// NewClients returns the clients for an account and a region.
func NewClients(cfg aws.Config) Clients {
	return Clients{
		config: cfg,
		DynamoDB: dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
			// An emulator sends no checksum with an error, and each failed condition would be
			// logged.
			o.DisableValidateResponseChecksum = aws.ToString(o.BaseEndpoint) != ""
		}),
		EventBridge:    call.New(cfg, call.EventBridge()),
		Lambda:         call.New(cfg, call.Lambda()),
		S3:             s3.NewFromConfig(cfg),
		SecretsManager: call.New(cfg, call.SecretsManager()),
		SNS:            call.New(cfg, call.SNS()),
		SQS:            sqs.NewFromConfig(cfg),
		SSM:            call.New(cfg, call.SSM()),
		STS:            sts.NewFromConfig(cfg),
	}
}

// secrets reads the secrets of destinations when they are needed, and keeps them for some minutes.
func (c Clients) secrets() *secret.Reader {
	return secret.New(secret.Options{SecretsManager: c.SecretsManager, Parameters: c.SSM})
}

// sign returns a transport that signs requests to a URL of API Gateway with the function's
// credentials.
func (c Clients) sign(url string, next http.RoundTripper) (http.RoundTripper, error) {
	if c.config.Credentials == nil {
		return nil, errors.New("there are no credentials of AWS")
	}
	return sign.New(c.config.Credentials, sign.RegionOf(url, c.config.Region), next), nil
}

// ports are the queues of a deployment. When SQS answers, the message is durable, so that every
// order of calls is kept.
func (c Clients) ports(settings environment.Settings) pipeline.Ports {
	b, urls := c.bodies(settings), settings.Queues
	port := func(url string) queue.Queue { return b.queue(c.SQS, url) }
	return pipeline.Ports{
		Ingress: port(urls.Ingress), IngressFIFO: port(urls.IngressFIFO), Publish: port(urls.Publish), PublishFIFO: port(urls.PublishFIFO),
		Dead: port(urls.Dead), DeadPublish: port(urls.DeadPublish), Delays: pipeline.Delays{Store: c.delays(settings), Horizon: queue.MaxDelay},
	}
}

// delays keep the messages that are due later than a queue can delay them.
func (c Clients) delays(settings environment.Settings) *dynamodelay.Store {
	return dynamodelay.New(c.DynamoDB, settings.Tables.Groups)
}

// bodies are where bodies are kept that are too large for a queue, and whose names are followed.
type bodies struct {
	place   claimcheck.Bodies // nil if there is no bucket
	trusted []string
}

func (c Clients) bodies(settings environment.Settings) bodies {
	b := bodies{trusted: settings.Trusted}
	if settings.Bucket != "" {
		b.place = s3blob.NewBodies(c.S3, settings.Bucket)
	}
	return b
}

func (b bodies) trusts(d *queue.Delivery) bool { return wire.Defaults{Trusted: b.trusted}.Trusts(d) }

// queue returns the port to a queue of the deployment.
func (b bodies) queue(client *sqs.Client, url string) *sqsqueue.Queue {
	q := sqsqueue.New(client, url)
	if b.place == nil {
		return q
	}
	return q.WithBodies(b.place, b.trusts)
}
