package sqsqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
)

// A picky client answers batches. Bodies and receipts that start with "bad" fail, those that start
// with "lost" are missing in the reply, "down" fails the request, "busy" fails once.
type picky struct {
	sqsqueue.Client
	batches []int
	entries []types.SendMessageBatchRequestEntry
	hidden  []int32  // the times of the entries that were hidden
	busy    bool     // has answered
	strange []string // additional ids in each reply, once as a success and once as a failure
}

func (p *picky) entryErrors() []types.BatchResultErrorEntry {
	var out []types.BatchResultErrorEntry
	for _, id := range p.strange {
		out = append(out, types.BatchResultErrorEntry{Id: aws.String(id), Code: aws.String("InternalError")})
	}
	return out
}

var errDown = errors.New("service is down")

func (p *picky) SendMessageBatch(_ context.Context, in *sqs.SendMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	p.batches = append(p.batches, len(in.Entries))
	p.entries = append(p.entries, in.Entries...)
	out := &sqs.SendMessageBatchOutput{Failed: p.entryErrors()}
	for _, id := range p.strange {
		out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: aws.String(id), MessageId: aws.String("strange")})
	}
	for _, e := range in.Entries {
		switch body := aws.ToString(e.MessageBody); {
		case strings.HasPrefix(body, "down"):
			return nil, errDown
		case strings.HasPrefix(body, "bad"):
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: aws.String("InternalError"), Message: aws.String("try again")})
		case !strings.HasPrefix(body, "lost"):
			out.Successful = append([]types.SendMessageBatchResultEntry{{Id: e.Id, MessageId: aws.String("id of " + body)}}, out.Successful...)
		}
	}
	return out, nil
}

func (p *picky) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	p.batches = append(p.batches, len(in.Entries))
	out := &sqs.DeleteMessageBatchOutput{Failed: p.entryErrors()}
	for _, id := range p.strange {
		out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: aws.String(id)})
	}
	for _, e := range in.Entries {
		switch receipt := aws.ToString(e.ReceiptHandle); {
		case receipt == "down":
			return nil, errDown
		case receipt == "bad", receipt == "busy" && !p.busy:
			p.busy = p.busy || receipt == "busy"
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: aws.String("InternalError")})
		case receipt == "stale":
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: aws.String("ReceiptHandleIsInvalid"), SenderFault: true})
		case receipt == "expired": // of a message of a first-in-first-out queue
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: aws.String("InvalidParameterValue"), SenderFault: true})
		case receipt != "lost":
			out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: e.Id})
		}
	}
	return out, nil
}

func (p *picky) ChangeMessageVisibilityBatch(_ context.Context, in *sqs.ChangeMessageVisibilityBatchInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	p.batches = append(p.batches, len(in.Entries))
	out := &sqs.ChangeMessageVisibilityBatchOutput{Failed: p.entryErrors()}
	fail := func(e *types.ChangeMessageVisibilityBatchRequestEntry, code, message string, sender bool) {
		out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: aws.String(code), Message: aws.String(message), SenderFault: sender})
	}
	for i := range in.Entries {
		e := &in.Entries[i]
		p.hidden = append(p.hidden, e.VisibilityTimeout)
		switch receipt := aws.ToString(e.ReceiptHandle); {
		case receipt == "down":
			return nil, errDown
		case receipt == "bad", receipt == "busy" && !p.busy:
			p.busy = p.busy || receipt == "busy"
			fail(e, "InternalError", "try again", false)
		case receipt == "stale":
			fail(e, "ReceiptHandleIsInvalid", "", true)
		case receipt == "visible":
			fail(e, "AWS.SimpleQueueService.MessageNotInflight", "", true)
		case receipt == "expired":
			fail(e, "InvalidParameterValue", "Value expired for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.", true)
		case receipt == "long":
			fail(e, "InvalidParameterValue", "Value 43200 for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds].", true)
		case receipt != "lost":
			out.Successful = append(out.Successful, types.ChangeMessageVisibilityBatchResultEntry{Id: e.Id})
		}
	}
	return out, nil
}

func TestAMessageIsHiddenUnlessItsReceiptIsStale(t *testing.T) {
	p := &picky{strange: []string{"", "x", "-1", "10"}}
	q := sqsqueue.New(p, "https://sqs.test/1/orders")
	receipts := []string{"a", "visible", "bad", "lost", "expired", "long", "busy", "h", "i", "j", "down", "l"}
	for i, err := range q.Hide(t.Context(), receipts, make([]time.Duration, len(receipts))) {
		failed := receipts[i] == "bad" || receipts[i] == "lost" || receipts[i] == "long" || i >= 10
		if failed != (err != nil) || (i >= 10) != errors.Is(err, errDown) {
			t.Errorf("receipt %s: %v", receipts[i], err)
		}
	}
	if d := cmp.Diff([]int{10, 2, 3, 2}, p.batches); d != "" { // with those that SQS could not serve
		t.Errorf("batches (-want +got):\n%s", d)
	}
}

func TestAMessageIsHiddenForLessThanTheTimeSinceItsReceiptAllows(t *testing.T) {
	p := &picky{}
	sqsqueue.New(p, "https://sqs.test/1/orders").Hide(t.Context(), []string{"a", "b", "c"}, []time.Duration{time.Minute, 20 * time.Hour, 1500 * time.Millisecond})
	if d := cmp.Diff([]int32{60, 11*3600 + 1800, 2}, p.hidden); d != "" {
		t.Errorf("seconds (-want +got):\n%s", d)
	}
}

func TestEntriesAreNotSentAgainWhenTheTimeIsOver(t *testing.T) {
	p := &picky{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if errs := sqsqueue.New(p, "https://sqs.test/1/orders").Delete(ctx, []string{"bad"}); errs[0] == nil || len(p.batches) != 1 {
		t.Errorf("%v after %d requests", errs[0], len(p.batches))
	}
}

func TestEachMessageOfABatchHasItsOwnResult(t *testing.T) {
	p := &picky{}
	q := sqsqueue.New(p, "https://sqs.test/1/orders")
	var messages []queue.Message
	for i := range 25 {
		body := strconv.Itoa(i)
		switch i {
		case 3:
			body = "bad"
		case 4:
			body = "lost"
		case 5:
			body = "" // refused before it is sent
		case 14:
			body = "down"
		}
		messages = append(messages, queue.Message{Body: body})
	}
	for i, r := range q.Send(t.Context(), messages) {
		failed := i == 3 || i == 4 || i == 5 || i >= 11 && i < 21
		if failed != (r.Err != nil) || !failed && r.ID != "id of "+messages[i].Body {
			t.Errorf("message %d: %+v", i, r)
		}
		if down := i >= 11 && i < 21; down != errors.Is(r.Err, errDown) {
			t.Errorf("message %d: %v", i, r.Err)
		}
		if i == 3 && !strings.Contains(r.Err.Error(), "try again") {
			t.Errorf("what SQS says of message %d is not told: %v", i, r.Err)
		}
	}
	if d := cmp.Diff([]int{10, 10, 4}, p.batches); d != "" {
		t.Errorf("batches (-want +got):\n%s", d)
	}
}

func TestABatchIsNoLargerThanARequestMayBe(t *testing.T) {
	p := &picky{}
	q := sqsqueue.New(p, "https://sqs.test/1/orders")
	half := queue.Message{Body: strings.Repeat("x", queue.MaxSize/2)}
	// with the attribute's type it is too large for a request
	full := queue.Message{Body: strings.Repeat("x", queue.MaxSize-2), Attributes: map[string]string{"a": "b"}}
	for i, r := range q.Send(t.Context(), []queue.Message{full, half, half, {Body: "small"}, half, {Body: strings.Repeat("x", queue.MaxSize)}}) {
		if r.Err != nil {
			t.Errorf("message %d: %v", i, r.Err)
		}
	}
	if d := cmp.Diff([]int{1, 2, 2, 1}, p.batches); d != "" {
		t.Errorf("batches (-want +got):\n%s", d)
	}
}

func TestNothingIsSentIfEveryMessageIsInvalid(t *testing.T) {
	p := &picky{}
	if r := sqsqueue.New(p, "https://sqs.test/1/orders").Send(t.Context(), []queue.Message{{Body: ""}}); r[0].Err == nil || len(p.batches) > 0 {
		t.Errorf("%v, batches of %v", r[0].Err, p.batches)
	}
}

func TestEachReceiptHasItsOwnResult(t *testing.T) {
	p := &picky{}
	q := sqsqueue.New(p, "https://sqs.test/1/orders")
	receipts := []string{"a", "stale", "bad", "lost", "expired", "busy", "g", "h", "i", "j", "down", "l"}
	for name, results := range map[string][]error{"delete": q.Delete(t.Context(), receipts), "hide": q.Hide(t.Context(), receipts, make([]time.Duration, len(receipts)))} {
		for i, err := range results {
			failed := receipts[i] == "bad" || receipts[i] == "lost" || i >= 10
			if failed != (err != nil) || (i >= 10) != errors.Is(err, errDown) {
				t.Errorf("%s: receipt %s: %v", name, receipts[i], err)
			}
			if receipts[i] == "bad" && !strings.Contains(fmt.Sprint(err), "InternalError") {
				t.Errorf("%s: what SQS says of a receipt is not in the error: %v", name, err)
			}
		}
	}
}

func TestAReplyThatListsNoEntrySettlesNone(t *testing.T) {
	p := &picky{strange: []string{"", "x", "-1", "2", "10"}}
	q := sqsqueue.New(p, "https://sqs.test/1/orders")
	for i, r := range q.Send(t.Context(), []queue.Message{{Body: "lost"}, {Body: "b"}}) {
		if lost := i == 0; lost != (r.Err != nil) || !lost && r.ID != "id of b" {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	receipts := []string{"lost", "b"}
	for name, results := range map[string][]error{"delete": q.Delete(t.Context(), receipts), "hide": q.Hide(t.Context(), receipts, make([]time.Duration, len(receipts)))} {
		for i, err := range results {
			if lost := i == 0; lost != (err != nil) {
				t.Errorf("%s: receipt %d: %v", name, i, err)
			}
		}
	}
}

func TestOnlyFIFOQueuesReceiveGroupsAndDeduplicationIDs(t *testing.T) {
	m := queue.Message{Body: "b", Group: "g", DedupID: "d"}
	for url, want := range map[string]types.SendMessageBatchRequestEntry{
		"https://sqs.test/1/orders":      {},
		"https://sqs.test/1/orders.fifo": {MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("d")},
	} {
		p := &picky{}
		sqsqueue.New(p, url).Send(t.Context(), []queue.Message{m})
		got := p.entries[0]
		if d := cmp.Diff([]*string{want.MessageGroupId, want.MessageDeduplicationId}, []*string{got.MessageGroupId, got.MessageDeduplicationId}); d != "" {
			t.Errorf("%s (-want +got):\n%s", url, d)
		}
	}
}

func TestAMessageIsSentWithItsAttributesAndNoInventedDeduplicationID(t *testing.T) {
	p := &picky{}
	sqsqueue.New(p, "https://sqs.test/1/orders.fifo").Send(t.Context(), []queue.Message{{Body: "b", Group: "g", Attributes: map[string]string{"once-id": "1"}}})
	e := p.entries[0]
	if id := e.MessageDeduplicationId; id != nil { // SQS refuses an empty one
		t.Errorf("identity %q", *id)
	}
	if a := e.MessageAttributes["once-id"]; aws.ToString(a.StringValue) != "1" || aws.ToString(a.DataType) != "String" {
		t.Errorf("attributes %v", e.MessageAttributes)
	}
}
