package sqsqueue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
)

// A giving client returns its messages, or its error.
type giving struct {
	sqsqueue.Client
	messages []types.Message
	err      error
}

func (g *giving) ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	return &sqs.ReceiveMessageOutput{Messages: g.messages}, g.err
}

func TestAReceiveReturnsAllAttributesOfSQS(t *testing.T) {
	g := &giving{messages: []types.Message{{}, {
		MessageId: aws.String("m"), ReceiptHandle: aws.String("r"), Body: aws.String("b"),
		Attributes: map[string]string{
			"ApproximateReceiveCount": "3", "MessageGroupId": "g", "MessageDeduplicationId": "d", "SequenceNumber": "7", "SenderId": "s", "SentTimestamp": "1700000000123", "ApproximateFirstReceiveTimestamp": "1700000000456",
		},
		MessageAttributes: map[string]types.MessageAttributeValue{
			"bytes": {DataType: aws.String("Binary"), BinaryValue: []byte{1}}, "once-id": {DataType: aws.String("String"), StringValue: aws.String("1")},
			"once-stream": {DataType: aws.String("String"), StringValue: aws.String("orders")},
		},
	}}}
	got, err := sqsqueue.New(g, "https://sqs.test/1/orders").Receive(t.Context(), 10, time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []queue.Delivery{{Queue: "orders", Receives: 1}, {
		Message: queue.Message{Body: "b", Group: "g", DedupID: "d", Sender: "s", Attributes: map[string]string{"once-id": "1", "once-stream": "orders"}},
		Queue:   "orders", ID: "m", Receipt: "r", SequenceNumber: "7", Receives: 3, Sent: time.UnixMilli(1700000000123).UTC(),
		FirstReceived: time.UnixMilli(1700000000456).UTC(), Binary: []string{"bytes"},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("deliveries (-want +got):\n%s", d)
	}
}

func TestAReceiveThatIsCancelledReturnsTheCause(t *testing.T) {
	why, away := errors.New("the program ends"), errors.New("SQS is away")
	ctx, cancel := context.WithCancelCause(t.Context())
	q := sqsqueue.New(&giving{err: away}, "https://sqs.test/1/orders")
	if _, err := q.Receive(ctx, 10, time.Minute, 0); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
	cancel(why)
	if _, err := q.Receive(ctx, 10, time.Minute, 0); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}
