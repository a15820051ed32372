package e2e

import (
	"context"
	"encoding/json"
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

	mu   sync.Mutex
	kept []types.Message
}

// take takes what has come since the last time, and gives all that is remembered.
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

// receiveAll hides what is on a queue, and gives it.
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

// A watched queue is one of dead letters. Looking at them hides them, so only one of those who look and those who put back may do it at a time.
type watched struct {
	client *sqs.Client
	url    *string
	mu     sync.Mutex
}

// look gives the dead letters, and leaves them where they are.
func (w *watched) look(ctx context.Context) (out []letter, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	messages, err := receiveAll(ctx, w.client, w.url)
	for _, m := range messages {
		out = append(out, deadLetterOf(m))
		if _, err := w.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: w.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
			return nil, err
		}
	}
	return out, err
}

// redriven reads what once redrive --json says.
func redriven(out []byte, err error) (int, error) {
	var info struct {
		Redriven int `json:"redriven"`
	}
	if err == nil {
		err = json.Unmarshal(out, &info)
	}
	return info.Redriven, err
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

// outside makes the parts of a target that lie in SQS: the dead letters of messages, and the destination that is a queue. The command line puts dead letters back.
func (x *target) outside(t *testing.T, dead, destination *string, redrive func(reason string) ([]byte, error)) {
	t.Helper()
	letters, queue := &watched{client: x.sqs, url: dead}, &drained{client: x.sqs, url: destination}
	x.letters = func() ([]letter, error) { return letters.look(t.Context()) }
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
