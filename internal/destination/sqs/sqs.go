// Package sqsdest is a destination that is a queue in Amazon SQS. What a message looks like there is written in package envelope.
//
// # Order
//
// A first-in-first-out queue gets the deliveries of a group one after the other, under the message group and the deduplication id of package envelope: what is sent twice within
// five minutes is in the queue once. A standard queue keeps no order and drops nothing; its consumers drop duplicates by once-id.
//
// # Errors
//
// A message that no queue takes, or that is too large or has characters that this one refuses, is a [*record.RefusedError]. A missing queue or permission can be mended:
// that, and whatever else fails, is an ordinary error, and the delivery is sent again under the same identity.
//
// # Limits
//
// A message and a request hold 1 MiB, attributes included. A queue that is given by name is looked for in the client's account and region with the first delivery, and one
// that is given by ARN in those of the ARN.
package sqsdest

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/destination/batch"
	"github.com/effectively-once/once/internal/destination/envelope"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// Client is what the destination asks of SQS; *sqs.Client is one.
type Client interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// A Sender sends to one queue.
type Sender struct {
	client Client
	name   string
	owner  string // account, where it is known
	region string // empty is the client's
	batch  batch.Service[*queue.Message]

	mu  sync.Mutex
	url string // empty until it is known
}

var _ record.Sender = (*Sender)(nil)

// New makes a sender to a queue's name, URL or ARN. It does no call.
func New(client Client, target string) (*Sender, error) {
	s := &Sender{client: client, name: target}
	switch {
	case strings.Contains(target, "://"):
		s.name, s.url, s.region = path.Base(target), target, regionOf(target)
	case arn.IsARN(target):
		parsed, err := arn.Parse(target)
		if err != nil || parsed.Service != "sqs" {
			return nil, fmt.Errorf("send to queue %s: not the ARN of a queue", target)
		}
		s.name, s.owner, s.region = parsed.Resource, parsed.AccountID, parsed.Region
	}
	if s.name == "" || strings.ContainsAny(s.name, "/: ") {
		return nil, fmt.Errorf("send to queue %q: not the name, URL or ARN of a queue", target)
	}
	s.batch = batch.Service[*queue.Message]{
		Name: "queue " + s.name, Bytes: queue.MaxSize, Ordered: queue.FIFO(s.name), Put: s.put,
		Entry: func(d *record.Delivery) (*queue.Message, int, error) {
			m, err := envelope.Seal(d)
			return &m, envelope.Size(&m), err
		},
	}
	return s, nil
}

// regionOf reads the region of a queue's URL at AWS; others have none.
func regionOf(url string) string {
	m := regexp.MustCompile(`^https://sqs\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?/`).FindStringSubmatch(url)
	if m == nil {
		return ""
	}
	return m[1]
}

// Send implements record.Sender.
func (s *Sender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	return s.batch.Send(ctx, deliveries)
}

// locate is an option of a call: SQS is asked where the queue is.
func (s *Sender) locate(o *sqs.Options) {
	if s.region != "" {
		o.Region = s.region
	}
}

// find gives the queue's URL, and asks for it once.
func (s *Sender) find(ctx context.Context) (string, error) {
	s.mu.Lock()
	url := s.url
	s.mu.Unlock()
	if url != "" {
		return url, nil
	}
	in := &sqs.GetQueueUrlInput{QueueName: &s.name}
	if s.owner != "" {
		in.QueueOwnerAWSAccountId = &s.owner
	}
	out, err := s.client.GetQueueUrl(ctx, in, s.locate)
	if err != nil {
		return "", fmt.Errorf("find queue: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.url = aws.ToString(out.QueueUrl)
	return s.url, nil
}

func (s *Sender) put(ctx context.Context, messages []*queue.Message) ([]error, error) {
	url, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	in := &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: make([]types.SendMessageBatchRequestEntry, len(messages))}
	for i, m := range messages {
		in.Entries[i] = s.entry(i, m)
	}
	out, err := s.client.SendMessageBatch(ctx, in, s.locate)
	if err != nil {
		return nil, whole(err)
	}
	results := batch.NewResults(len(messages))
	for _, taken := range out.Successful {
		results.Set(taken.Id, nil)
	}
	for i := range out.Failed {
		results.Set(out.Failed[i].Id, failure(&out.Failed[i]))
	}
	return results, nil
}

func (s *Sender) entry(i int, m *queue.Message) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{
		Id: batch.ID(i), MessageBody: &m.Body, MessageAttributes: make(map[string]types.MessageAttributeValue, len(m.Attributes)),
	}
	if s.batch.Ordered {
		e.MessageGroupId, e.MessageDeduplicationId = &m.Group, &m.DedupID
	}
	for name, value := range m.Attributes {
		e.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	return e
}

// whole marks the errors of a request that are about what is in it: a queue may be set to take less than SQS does.
func whole(err error) error {
	if answer, ok := errors.AsType[smithy.APIError](err); ok && strings.HasSuffix(answer.ErrorCode(), "BatchRequestTooLong") {
		return &batch.Contents{Err: batch.Refuse("too large for the queue: " + answer.ErrorMessage())}
	}
	return err
}

// failure is the error of one entry.
func failure(e *types.BatchResultErrorEntry) error {
	err := fmt.Errorf("%s: %s", aws.ToString(e.Code), aws.ToString(e.Message))
	switch code := aws.ToString(e.Code); {
	case !e.SenderFault:
		return batch.Again(err)
	case strings.HasSuffix(code, "InvalidMessageContents"), code == "InvalidParameterValue", code == "InvalidAttributeValue", code == "MessageTooLong":
		return batch.Refuse(err.Error()) // names and numbers are ours and right: it is about the content
	default:
		return err
	}
}
