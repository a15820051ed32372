package sqsqueue

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/claimcheck"
)

// Send implements queue.Queue, in consecutive batches of at most ten messages and the size that SQS
// allows in one request. The body of a message that is too large for SQS is written first.
func (q *Queue) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	results := make([]queue.SendResult, len(messages))
	messages = slices.Clone(messages)
	var open []int // indexes of messages of the next batch
	size := 0
	flush := func() {
		q.sendBatch(ctx, messages, open, results)
		open, size = open[:0], 0
	}
	for i := range messages {
		m := &messages[i]
		if err := q.prepare(ctx, m); err != nil {
			results[i].Err = fmt.Errorf("send to %s: %w", q.name, err)
			continue
		}
		n := m.SentSize()
		if len(open) == batch || len(open) > 0 && size+n > queue.MaxSize {
			flush()
		}
		open, size = append(open, i), size+n
	}
	if len(open) > 0 {
		flush()
	}
	return results
}

// prepare checks a message, and puts its body elsewhere if SQS would not take it.
func (q *Queue) prepare(ctx context.Context, m *queue.Message) error {
	if q.bodies == nil {
		return m.Validate(q.name)
	}
	if err := m.ValidateLarge(q.name); err != nil || m.SentSize() <= queue.MaxSize {
		return err
	}
	kept, err := claimcheck.Put(ctx, q.bodies, *m)
	if err != nil {
		return err
	}
	*m = kept
	return m.Validate(q.name)
}

func (q *Queue) sendBatch(ctx context.Context, messages []queue.Message, indexes []int, results []queue.SendResult) {
	entries := make([]types.SendMessageBatchRequestEntry, len(indexes))
	for j, i := range indexes {
		entries[j] = Entry(q.name, strconv.Itoa(j), &messages[i])
		results[i].Err = fmt.Errorf("send to %s: %w", q.name, errNoResult)
	}
	out, err := q.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: entries})
	if err != nil {
		for _, i := range indexes {
			results[i].Err = fmt.Errorf("send to %s: %w", q.name, err)
		}
		return
	}
	for _, ok := range out.Successful {
		if j, named := place(ok.Id, len(indexes)); named {
			results[indexes[j]] = queue.SendResult{ID: aws.ToString(ok.MessageId), SequenceNumber: aws.ToString(ok.SequenceNumber)}
		}
	}
	for i := range out.Failed {
		if j, named := place(out.Failed[i].Id, len(indexes)); named {
			results[indexes[j]].Err = fmt.Errorf("send to %s: %w", q.name, failure(&out.Failed[i]))
		}
	}
}

// Entry returns a message to the queue of a name, as an entry of a batch.
func Entry(name, id string, m *queue.Message) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{Id: &id, MessageBody: &m.Body, DelaySeconds: seconds(m.Delay)}
	if queue.FIFO(name) {
		e.MessageGroupId = &m.Group
		if m.DedupID != "" {
			e.MessageDeduplicationId = &m.DedupID
		}
	}
	if len(m.Attributes) > 0 {
		e.MessageAttributes = make(map[string]types.MessageAttributeValue, len(m.Attributes))
		for name, value := range m.Attributes {
			e.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
		}
	}
	return e
}

// place parses the id of an entry, which is its index in the batch.
func place(id *string, n int) (int, bool) {
	j, err := strconv.Atoi(aws.ToString(id))
	return j, err == nil && j >= 0 && j < n
}
