package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/system/function/environment"
)

// The settings of infra's queues.
const (
	retention       = 14 * 24 * time.Hour
	maxReceives     = 100
	publishReceives = 1000
	tableTime       = time.Minute // limit for the creation of a table
)

// prepare creates the missing parts of a deployment, and sets the environment of its functions.
func (r *run) prepare(ctx context.Context) error {
	tables := dynamostore.Tables{Groups: r.name + "-groups", Tokens: r.name + "-tokens"}
	if err := r.createTables(ctx, tables); err != nil {
		return err
	}
	if err := r.createQueues(ctx); err != nil {
		return err
	}
	if err := r.createBucket(ctx); err != nil {
		return err
	}
	sender, err := r.sender(ctx)
	if err != nil {
		return err
	}
	r.env = append(r.env, environment.GroupsTable+"="+tables.Groups, environment.TokensTable+"="+tables.Tokens, environment.TrustedSenders+"="+sender)
	for variable, url := range r.urls {
		r.env = append(r.env, variable+"="+url)
	}
	if len(r.sources) > 0 {
		r.env = append(r.env, environment.SourceQueues+"="+r.sourceQueues())
	}
	return nil
}

// sourceQueues returns the variable that says which queue belongs to which source.
func (r *run) sourceQueues() string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(r.sources)) {
		items = append(items, name+"="+path.Base(r.sources[name]))
	}
	return strings.Join(items, ",")
}

func (r *run) createTables(ctx context.Context, tables dynamostore.Tables) error {
	db := r.clients.DynamoDB
	for _, in := range dynamostore.Schema(tables) {
		_, err := db.CreateTable(ctx, in)
		if _, exists := errors.AsType[*types.ResourceInUseException](err); exists {
			continue
		}
		if err == nil {
			err = dynamodb.NewTableExistsWaiter(db).Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, tableTime)
		}
		if err == nil {
			_, err = db.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
				TableName: in.TableName, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(dynamostore.TTLAttribute), Enabled: aws.Bool(true)},
			})
		}
		if err != nil {
			return fmt.Errorf("create table %s: %w", aws.ToString(in.TableName), err)
		}
	}
	return nil
}

// createBucket creates the bucket, if there is an endpoint for S3. The functions work without one.
func (r *run) createBucket(ctx context.Context) error {
	if os.Getenv("AWS_ENDPOINT_URL_S3") == "" && os.Getenv("AWS_ENDPOINT_URL") == "" {
		return nil
	}
	in := &s3.CreateBucketInput{Bucket: aws.String(r.name + "-objects")}
	// that region is no valid constraint
	if region := r.clients.S3.Options().Region; region != "us-east-1" {
		in.CreateBucketConfiguration = &s3types.CreateBucketConfiguration{LocationConstraint: s3types.BucketLocationConstraint(region)}
	}
	_, err := r.clients.S3.CreateBucket(ctx, in)
	if _, exists := errors.AsType[*s3types.BucketAlreadyOwnedByYou](err); err != nil && !exists {
		return fmt.Errorf("create bucket %s: %w", *in.Bucket, err)
	}
	r.env = append(r.env, environment.Bucket+"="+*in.Bucket)
	return nil
}

// A pair is a queue and its dead-letter queue, which must be of the same kind.
type pair struct {
	work, dead       string // names, without the system's prefix and without .fifo
	fifo             string // .fifo or empty
	receives         int
	workEnv, deadEnv string // variables of the functions
}

func pairs() []pair {
	return []pair{
		{"ingress", "ingress-dead", "", maxReceives, environment.IngressQueue, environment.DeadQueue},
		{"ingress", "ingress-dead", ".fifo", maxReceives, environment.IngressFIFOQueue, environment.DeadFIFOQueue},
		{"publish", "publish-dead", "", publishReceives, environment.PublishQueue, environment.DeadPublishQueue},
		{"publish", "publish-dead", ".fifo", publishReceives, environment.PublishFIFOQueue, environment.DeadPublishFIFOQueue},
	}
}

func (r *run) createQueues(ctx context.Context) error {
	for _, p := range pairs() {
		dead, err := r.createQueue(ctx, p.dead+p.fifo, nil)
		if err != nil {
			return err
		}
		policy, err := r.redrivePolicy(ctx, dead, p.receives)
		if err != nil {
			return err
		}
		work, err := r.createQueue(ctx, p.work+p.fifo, map[string]string{"RedrivePolicy": policy, "VisibilityTimeout": seconds(r.visibility)})
		if err != nil {
			return err
		}
		r.urls[p.workEnv] = work
		r.urls[p.deadEnv] = dead
	}
	return r.createSources(ctx)
}

// createSources creates the queues of the sources of the configuration. Their dead letters go to
// those of the ingress queues.
func (r *run) createSources(ctx context.Context) error {
	for _, name := range r.parsed.IngressNames() {
		dead, fifo := r.urls[environment.DeadQueue], ""
		if r.parsed.Ingress[name].FIFO {
			dead, fifo = r.urls[environment.DeadFIFOQueue], ".fifo"
		}
		policy, err := r.redrivePolicy(ctx, dead, maxReceives)
		if err != nil {
			return err
		}
		r.sources[name], err = r.createQueue(ctx, "source-"+name+fifo, map[string]string{"RedrivePolicy": policy, "VisibilityTimeout": seconds(r.visibility)})
		if err != nil {
			return err
		}
	}
	return nil
}

// createQueue returns the URL of a queue, which it creates if it is missing. It does not change an
// existing one.
func (r *run) createQueue(ctx context.Context, name string, more map[string]string) (url string, err error) {
	name = r.name + "-" + name
	known, err := r.clients.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err == nil {
		return aws.ToString(known.QueueUrl), nil
	}
	if _, missing := errors.AsType[*sqstypes.QueueDoesNotExist](err); !missing {
		return "", fmt.Errorf("find queue %s: %w", name, err)
	}
	attributes := map[string]string{"MessageRetentionPeriod": seconds(retention)}
	if queue.FIFO(name) {
		maps.Copy(attributes, map[string]string{"FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"})
	}
	maps.Copy(attributes, more)
	made, err := r.clients.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		return "", fmt.Errorf("create queue %s: %w", name, err)
	}
	return aws.ToString(made.QueueUrl), nil
}

func (r *run) redrivePolicy(ctx context.Context, dead string, receives int) (string, error) {
	out, err := r.clients.SQS.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &dead, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return "", fmt.Errorf("find ARN of queue %s: %w", dead, err)
	}
	policy, err := json.Marshal(map[string]string{"deadLetterTargetArn": out.Attributes["QueueArn"], "maxReceiveCount": strconv.Itoa(receives)})
	return string(policy), err
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

// sender returns the SenderId that the endpoint assigns to this process, found by sending a message
// to a temporary queue. Emulators differ in it.
func (r *run) sender(ctx context.Context) (id string, err error) {
	url, err := r.createQueue(ctx, "probe", nil)
	if err != nil {
		return "", err
	}
	if _, err := r.clients.SQS.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("who am I")}); err != nil {
		return "", fmt.Errorf("ask for the sender's id: %w", err)
	}
	out, err := r.clients.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &url, WaitTimeSeconds: 5, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameSenderId},
	})
	if err == nil && len(out.Messages) > 0 {
		id = out.Messages[0].Attributes["SenderId"]
	}
	if err == nil {
		_, err = r.clients.SQS.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url})
	}
	if err == nil && id == "" {
		err = errors.New("the endpoint tells no SenderId")
	}
	if err != nil {
		return "", fmt.Errorf("ask for the sender's id: %w", err)
	}
	return id, nil
}
