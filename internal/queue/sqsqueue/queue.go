package sqsqueue

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/claimcheck"
)

// Client is the part of the SQS API that a queue uses; *sqs.Client implements it.
type Client interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	ChangeMessageVisibility(ctx context.Context, in *sqs.ChangeMessageVisibilityInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

// batch is how many messages SQS handles in one request.
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
	bodies claimcheck.Bodies // may be nil
	trusts func(*queue.Delivery) bool
}

var _ queue.Queue = (*Queue)(nil)

// New returns the port to the queue at a URL. It makes no call.
func New(client Client, url string) *Queue {
	return &Queue{client: client, url: url, name: path.Base(url)}
}

// WithBodies returns the queue with a place for bodies that make a message larger than SQS takes.
// Received names of bodies are followed if the sender is trusted. See package claimcheck.
func (q *Queue) WithBodies(bodies claimcheck.Bodies, trusts func(*queue.Delivery) bool) *Queue {
	out := *q
	out.bodies, out.trusts = bodies, trusts
	return &out
}

// Largest returns [queue.MaxLarge] if the queue has a place for bodies, see [queue.Largest].
func (q *Queue) Largest() int {
	if q.bodies != nil {
		return queue.MaxLarge
	}
	return queue.MaxSize
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
		deliveries[i] = q.delivery(&out.Messages[i])
	}
	if q.bodies != nil {
		claimcheck.Redeem(ctx, q.bodies, q.trusts, deliveries)
	}
	return deliveries, nil
}

func (q *Queue) delivery(m *types.Message) queue.Delivery {
	system := func(name types.MessageSystemAttributeName) string { return m.Attributes[string(name)] }
	receives, _ := strconv.Atoi(system(types.MessageSystemAttributeNameApproximateReceiveCount))
	d := queue.Delivery{
		Message: queue.Message{
			Body: aws.ToString(m.Body), Group: system(types.MessageSystemAttributeNameMessageGroupId),
			DedupID: system(types.MessageSystemAttributeNameMessageDeduplicationId), Sender: system(types.MessageSystemAttributeNameSenderId),
		},
		Queue: q.name, ID: aws.ToString(m.MessageId), Receipt: aws.ToString(m.ReceiptHandle), SequenceNumber: system(types.MessageSystemAttributeNameSequenceNumber),
		Receives: max(receives, 1),
	}
	if arn := system(types.MessageSystemAttributeNameDeadLetterQueueSourceArn); arn != "" {
		d.MovedFrom = arn[strings.LastIndexByte(arn, ':')+1:]
	}
	d.Sent = Time(system(types.MessageSystemAttributeNameSentTimestamp))
	d.FirstReceived = Time(system(types.MessageSystemAttributeNameApproximateFirstReceiveTimestamp))
	for name, a := range m.MessageAttributes {
		if a.StringValue == nil {
			d.Binary = append(d.Binary, name)
			continue
		}
		if d.Attributes == nil {
			d.Attributes = make(map[string]string, len(m.MessageAttributes))
		}
		d.Attributes[name] = *a.StringValue
	}
	slices.Sort(d.Binary)
	return d
}

// Time parses a time that SQS wrote: milliseconds since 1970. It returns the zero time if the text
// is no such number.
func Time(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > 1<<48 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
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

// seconds returns whole seconds, rounded up.
func seconds(d time.Duration) int32 {
	return int32((max(d, 0) + time.Second - 1) / time.Second) //nolint:gosec // at most maxVisibility
}

// failure returns the error of one entry of a batch.
func failure(e *types.BatchResultErrorEntry) error {
	return fmt.Errorf("%s: %s", aws.ToString(e.Code), aws.ToString(e.Message))
}

// errNoResult says that a response does not list an entry.
var errNoResult = errors.New("no result for the entry")
