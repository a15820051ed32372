package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// A drained queue is one that the checks take everything off, and remember: SQS shows messages to one reader at a time.
type drained struct {
	client *sqs.Client
	url    *string
	back   *string // where its messages go back to, if they do

	mu   sync.Mutex
	kept []types.Message
}

// take takes what has come since the last time, and gives all that is remembered.
func (d *drained) take(ctx context.Context) ([]types.Message, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		out, err := d.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: d.url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}, VisibilityTimeout: 60,
		})
		if err != nil || len(out.Messages) == 0 {
			return append([]types.Message(nil), d.kept...), err
		}
		for _, m := range out.Messages {
			if _, err := d.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: d.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return nil, err
			}
			d.kept = append(d.kept, m)
		}
	}
}

// putBack sends the dead letters of a reason back as they are, which is what a redrive by SQS itself does, and forgets them.
func (d *drained) putBack(ctx context.Context, reason string) error {
	if _, err := d.take(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var left []types.Message
	for _, m := range d.kept {
		if deadLetterOf(m).Reason != reason {
			left = append(left, m)
			continue
		}
		if _, err := d.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: d.back, MessageBody: m.Body, MessageAttributes: m.MessageAttributes}); err != nil {
			return err
		}
	}
	d.kept = left
	return nil
}

// textOf is an attribute of a message.
func textOf(m types.Message, name string) string {
	return aws.ToString(m.MessageAttributes[name].StringValue)
}

// deadLetterOf reads what the contract says of a dead letter.
func deadLetterOf(m types.Message) letter {
	l := letter{Stream: textOf(m, "once-stream"), ID: textOf(m, "once-id"), Group: textOf(m, "once-group"), Source: textOf(m, "once-source")}
	l.Reason, l.Detail, _ = strings.Cut(textOf(m, "once-reason"), ": ")
	l.Epoch, l.Sequence = uintOf(textOf(m, "once-epoch")), uintOf(textOf(m, "once-sequence"))
	return l
}

// outside makes the parts of a target that lie in SQS: the dead letters of messages, and the destination that is a queue.
func (x *target) outside(t *testing.T, dead, back, destination *string) {
	t.Helper()
	letters, queue := &drained{client: x.sqs, url: dead, back: back}, &drained{client: x.sqs, url: destination}
	x.letters = func() (out []letter, err error) {
		kept, err := letters.take(t.Context())
		for _, m := range kept {
			out = append(out, deadLetterOf(m))
		}
		return out, err
	}
	x.redrive = func(reason string) error { return letters.putBack(t.Context(), reason) }
	x.forwarded = func() (out []forwarded, err error) {
		kept, err := queue.take(t.Context())
		for _, m := range kept {
			out = append(out, forwarded{textOf(m, "once-id"), aws.ToString(m.Body)})
		}
		return out, err
	}
}
