package snsdest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/aws/call"
	snsdest "github.com/effectively-once/once/internal/destination/sns"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

func delivery(group string, number uint64, body string) record.Delivery {
	return record.Delivery{
		Identity: fmt.Sprintf("orders/%s/%d", group, number), Stream: "orders", Group: group, Number: number, Target: group,
		Effect: record.Effect{Body: []byte(body), Headers: map[string]string{"type": "paid"}},
	}
}

// world is a topic with a queue behind it, on an emulator.
type world struct {
	sns   *call.Client
	sqs   *sqs.Client
	sts   *sts.Client
	name  string
	topic string
	queue string
}

func newWorld(t *testing.T, suffix string) *world {
	t.Helper()
	cfg := awstest.Config(t, "SNS")
	// the endpoint of all three clients: a topic reaches queues of its own emulator only
	endpoint := aws.String(os.Getenv("AWS_ENDPOINT_URL_SNS"))
	w := &world{
		sns:  call.New(cfg, call.SNS()),
		sqs:  sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.BaseEndpoint = endpoint }),
		sts:  sts.NewFromConfig(cfg, func(o *sts.Options) { o.BaseEndpoint = endpoint }),
		name: rand.Text() + suffix,
	}
	w.queue = awstest.Queue(t, w.sqs, w.name, nil)
	w.createTopic(t, suffix != "")
	return w
}

func (w *world) createTopic(t *testing.T, fifo bool) {
	t.Helper()
	form := url.Values{"Name": {w.name}}
	if fifo {
		form.Set("Attributes.entry.1.key", "FifoTopic")
		form.Set("Attributes.entry.1.value", "true")
	}
	var topic struct {
		ARN string `xml:"CreateTopicResult>TopicArn"`
	}
	if err := w.sns.Form(t.Context(), "CreateTopic", form, &topic); err != nil {
		t.Fatal(err)
	}
	w.topic = topic.ARN
	t.Cleanup(func() {
		if err := w.sns.Form(context.WithoutCancel(t.Context()), "DeleteTopic", url.Values{"TopicArn": {w.topic}}, nil); err != nil {
			t.Error(err)
		}
	})
	if err := w.sns.Form(t.Context(), "Subscribe", url.Values{
		"TopicArn": {w.topic}, "Protocol": {"sqs"}, "Endpoint": {strings.Replace(w.topic, ":sns:", ":sqs:", 1)},
		"Attributes.entry.1.key": {"RawMessageDelivery"}, "Attributes.entry.1.value": {"true"},
	}, nil); err != nil {
		t.Fatal(err)
	}
}

// drain receives and deletes at least n messages, and all others that are there.
func (w *world) drain(t *testing.T, n int) []types.Message {
	t.Helper()
	var out []types.Message
	for {
		wait := int32(0)
		if len(out) < n {
			wait = 5
		}
		got, err := w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &w.queue, MaxNumberOfMessages: 10, WaitTimeSeconds: wait, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Messages) == 0 {
			return out
		}
		for _, m := range got.Messages {
			out = append(out, m)
			if _, err := w.sqs.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &w.queue, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAFIFOTopicGetsEachDeliveryOnceAndInOrder(t *testing.T) {
	w := newWorld(t, ".fifo")
	var deliveries []record.Delivery
	want := map[string][]string{}
	for n := range uint64(12) {
		for _, group := range []string{"a", "b"} {
			d := delivery(group, n+1, fmt.Sprint("body ", n))
			deliveries = append(deliveries, d)
			want[group] = append(want[group], d.Identity+" "+string(d.Effect.Body))
		}
	}
	for _, target := range []string{w.name, w.topic} { // the topic drops repeated messages
		for i, err := range open(t, w.sns, w.sts, target).Send(t.Context(), deliveries) {
			if err != nil {
				t.Fatalf("%s, delivery %d: %v", target, i, err)
			}
		}
	}
	got := map[string][]string{}
	for _, m := range w.drain(t, len(deliveries)) {
		group := m.Attributes["MessageGroupId"]
		got[group] = append(got[group], aws.ToString(m.MessageAttributes["once-id"].StringValue)+" "+aws.ToString(m.Body))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestAStandardTopicPassesTheAttributesOn(t *testing.T) {
	w := newWorld(t, "")
	if errs := open(t, w.sns, w.sts, w.name).Send(t.Context(), []record.Delivery{delivery("a", 1, "body")}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	got := map[string]string{}
	messages := w.drain(t, 1)
	if len(messages) == 0 { // a standard topic may deliver a message twice
		t.Fatalf("%d messages", len(messages))
	}
	for name, a := range messages[0].MessageAttributes {
		got[name] = aws.ToString(a.StringValue)
	}
	if d := cmp.Diff(map[string]string{"once-id": "orders/a/1", "once-stream": "orders", "once-group": "a", "type": "paid"}, got); d != "" {
		t.Error(d)
	}
}

func TestAMissingTopicIsNoRefusal(t *testing.T) {
	w := newWorld(t, "")
	err := open(t, w.sns, w.sts, rand.Text()).Send(t.Context(), []record.Delivery{delivery("a", 1, "body")})[0]
	if _, refused := errors.AsType[*record.RefusedError](err); err == nil || refused {
		t.Errorf("got %v", err)
	}
}

func open(t *testing.T, client *call.Client, identity snsdest.Identity, target string) *snsdest.Sender {
	t.Helper()
	s, err := snsdest.New(client, identity, target)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const topic = "arn:aws:sns:eu-west-1:123456789012:news.fifo"

// serve returns a client of a service that answers by a function.
func serve(t *testing.T, answer http.HandlerFunc) *call.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return call.New(aws.Config{
		Region: "eu-central-1", BaseEndpoint: &server.URL,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
		}),
		RetryMaxAttempts: 1,
	}, call.SNS())
}

// batchAnswer writes the results of entries: an error code for each, empty for success.
func batchAnswer(w http.ResponseWriter, sender bool, codes ...string) {
	var ok, failed strings.Builder
	for i, code := range codes {
		if code == "" {
			fmt.Fprintf(&ok, "<member><Id>%d</Id><MessageId>m</MessageId></member>", i)
		} else {
			fmt.Fprintf(&failed, "<member><Id>%d</Id><Code>%s</Code><Message>told so</Message><SenderFault>%t</SenderFault></member>", i, code, sender)
		}
	}
	_, _ = fmt.Fprintf(w, `<PublishBatchResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/"><PublishBatchResult><Successful>%s</Successful><Failed>%s</Failed>`+
		`</PublishBatchResult></PublishBatchResponse>`, &ok, &failed)
}

func TestEachEntryHasItsOwnResult(t *testing.T) {
	calls := 0
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Form.Get("TopicArn") != topic {
			t.Errorf("form %v, %v", r.Form, err)
		}
		switch calls++; calls {
		case 1: // a/1, b/1, c/1
			batchAnswer(w, true, "", "InvalidParameter", "AuthorizationError")
		default: // a/2, b/2: messages behind c/1 are not sent
			batchAnswer(w, false, "", "InternalError")
		}
	})
	errs := open(t, client, nil, topic).Send(t.Context(), []record.Delivery{
		delivery("a", 1, "x"), delivery("b", 1, "x"), delivery("c", 1, "x"), delivery("a", 2, "x"), delivery("b", 2, "x"), delivery("c", 2, "x"),
	})
	var got []string
	for _, err := range errs {
		_, refused := errors.AsType[*record.RefusedError](err)
		got = append(got, fmt.Sprintf("%t %t", err == nil, refused))
	}
	want := []string{"true false", "false true", "false false", "true false", "true false", "false false"}
	if d := cmp.Diff(want, got); d != "" || calls != 3 {
		t.Errorf("%d calls, %s\n%v", calls, d, errs)
	}
}

func TestATooLargeRequestIsSplit(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if strings.Contains(r.Form.Encode(), "large") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, `<ErrorResponse><Error><Type>Sender</Type><Code>BatchRequestTooLong</Code><Message>too long</Message></Error></ErrorResponse>`)
			return
		}
		batchAnswer(w, true, make([]string, strings.Count(r.Form.Encode(), "member.")/8+1)...)
	})
	errs := open(t, client, nil, topic).Send(t.Context(), []record.Delivery{delivery("a", 1, "x"), delivery("b", 1, "large"), delivery("b", 2, "x")})
	if _, refused := errors.AsType[*record.RefusedError](errs[1]); errs[0] != nil || !refused || errs[2] != nil {
		t.Errorf("%v", errs)
	}
}

func TestALostAnswerIsNoRefusal(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if hijacked, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = hijacked.Close()
		}
	})
	err := open(t, client, nil, topic).Send(t.Context(), []record.Delivery{delivery("a", 1, "x")})[0]
	if _, refused := errors.AsType[*record.RefusedError](err); err == nil || refused {
		t.Errorf("got %v", err)
	}
}

// caller is the identity of the caller.
type caller struct{ arn string }

func (c caller) GetCallerIdentity(context.Context, *sts.GetCallerIdentityInput, ...func(*sts.Options)) (*sts.GetCallerIdentityOutput, error) {
	return &sts.GetCallerIdentityOutput{Account: aws.String("123456789012"), Arn: &c.arn}, nil
}

func TestATopicsNameIsOneOfTheCallersAccount(t *testing.T) {
	asked := ""
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked = r.Form.Get("TopicArn")
		batchAnswer(w, true, "")
	})
	s := open(t, client, caller{"arn:aws-cn:sts::123456789012:assumed-role/publish/1"}, "news")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Send(ctx, []record.Delivery{delivery("a", 1, "x")})[0]; err != nil || asked != "arn:aws-cn:sns:eu-central-1:123456789012:news" {
		t.Errorf("asked for %s, %v", asked, err)
	}
}

func TestATargetIsANameOrAnARN(t *testing.T) {
	for _, target := range []string{"", "arn:aws:sqs:us-east-1:123456789012:queue", "https://sns.test/topic", "a b"} {
		if _, err := snsdest.New(serve(t, nil), caller{}, target); err == nil {
			t.Errorf("%q is taken", target)
		}
	}
	if _, err := snsdest.New(serve(t, nil), nil, "news"); err == nil {
		t.Error("a name is taken without an identity")
	}
}

func TestContentThatIsInvalidForSNSIsRefused(t *testing.T) {
	for code, refusal := range map[string]bool{"InvalidParameter": true, "InvalidParameterValue": true, "KMSAccessDenied": false} {
		client := serve(t, func(w http.ResponseWriter, _ *http.Request) { batchAnswer(w, true, code) })
		errs := open(t, client, nil, topic).Send(t.Context(), []record.Delivery{delivery("a", 1, "x")})
		if _, refused := errors.AsType[*record.RefusedError](errs[0]); errs[0] == nil || refused != refusal {
			t.Errorf("%s: %v", code, errs[0])
		}
	}
}
