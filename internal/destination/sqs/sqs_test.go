package sqsdest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	sqsdest "github.com/effectively-once/once/internal/destination/sqs"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

func open(t *testing.T, client sqsdest.Client, target string) *sqsdest.Sender {
	t.Helper()
	s, err := sqsdest.New(client, target)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func delivery(group string, number uint64, body string) record.Delivery {
	return record.Delivery{
		Identity: fmt.Sprintf("orders/%s/%d", group, number), Stream: "orders", Group: group, Number: number, Target: group,
		Effect: record.Effect{Body: []byte(body), Headers: map[string]string{"type": "paid"}},
	}
}

// drain receives and deletes all messages of a queue, as "group: identity body".
func drain(t *testing.T, client *sqs.Client, url string) []string {
	t.Helper()
	q := sqsqueue.New(client, url)
	var out []string
	for {
		got, err := q.Receive(t.Context(), 10, 30*time.Second, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return out
		}
		for _, d := range got {
			out = append(out, d.Group+": "+d.Attributes["once-id"]+" "+d.Body)
			for _, err := range q.Delete(t.Context(), []string{d.Receipt}) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestAFIFOQueueGetsEachDeliveryOnceAndInOrder(t *testing.T) {
	client := sqs.NewFromConfig(awstest.Config(t, "SQS"))
	name := rand.Text() + ".fifo"
	url := awstest.Queue(t, client, name, nil)
	var deliveries []record.Delivery
	want := map[string][]string{}
	for n := range uint64(12) {
		for _, group := range []string{"a", "b"} {
			d := delivery(group, n+1, fmt.Sprint("body ", n))
			deliveries = append(deliveries, d)
			want[group] = append(want[group], group+": "+d.Identity+" "+string(d.Effect.Body))
		}
	}
	// the queue drops repeated messages
	for _, target := range []string{name, url, "arn:aws:sqs:us-east-1:000000000000:" + name} {
		for i, err := range open(t, client, target).Send(t.Context(), deliveries) {
			if err != nil {
				t.Fatalf("%s, delivery %d: %v", target, i, err)
			}
		}
	}
	got := map[string][]string{}
	for _, line := range drain(t, client, url) {
		group, _, _ := strings.Cut(line, ":")
		got[group] = append(got[group], line)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestAStandardQueueGetsTheAttributes(t *testing.T) {
	client := sqs.NewFromConfig(awstest.Config(t, "SQS"))
	name := rand.Text()
	url := awstest.Queue(t, client, name, nil)
	if errs := open(t, client, name).Send(t.Context(), []record.Delivery{delivery("a", 1, "body")}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	got, err := sqsqueue.New(client, url).Receive(t.Context(), 10, 0, 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("received %+v, %v", got, err)
	}
	want := map[string]string{"once-id": "orders/a/1", "once-stream": "orders", "once-group": "a", "type": "paid"}
	if d := cmp.Diff(want, got[0].Attributes); d != "" || got[0].Body != "body" {
		t.Errorf("%s\n%+v", d, got[0])
	}
}

func TestAMissingQueueIsNoRefusalAndIsFoundLater(t *testing.T) {
	client := sqs.NewFromConfig(awstest.Config(t, "SQS"))
	name := rand.Text()
	s := open(t, client, name)
	err := s.Send(t.Context(), []record.Delivery{delivery("a", 1, "body")})[0]
	if missing, ok := errors.AsType[*types.QueueDoesNotExist](err); !ok {
		t.Errorf("got %v, %v", err, missing)
	}
	url := awstest.Queue(t, client, name, nil)
	if err := s.Send(t.Context(), []record.Delivery{delivery("a", 1, "body")})[0]; err != nil {
		t.Error(err)
	}
	if got := drain(t, client, url); len(got) != 1 {
		t.Errorf("queue has %q", got)
	}
}

// scripted returns scripted answers, without a service.
type scripted struct {
	sqsdest.Client
	answer  func(in *sqs.SendMessageBatchInput) (*sqs.SendMessageBatchOutput, error)
	regions []string
	asked   *sqs.GetQueueUrlInput
}

//nolint:revive // the name of the SDK
func (s *scripted) GetQueueUrl(_ context.Context, in *sqs.GetQueueUrlInput, _ ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	s.asked = in
	return &sqs.GetQueueUrlOutput{QueueUrl: aws.String("https://q/1/q")}, nil
}

func (s *scripted) SendMessageBatch(_ context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	o := sqs.Options{Region: "home"}
	for _, option := range options {
		option(&o)
	}
	s.regions = append(s.regions, o.Region)
	return s.answer(in)
}

func TestEachEntryHasItsOwnResult(t *testing.T) {
	fail := func(e types.SendMessageBatchRequestEntry, code string, sender bool) *sqs.SendMessageBatchOutput {
		return &sqs.SendMessageBatchOutput{Failed: []types.BatchResultErrorEntry{{Id: e.Id, Code: &code, Message: aws.String("told so"), SenderFault: sender}}}
	}
	for _, c := range []struct {
		code    string
		sender  bool
		refused bool
		calls   int
	}{
		{"InternalError", false, false, 3},
		{"InvalidMessageContents", true, true, 1},
		{"InvalidParameterValue", true, true, 1},
		{"KmsThrottled", true, false, 1},
		{"AWS.SimpleQueueService.NonExistentQueue", true, false, 1},
	} {
		calls := 0
		client := &scripted{answer: func(in *sqs.SendMessageBatchInput) (*sqs.SendMessageBatchOutput, error) {
			calls++
			return fail(in.Entries[0], c.code, c.sender), nil
		}}
		errs := open(t, client, "https://queues.test/1/q").Send(t.Context(), []record.Delivery{delivery("a", 1, "x")})
		if _, refused := errors.AsType[*record.RefusedError](errs[0]); refused != c.refused || errs[0] == nil || calls != c.calls {
			t.Errorf("%s: %v after %d calls", c.code, errs[0], calls)
		}
	}
}

func TestAMessageThatIsTooLargeForItsQueueIsRefusedAlone(t *testing.T) {
	client := &scripted{answer: func(in *sqs.SendMessageBatchInput) (*sqs.SendMessageBatchOutput, error) {
		out := &sqs.SendMessageBatchOutput{}
		for _, e := range in.Entries {
			if len(*e.MessageBody) > 5 {
				return nil, &types.BatchRequestTooLong{Message: aws.String("too long")}
			}
			out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: e.Id})
		}
		return out, nil
	}}
	errs := open(t, client, "https://queues.test/1/q.fifo").Send(t.Context(), []record.Delivery{
		delivery("a", 1, "x"), delivery("b", 1, "x"), delivery("c", 1, "much too long"), delivery("c", 2, "x"),
	})
	for i, err := range errs {
		if _, refused := errors.AsType[*record.RefusedError](err); refused != (i == 2) || i != 2 && err != nil {
			t.Errorf("delivery %d: %v", i, err)
		}
	}
}

func TestARequestToAFIFOQueueHoldsOneOfAGroupAndNamesIt(t *testing.T) {
	for target, want := range map[string][]int{"https://queues.test/1/q.fifo": {2, 1}, "https://queues.test/1/q": {3}} {
		var sizes []int
		client := &scripted{answer: func(in *sqs.SendMessageBatchInput) (*sqs.SendMessageBatchOutput, error) {
			sizes = append(sizes, len(in.Entries))
			out := &sqs.SendMessageBatchOutput{}
			for _, e := range in.Entries {
				if fifo := queue.FIFO(target); fifo != (e.MessageGroupId != nil) || fifo != (e.MessageDeduplicationId != nil) {
					t.Errorf("%s: group %v, deduplication id %v", target, e.MessageGroupId, e.MessageDeduplicationId)
				}
				out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: e.Id})
			}
			return out, nil
		}}
		errs := open(t, client, target).Send(t.Context(), []record.Delivery{delivery("a", 1, "x"), delivery("a", 2, "x"), delivery("b", 1, "x")})
		if d := cmp.Diff(want, sizes); d != "" || errors.Join(errs...) != nil {
			t.Errorf("%s: %s%v", target, d, errs)
		}
	}
}

func TestAQueueOfAnotherRegionIsCalledInThatRegion(t *testing.T) {
	for target, want := range map[string]string{
		"https://sqs.eu-west-1.amazonaws.com/123456789012/q": "eu-west-1", "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q": "cn-north-1",
		"http://127.0.0.1:9324/000000000000/q": "home",
	} {
		client := &scripted{answer: func(*sqs.SendMessageBatchInput) (*sqs.SendMessageBatchOutput, error) { return nil, errors.New("away") }}
		open(t, client, target).Send(t.Context(), []record.Delivery{delivery("a", 1, "x")})
		if d := cmp.Diff([]string{want}, client.regions); d != "" {
			t.Errorf("%s: %s", target, d)
		}
	}
}

func TestATargetIsANameAURLOrAnARN(t *testing.T) {
	for _, target := range []string{"", "arn:aws:sns:us-east-1:123456789012:topic", "a b", "a/b", "arn:aws:sqs:us-east-1"} {
		if _, err := sqsdest.New(&scripted{}, target); err == nil {
			t.Errorf("%q is taken", target)
		}
	}
}

func TestAQueueOfAnotherAccountIsLookedUpInThatAccount(t *testing.T) {
	for target, owner := range map[string]string{"q": "", "arn:aws:sqs:eu-west-1:123456789012:q": "123456789012"} {
		client := &scripted{answer: func(*sqs.SendMessageBatchInput) (*sqs.SendMessageBatchOutput, error) { return nil, errors.New("away") }}
		open(t, client, target).Send(t.Context(), []record.Delivery{delivery("a", 1, "x")})
		if client.asked == nil || aws.ToString(client.asked.QueueName) != "q" || aws.ToString(client.asked.QueueOwnerAWSAccountId) != owner {
			t.Errorf("%s: asked for %+v", target, client.asked)
		}
	}
}
