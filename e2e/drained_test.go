package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// A drained queue is one from which the checks receive all messages and remember them, because SQS
// shows a message to one reader at a time.
type drained struct {
	client *sqs.Client
	url    *string

	mu   sync.Mutex
	kept []types.Message
}

// take receives the new messages, and returns all messages so far.
func (d *drained) take(ctx context.Context) ([]types.Message, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	messages, err := receiveAll(ctx, d.client, d.url)
	for _, m := range messages {
		if _, err := d.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: d.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
			return nil, err
		}
		d.kept = append(d.kept, m)
	}
	return append([]types.Message(nil), d.kept...), err
}

// receiveAll receives and hides all messages of a queue.
func receiveAll(ctx context.Context, client *sqs.Client, url *string) (all []types.Message, err error) {
	for {
		out, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}, VisibilityTimeout: 60,
		})
		if err != nil || len(out.Messages) == 0 {
			return all, err
		}
		all = append(all, out.Messages...)
	}
}

// A watched queue is a dead-letter queue. Looking at its messages hides them, so looking and
// redriving exclude each other.
type watched struct {
	client *sqs.Client
	url    *string
	mu     sync.Mutex
}

// look returns the dead letters. It leaves them in the queue, except those with an id that is
// unwanted.
func (w *watched) look(ctx context.Context, unwanted ...string) (out []letter, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	messages, err := receiveAll(ctx, w.client, w.url)
	for _, m := range messages {
		l := deadLetterOf(m)
		out = append(out, l)
		if slices.Contains(unwanted, l.ID) {
			if _, err := w.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: w.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return nil, err
			}
			continue
		}
		if _, err := w.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: w.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
			return nil, err
		}
	}
	return out, err
}

// redriven parses the output of once redrive --json.
func redriven(out []byte, err error) (int, error) {
	var info struct {
		Redriven int `json:"redriven"`
	}
	if err == nil {
		err = json.Unmarshal(out, &info)
	}
	return info.Redriven, err
}

// textOf returns an attribute of a message.
func textOf(m types.Message, name string) string {
	return aws.ToString(m.MessageAttributes[name].StringValue)
}

// deadLetterOf returns the dead letter in a message, by the contract.
func deadLetterOf(m types.Message) letter {
	l := letter{Stream: textOf(m, "once-stream"), ID: textOf(m, "once-id"), Group: textOf(m, "once-group"), Source: textOf(m, "once-source")}
	l.Reason, l.Detail, _ = strings.Cut(textOf(m, "once-reason"), ": ")
	l.Epoch, l.Sequence = uintOf(textOf(m, "once-epoch")), uintOf(textOf(m, "once-sequence"))
	return l
}

// outside sets the parts of a target that are SQS queues: the dead letters of messages, and the
// destination that is a queue. The command line redrives.
func (x *target) outside(t *testing.T, dead, destination *string, redrive func(reason string) ([]byte, error)) {
	t.Helper()
	letters, queue := &watched{client: x.sqs, url: dead}, &drained{client: x.sqs, url: destination}
	x.letters = func(unwanted ...string) ([]letter, error) { return letters.look(t.Context(), unwanted...) }
	x.redrive = func(reason string) (int, error) {
		letters.mu.Lock()
		defer letters.mu.Unlock()
		return redriven(redrive(reason))
	}
	x.forwarded = func() (out []forwarded, err error) {
		kept, err := queue.take(t.Context())
		for _, m := range kept {
			out = append(out, forwarded{textOf(m, "once-id"), aws.ToString(m.Body)})
		}
		return out, err
	}
}
