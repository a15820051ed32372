// Package snsdest is a destination that is a topic in Amazon SNS. Package envelope defines the
// messages: with raw delivery, subscribed queues receive the same messages as from a destination
// that is a queue, and subscriptions can filter by their attributes.
//
// # Order
//
// A first-in-first-out topic receives the deliveries of a group one after the other, with the
// message group and the deduplication id of package envelope: a copy within five minutes is
// dropped. A standard topic keeps no order and drops no copies; subscribers drop duplicates by
// once-id.
//
// # Errors
//
// If no topic accepts the message, or if it is too large for this one, the error is a
// [*record.RefusedError]. A missing topic or permission can be repaired: then, and after all other
// errors, the delivery is sent again under the same identity.
//
// # Limits
//
// A topic accepts 256 KiB, attributes included, unless it is configured for more, at most 1 MiB; a
// message larger than 256 KiB is sent in a separate request. A topic that is given by name belongs
// to the caller's account and the client's region; the account is looked up with the first
// delivery.
package snsdest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/destination/batch"
	"github.com/effectively-once/once/internal/destination/envelope"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// Client is the part of the SNS API that the destination uses; *sns.Client implements it.
type Client interface {
	PublishBatch(ctx context.Context, in *sns.PublishBatchInput, options ...func(*sns.Options)) (*sns.PublishBatchOutput, error)
	Options() sns.Options
}

// Identity returns the account of topics that are given by name; *sts.Client implements it. The
// call needs no permission.
type Identity interface {
	GetCallerIdentity(ctx context.Context, in *sts.GetCallerIdentityInput, options ...func(*sts.Options)) (*sts.GetCallerIdentityOutput, error)
}

// requestBytes is the largest request that every topic accepts.
const requestBytes = 256 << 10

// A Sender sends to one topic.
type Sender struct {
	client   Client
	identity Identity
	name     string
	region   string // if empty, the client's region
	batch    batch.Service[*queue.Message]

	mu    sync.Mutex
	topic string // its ARN; empty until it is known
}

var _ record.Sender = (*Sender)(nil)

// New returns a sender to a topic, by name or ARN. It makes no call. identity is used for names
// only and may be nil otherwise.
func New(client Client, identity Identity, target string) (*Sender, error) {
	s := &Sender{client: client, identity: identity, name: target}
	if arn.IsARN(target) {
		parsed, err := arn.Parse(target)
		if err != nil || parsed.Service != "sns" {
			return nil, fmt.Errorf("send to topic %s: not the ARN of a topic", target)
		}
		s.name, s.region, s.topic = parsed.Resource, parsed.Region, target
	}
	if s.name == "" || strings.ContainsAny(s.name, "/: ") {
		return nil, fmt.Errorf("send to topic %q: not the name or ARN of a topic", target)
	}
	if s.topic == "" && identity == nil {
		return nil, fmt.Errorf("send to topic %s: a topic without an ARN needs an identity", target)
	}
	s.batch = batch.Service[*queue.Message]{
		Name: "topic " + s.name, Bytes: requestBytes, Ordered: strings.HasSuffix(s.name, ".fifo"), Put: s.put,
		Entry: func(d *record.Delivery) (*queue.Message, int, error) {
			m, err := envelope.Seal(d)
			return &m, envelope.Size(&m), err
		},
	}
	return s, nil
}

// Send implements record.Sender.
func (s *Sender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	return s.batch.Send(ctx, deliveries)
}

// find returns the topic's ARN. It looks up the account once.
func (s *Sender) find(ctx context.Context) (string, error) {
	s.mu.Lock()
	topic := s.topic
	s.mu.Unlock()
	if topic != "" {
		return topic, nil
	}
	out, err := s.identity.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", fmt.Errorf("find topic: %w", err)
	}
	caller, err := arn.Parse(aws.ToString(out.Arn))
	if err != nil {
		return "", fmt.Errorf("find topic: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topic = arn.ARN{
		Partition: caller.Partition, Service: "sns", Region: s.client.Options().Region, AccountID: aws.ToString(out.Account), Resource: s.name,
	}.String()
	return s.topic, nil
}

func (s *Sender) put(ctx context.Context, messages []*queue.Message) ([]error, error) {
	topic, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	in := &sns.PublishBatchInput{TopicArn: &topic, PublishBatchRequestEntries: make([]types.PublishBatchRequestEntry, len(messages))}
	for i, m := range messages {
		in.PublishBatchRequestEntries[i] = s.entry(i, m)
	}
	out, err := s.client.PublishBatch(ctx, in, func(o *sns.Options) {
		if s.region != "" {
			o.Region = s.region
		}
	})
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

func (s *Sender) entry(i int, m *queue.Message) types.PublishBatchRequestEntry {
	e := types.PublishBatchRequestEntry{
		Id: batch.ID(i), Message: &m.Body, MessageAttributes: make(map[string]types.MessageAttributeValue, len(m.Attributes)),
	}
	if s.batch.Ordered {
		e.MessageGroupId, e.MessageDeduplicationId = &m.Group, &m.DedupID
	}
	for name, value := range m.Attributes {
		e.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	return e
}

// whole marks errors of a request that are caused by its content.
func whole(err error) error {
	answer, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	switch answer.ErrorCode() {
	case "BatchRequestTooLong", "BatchRequestTooLongException":
		return &batch.Contents{Err: batch.Refuse("too large for the topic: " + answer.ErrorMessage())}
	case "InvalidParameter", "InvalidParameterException", "InvalidParameterValue", "ParameterValueInvalid", "ValidationException", "ValidationError":
		// The error is about an entry or about the topic's ARN. Entries that are sent alone show
		// which: either one of them fails, or all do.
		return &batch.Contents{Err: err}
	}
	return err
}

// failure returns the error of one entry.
func failure(e *types.BatchResultErrorEntry) error {
	err := fmt.Errorf("%s: %s", aws.ToString(e.Code), aws.ToString(e.Message))
	switch code := aws.ToString(e.Code); {
	case !e.SenderFault:
		return batch.Again(err)
	case code == "InvalidParameter", code == "InvalidParameterValue":
		// names and numbers are set by us and valid, so the content is wrong
		return batch.Refuse(err.Error())
	default:
		return err
	}
}
