package lambdadev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/lambda"
	"github.com/effectively-once/once/internal/queue"
)

// What infra gives its queues.
const (
	retention       = 14 * 24 * time.Hour
	maxReceives     = 100
	publishReceives = 1000
	tableTime       = time.Minute // that a table may take to be there
)

// prepare makes what is missing of a deployment, and gives the environment of its functions.
func (r *run) prepare(ctx context.Context) error {
	tables := dynamostore.Tables{Groups: r.Name + "-groups", Tokens: r.Name + "-tokens"}
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
	r.env = append(r.env, lambda.EnvGroupsTable+"="+tables.Groups, lambda.EnvTokensTable+"="+tables.Tokens, lambda.EnvTrustedSenders+"="+sender)
	for variable, url := range r.urls {
		r.env = append(r.env, variable+"="+url)
	}
	return nil
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

// createBucket makes the bucket where there is an endpoint for it. The functions do without one.
func (r *run) createBucket(ctx context.Context) error {
	if os.Getenv("AWS_ENDPOINT_URL_S3") == "" && os.Getenv("AWS_ENDPOINT_URL") == "" {
		return nil
	}
	in := &s3.CreateBucketInput{Bucket: aws.String(r.Name + "-objects")}
	if region := r.clients.S3.Options().Region; region != "us-east-1" { // which is no constraint
		in.CreateBucketConfiguration = &s3types.CreateBucketConfiguration{LocationConstraint: s3types.BucketLocationConstraint(region)}
	}
	_, err := r.clients.S3.CreateBucket(ctx, in)
	if _, exists := errors.AsType[*s3types.BucketAlreadyOwnedByYou](err); err != nil && !exists {
		return fmt.Errorf("create bucket %s: %w", *in.Bucket, err)
	}
	r.env = append(r.env, lambda.EnvBucket+"="+*in.Bucket)
	return nil
}

// A pair is a queue and its dead-letter queue, which must be of the same kind.
type pair struct {
	work, dead       string // names, without the system's and without .fifo
	fifo             string // .fifo or nothing
	receives         int
	workEnv, deadEnv string // variables of the functions
}

func pairs() []pair {
	return []pair{
		{"ingress", "ingress-dead", "", maxReceives, lambda.EnvIngressQueue, lambda.EnvDeadQueue},
		{"ingress", "ingress-dead", ".fifo", maxReceives, lambda.EnvIngressFIFOQueue, lambda.EnvDeadFIFOQueue},
		{"publish", "publish-dead", "", publishReceives, lambda.EnvPublishQueue, lambda.EnvDeadPublishQueue},
		{"publish", "publish-dead", ".fifo", publishReceives, lambda.EnvPublishFIFOQueue, lambda.EnvDeadPublishFIFOQueue},
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
		work, err := r.createQueue(ctx, p.work+p.fifo, map[string]string{"RedrivePolicy": policy, "VisibilityTimeout": seconds(r.Visibility)})
		if err != nil {
			return err
		}
		r.urls[p.workEnv] = work
		r.urls[p.deadEnv] = dead
	}
	return nil
}

// createQueue gives the URL of a queue, which it makes if it is missing. One that is there is left as it is.
func (r *run) createQueue(ctx context.Context, name string, more map[string]string) (url string, err error) {
	name = r.Name + "-" + name
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

// sender finds out what the endpoint calls whoever sends from here, by a message to a queue that is only there for this: emulators differ.
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
