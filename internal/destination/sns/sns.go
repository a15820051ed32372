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
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/aws/call"
	"github.com/effectively-once/once/internal/destination/batch"
	"github.com/effectively-once/once/internal/destination/envelope"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// Identity returns the account of topics that are given by name; *sts.Client implements it. The
// call needs no permission.
type Identity interface {
	GetCallerIdentity(ctx context.Context, in *sts.GetCallerIdentityInput, options ...func(*sts.Options)) (*sts.GetCallerIdentityOutput, error)
}

// requestBytes is the largest request that every topic accepts.
const requestBytes = 256 << 10

// A Sender sends to one topic.
type Sender struct {
	client   *call.Client
	identity Identity
	name     string
	batch    batch.Service[*queue.Message]

	mu    sync.Mutex
	topic string // its ARN; empty until it is known
}

var _ record.Sender = (*Sender)(nil)

// New returns a sender to a topic, by name or ARN. It makes no call. identity is used for names
// only and may be nil otherwise.
func New(client *call.Client, identity Identity, target string) (*Sender, error) {
	s := &Sender{client: client, identity: identity, name: target}
	if arn.IsARN(target) {
		parsed, err := arn.Parse(target)
		if err != nil || parsed.Service != "sns" {
			return nil, fmt.Errorf("send to topic %s: not the ARN of a topic", target)
		}
		s.client, s.name, s.topic = client.In(parsed.Region), parsed.Resource, target
	}
	if s.name == "" || strings.ContainsAny(s.name, "/: ") {
		return nil, fmt.Errorf("send to topic %q: not the name or ARN of a topic", target)
	}
	if s.topic == "" && identity == nil {
		return nil, fmt.Errorf("send to topic %s: a topic without an ARN needs an identity", target)
	}
	s.batch = envelope.Service("topic "+s.name, requestBytes, queue.FIFO(s.name), s.put)
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
		Partition: caller.Partition, Service: "sns", Region: s.client.Region(), AccountID: aws.ToString(out.Account), Resource: s.name,
	}.String()
	return s.topic, nil
}

func (s *Sender) put(ctx context.Context, messages []*queue.Message) ([]error, error) {
	topic, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	form := url.Values{"TopicArn": {topic}}
	for i, m := range messages {
		s.entry(form, i, m)
	}
	var out published
	if err := s.client.Form(ctx, "PublishBatch", form, &out); err != nil {
		return nil, whole(err)
	}
	results := batch.NewResults(len(messages))
	for _, id := range out.Taken {
		results.Set(&id, nil)
	}
	for i := range out.Failed {
		results.Set(&out.Failed[i].ID, failure(&out.Failed[i]))
	}
	return results, nil
}

// published is what PublishBatch answers.
type published struct {
	Taken  []string  `xml:"PublishBatchResult>Successful>member>Id"`
	Failed []refusal `xml:"PublishBatchResult>Failed>member"`
}

// A refusal is the error of one entry.
type refusal struct {
	ID          string `xml:"Id"`
	Code        string
	Message     string
	SenderFault bool
}

// entry adds a message to the parameters of PublishBatch.
func (s *Sender) entry(form url.Values, i int, m *queue.Message) {
	set := func(name, value string) {
		form.Set(fmt.Sprintf("PublishBatchRequestEntries.member.%d.%s", i+1, name), value)
	}
	set("Id", *batch.ID(i))
	set("Message", m.Body)
	if s.batch.Ordered {
		set("MessageGroupId", m.Group)
		set("MessageDeduplicationId", m.DedupID)
	}
	for n, name := range slices.Sorted(maps.Keys(m.Attributes)) {
		attribute := fmt.Sprintf("MessageAttributes.entry.%d.", n+1)
		set(attribute+"Name", name)
		set(attribute+"Value.DataType", "String")
		set(attribute+"Value.StringValue", m.Attributes[name])
	}
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
func failure(e *refusal) error {
	err := fmt.Errorf("%s: %s", e.Code, e.Message)
	switch code := e.Code; {
	case !e.SenderFault:
		return batch.Again(err)
	case code == "InvalidParameter", code == "InvalidParameterValue":
		// names and numbers are set by us and valid, so the content is wrong
		return batch.Refuse(err.Error())
	default:
		return err
	}
}
