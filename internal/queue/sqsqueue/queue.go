package sqsqueue

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/effectively-once/once/internal/queue"
)

// Client is what a queue asks of SQS; *sqs.Client is one.
type Client interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibility(ctx context.Context, in *sqs.ChangeMessageVisibilityInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

// batch is how many messages SQS takes and gives at once.
const batch = 10

const (
	maxWait       = 20 * time.Second
	maxVisibility = 12 * time.Hour
)

// A Queue is a queue.Queue.
type Queue struct {
	client Client
	url    string
	name   string
}

var _ queue.Queue = (*Queue)(nil)

// New makes the port to the queue of a URL. It does no call.
func New(client Client, url string) *Queue {
	return &Queue{client: client, url: url, name: path.Base(url)}
}

// Name implements queue.Queue.
func (q *Queue) Name() string { return q.name }

// Receive implements queue.Queue.
func (q *Queue) Receive(ctx context.Context, limit int, visibility, wait time.Duration) ([]queue.Delivery, error) {
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: int32(min(limit, batch)), //nolint:gosec // at most ten
		VisibilityTimeout: max(1, seconds(min(visibility, maxVisibility))), WaitTimeSeconds: seconds(min(wait, maxWait)),
		MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("receive from %s: %w", q.name, err)
	}
	deliveries := make([]queue.Delivery, len(out.Messages))
	for i := range out.Messages {
		deliveries[i] = delivery(&out.Messages[i])
	}
	return deliveries, nil
}

func delivery(m *types.Message) queue.Delivery {
	system := func(name types.MessageSystemAttributeName) string { return m.Attributes[string(name)] }
	receives, _ := strconv.Atoi(system(types.MessageSystemAttributeNameApproximateReceiveCount))
	d := queue.Delivery{
		Message: queue.Message{
			Body: aws.ToString(m.Body), Group: system(types.MessageSystemAttributeNameMessageGroupId),
			DedupID: system(types.MessageSystemAttributeNameMessageDeduplicationId), Sender: system(types.MessageSystemAttributeNameSenderId),
		},
		ID: aws.ToString(m.MessageId), Receipt: aws.ToString(m.ReceiptHandle), SequenceNumber: system(types.MessageSystemAttributeNameSequenceNumber),
		Receives: max(receives, 1),
	}
	if ms, err := strconv.ParseInt(system(types.MessageSystemAttributeNameSentTimestamp), 10, 64); err == nil {
		d.Sent = time.UnixMilli(ms).UTC()
	}
	for name, a := range m.MessageAttributes {
		if a.StringValue == nil {
			continue
		}
		if d.Attributes == nil {
			d.Attributes = make(map[string]string, len(m.MessageAttributes))
		}
		d.Attributes[name] = *a.StringValue
	}
	return d
}

// ChangeVisibility implements queue.Queue.
func (q *Queue) ChangeVisibility(ctx context.Context, receipt string, visibility time.Duration) error {
	_, err := q.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: &receipt, VisibilityTimeout: seconds(min(visibility, maxVisibility)),
	})
	if err != nil {
		return fmt.Errorf("change visibility on %s: %w", q.name, err)
	}
	return nil
}

// seconds rounds up.
func seconds(d time.Duration) int32 {
	return int32((max(d, 0) + time.Second - 1) / time.Second) //nolint:gosec // at most maxVisibility
}

// failure is the error of one entry of a batch.
func failure(e *types.BatchResultErrorEntry) error {
	return fmt.Errorf("%s: %s", aws.ToString(e.Code), aws.ToString(e.Message))
}

// errNoResult says that an answer does not name an entry.
var errNoResult = errors.New("no result for the entry")
