// Package sqsdest is a destination that is a queue in Amazon SQS. Package envelope defines the
// messages.
//
// # Order
//
// A first-in-first-out queue receives the deliveries of a group one after the other, with the
// message group and the deduplication id of package envelope: a copy within five minutes is
// dropped. A standard queue keeps no order and drops no copies; its consumers drop duplicates by
// once-id.
//
// # Errors
//
// If no queue accepts the message, or if this one refuses its size or characters, the error is a
// [*record.RefusedError]. A missing queue or permission can be repaired: then, and after all other
// errors, the delivery is sent again under the same identity.
//
// # Limits
//
// A message and a request are limited to 1 MiB, attributes included. A queue that is given by name
// is looked up in the client's account and region with the first delivery, and a queue that is
// given by ARN in those of the ARN.
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
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/record"
)

// Client is the part of the SQS API that the destination uses; *sqs.Client implements it.
type Client interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// A Sender sends to one queue.
type Sender struct {
	client Client
	name   string
	owner  string // account, if it is known
	region string // if empty, the client's region
	batch  batch.Service[*queue.Message]

	mu  sync.Mutex
	url string // empty until it is known
}

var _ record.Sender = (*Sender)(nil)

// New returns a sender to a queue, by name, URL or ARN. It makes no call.
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
	s.batch = envelope.Service("queue "+s.name, queue.MaxSize, queue.FIFO(s.name), s.put)
	return s, nil
}

// regionOf returns the region in the URL of a queue at AWS, or an empty string for other URLs.
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

// locate is an option that directs a call to the queue's region.
func (s *Sender) locate(o *sqs.Options) {
	if s.region != "" {
		o.Region = s.region
	}
}

// find returns the queue's URL. It looks it up once.
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
		in.Entries[i] = sqsqueue.Entry(s.name, *batch.ID(i), m)
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

// whole marks errors of a request that are caused by its content: a queue may have a lower limit
// than SQS.
func whole(err error) error {
	if answer, ok := errors.AsType[smithy.APIError](err); ok && strings.HasSuffix(answer.ErrorCode(), "BatchRequestTooLong") {
		return &batch.Contents{Err: batch.Refuse("too large for the queue: " + answer.ErrorMessage())}
	}
	return err
}

// failure returns the error of one entry.
func failure(e *types.BatchResultErrorEntry) error {
	err := fmt.Errorf("%s: %s", aws.ToString(e.Code), aws.ToString(e.Message))
	switch code := aws.ToString(e.Code); {
	case !e.SenderFault:
		return batch.Again(err)
	case strings.HasSuffix(code, "InvalidMessageContents"), code == "InvalidParameterValue", code == "InvalidAttributeValue", code == "MessageTooLong":
		// names and numbers are set by us and valid, so the content is wrong
		return batch.Refuse(err.Error())
	default:
		return err
	}
}
