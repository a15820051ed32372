package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventbridgetypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// services are the AWS services that send to the sources of a deployed stack.
type services struct {
	events    *eventbridge.Client
	objects   *s3.Client
	topics    *sns.Client
	functions *lambda.Client
	process   string // name of the process function
	queues    map[string]sourceQueue
}

// A sourceQueue is the queue of a source.
type sourceQueue struct{ url, arn string }

// sourceNames are the sources of contract.yaml.
func sourceNames() []string { return []string{"orders", "uploads", "news", "letters"} }

func newServices(t *testing.T, output func(string) *string) *services {
	t.Helper()
	c, err := config.LoadDefaultConfig(t.Context())
	must(t, err)
	x := &services{
		events: eventbridge.NewFromConfig(c), topics: sns.NewFromConfig(c), functions: lambda.NewFromConfig(c), process: *output("ProcessFunction"),
		objects: s3.NewFromConfig(c, func(o *s3.Options) { o.UsePathStyle = true }), // the names of buckets need no lookup
		queues:  map[string]sourceQueue{},
	}
	for _, name := range sourceNames() {
		prefix := "Ingress" + strings.ToUpper(name[:1]) + name[1:]
		x.queues[name] = sourceQueue{*output(prefix + "QueueUrl"), *output(prefix + "QueueArn")}
	}
	return x
}

// eventsOfARuleHaveOneEffectEach puts each event twice, which makes two events with different ids
// and times. Two rules match each of them, so that every one is delivered twice, too.
func eventsOfARuleHaveOneEffectEach(t *testing.T, x *sandbox) {
	bus := x.name("shop")
	_, err := x.services.events.CreateEventBus(t.Context(), &eventbridge.CreateEventBusInput{Name: &bus})
	must(t, err)
	for _, rule := range []string{"placed", "placed-again"} {
		_, err := x.services.events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: &rule, EventBusName: &bus, EventPattern: aws.String(`{"source":["shop"]}`)})
		must(t, err)
		out, err := x.services.events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{
			Rule: &rule, EventBusName: &bus, Targets: []eventbridgetypes.Target{{Id: aws.String("once"), Arn: aws.String(x.services.queues["orders"].arn)}},
		})
		must(t, err)
		if out.FailedEntryCount != 0 {
			t.Fatalf("targets of %s: %+v", rule, out.FailedEntries)
		}
	}
	want := map[string]string{}
	for i := range 5 {
		order := x.name(fmt.Sprint("o-", i))
		want[order] = `"` + order + `"`
		detail := fmt.Sprintf(`{"order":%q,"customer":%q}`, order, x.name(fmt.Sprint("c-", i%2)))
		for range 2 {
			out, err := x.services.events.PutEvents(t.Context(), &eventbridge.PutEventsInput{Entries: []eventbridgetypes.PutEventsRequestEntry{{
				EventBusName: &bus, Source: aws.String("shop"), DetailType: aws.String("Order Placed"), Detail: &detail,
			}}})
			must(t, err)
			if out.FailedEntryCount != 0 {
				t.Fatalf("%+v", out.Entries)
			}
		}
	}
	x.redeliver(t, "orders", x.wantSourced(t, want))
	x.settled(t, want)
}

// notificationsOfABucketHaveOneEffectForEachVersion puts objects into a bucket with versions. The
// records are delivered again one by one, and all in one notification.
func notificationsOfABucketHaveOneEffectForEachVersion(t *testing.T, x *sandbox) {
	bucket := x.name("photos")
	_, err := x.services.objects.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	must(t, err)
	_, err = x.services.objects.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: &bucket, VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusEnabled},
	})
	must(t, err)
	_, err = x.services.objects.PutBucketNotificationConfiguration(t.Context(), &s3.PutBucketNotificationConfigurationInput{
		Bucket: &bucket, NotificationConfiguration: &s3types.NotificationConfiguration{QueueConfigurations: []s3types.QueueConfiguration{{
			QueueArn: aws.String(x.services.queues["uploads"].arn), Events: []s3types.Event{"s3:ObjectCreated:*"},
		}}},
	})
	must(t, err)
	versions := map[string]string{} // keys
	for i := range 6 {
		key := fmt.Sprint("flower-", i%3, ".jpg")
		out, err := x.services.objects.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(fmt.Sprint(i))})
		must(t, err)
		versions[aws.ToString(out.VersionId)] = key
	}
	var bodies []string
	await(t, "effects of six versions", func() (bool, error) {
		bodies = firsts(x.effects("sourced"))
		return len(bodies) >= len(versions), nil
	})
	var records []string
	for _, body := range bodies {
		record, ok := strings.CutPrefix(strings.TrimSuffix(body, "]}"), `{"Records":[`)
		if !ok {
			t.Fatalf("not one record: %s", body)
		}
		records = append(records, record)
	}
	x.redeliver(t, "uploads", append(bodies, `{"Records":[`+strings.Join(records, ",")+`]}`))
	want := map[string]string{}
	for version, key := range versions {
		for _, p := range x.effects("sourced") {
			if strings.HasPrefix(p.id, bucket+"/"+key+"/"+version+"/") {
				want[p.id] = `"` + version + `"`
			}
		}
	}
	if len(want) != len(versions) {
		t.Errorf("effects of %d of %d versions", len(want), len(versions))
	}
	x.settled(t, want)
}

// messagesOfATopicHaveOneEffectRawOrNot publishes each message twice, to a topic with a raw
// subscription and to one that delivers envelopes.
func messagesOfATopicHaveOneEffectRawOrNot(t *testing.T, x *sandbox) {
	raw, enveloped := x.topic(t, "raw"), x.topic(t, "enveloped")
	x.subscribe(t, raw, x.services.queues["news"].arn, true)
	x.subscribe(t, enveloped, x.services.queues["news"].arn, false)
	want := map[string]string{}
	for i := range 5 {
		id := x.name(fmt.Sprint("n-", i))
		want[id] = fmt.Sprintf(`{"id": %q, "news": "a < b"}`, id)
		for _, topic := range []string{raw, enveloped, raw, enveloped}[i%2:] {
			_, err := x.services.topics.Publish(t.Context(), &sns.PublishInput{TopicArn: &topic, Message: aws.String(want[id])})
			must(t, err)
		}
	}
	x.redeliver(t, "news", x.wantSourced(t, want))
	x.settled(t, want)
}

// anEnvelopeOfATopicIsItsOwnIdentity delivers the envelopes again that another queue has got.
func anEnvelopeOfATopicIsItsOwnIdentity(t *testing.T, x *sandbox) {
	topic, copies := x.topic(t, "letters"), x.name("copies")
	made, err := x.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &copies})
	must(t, err)
	known, err := x.sqs.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: made.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameQueueArn}})
	must(t, err)
	x.subscribe(t, topic, x.services.queues["letters"].arn, false)
	x.subscribe(t, topic, known.Attributes["QueueArn"], false)
	want := map[string]string{}
	for range 2 { // two messages with one text are two messages
		out, err := x.services.topics.Publish(t.Context(), &sns.PublishInput{TopicArn: &topic, Message: aws.String("a letter of " + x.prefix)})
		must(t, err)
		want[aws.ToString(out.MessageId)] = "a letter of " + x.prefix
	}
	queue, envelopes := &drained{client: x.sqs, url: made.QueueUrl}, []string{}
	await(t, "copies of the envelopes", func() (bool, error) {
		kept, err := queue.take(t.Context())
		envelopes = envelopes[:0]
		for _, m := range kept {
			envelopes = append(envelopes, aws.ToString(m.Body))
		}
		return len(envelopes) >= len(want), err
	})
	x.wantSourced(t, want)
	x.redeliver(t, "letters", envelopes)
	x.settled(t, want)
}

// theLargestMessageOfASourceHasAnEffect sends as much as SQS takes.
func theLargestMessageOfASourceHasAnEffect(t *testing.T, x *sandbox) {
	want, queue := map[string]string{}, x.services.queues["news"]
	for name, size := range map[string]int{"small": 256<<10 + 1, "largest": 1 << 20} {
		id := x.name(name)
		body := fmt.Sprintf(`{"id":%q,"text":""}`, id)
		body = strings.Replace(body, `""`, `"`+strings.Repeat("x", size-len(body))+`"`, 1)
		_, err := x.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &queue.url, MessageBody: &body})
		must(t, err)
		want[id] = body
	}
	x.wantSourced(t, want)
}

// aBodyOverTheLimitOfItsStreamIsADeadLetter sends bodies that SQS accepts, and numbered streams do
// not.
func aBodyOverTheLimitOfItsStreamIsADeadLetter(t *testing.T, x *sandbox) {
	attribute := func(value string) sqstypes.MessageAttributeValue {
		return sqstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
	}
	send := func(source string, size int, attributes map[string]sqstypes.MessageAttributeValue) {
		maps.Copy(attributes, map[string]sqstypes.MessageAttributeValue{"once-stream": attribute("numbered"), "once-source": attribute(source), "once-sequence": attribute("1")})
		_, err := x.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: x.urls["ingress"], MessageBody: aws.String(strings.Repeat("x", size)), MessageAttributes: attributes})
		must(t, err)
	}
	send(x.name("largest"), 256<<10, map[string]sqstypes.MessageAttributeValue{})
	refused := []string{x.name("larger"), x.name("a MiB")}
	for i, size := range []int{256<<10 + 1, 1<<20 - 300} {
		send(refused[i], size, map[string]sqstypes.MessageAttributeValue{"once-id": attribute(refused[i])})
	}
	x.want(t, "numbered", sent{source: x.name("largest"), sequence: 1, body: []byte(strings.Repeat("x", 256<<10))})
	found := map[string]letter{}
	await(t, "dead letters of the larger bodies", func() (bool, error) {
		letters, err := x.letters(refused...) // other checks need not receive so much
		for _, l := range letters {
			if slices.Contains(refused, l.ID) {
				found[l.ID] = l
			}
		}
		return len(found) == len(refused), err
	})
	for _, l := range found {
		if l.Reason != "invalid" || !strings.Contains(l.Detail, "body must be at most 262144 bytes in this stream") {
			t.Errorf("dead letter %s: %s", l, l.Detail)
		}
	}
}

func (x *sandbox) topic(t *testing.T, name string) (arn string) {
	t.Helper()
	out, err := x.services.topics.CreateTopic(t.Context(), &sns.CreateTopicInput{Name: aws.String(x.name(name))})
	must(t, err)
	return aws.ToString(out.TopicArn)
}

func (x *sandbox) subscribe(t *testing.T, topic, queue string, raw bool) {
	t.Helper()
	_, err := x.services.topics.Subscribe(t.Context(), &sns.SubscribeInput{
		TopicArn: &topic, Protocol: aws.String("sqs"), Endpoint: &queue, Attributes: map[string]string{"RawMessageDelivery": fmt.Sprint(raw)},
	})
	must(t, err)
}

// sourced returns the effects with one of these identities.
func (x *sandbox) sourced(want map[string]string) []post {
	posts, _ := x.receiver.seen()
	return slices.DeleteFunc(posts, func(p post) bool { return p.stream != "sourced" || want[p.id] == "" })
}

// wantSourced waits until the messages of a source, by their identities, have an effect that
// contains their text. It returns the bodies of the effects.
func (x *sandbox) wantSourced(t *testing.T, want map[string]string) []string {
	t.Helper()
	got := map[string]string{}
	await(t, fmt.Sprintf("effects of %d messages of a source", len(want)), func() (bool, error) {
		for _, p := range x.sourced(want) {
			got[p.id] = string(p.body)
		}
		return len(got) == len(want), nil
	})
	for id, text := range want {
		if !strings.Contains(got[id], text) {
			t.Errorf("the effect of %s is %s, without %s", id, got[id], text)
		}
	}
	return slices.Collect(maps.Values(got))
}

// redeliver delivers bodies again that the queue of a source has delivered: twice over the queue,
// as new messages, and twice as a batch whose answer was lost.
func (x *sandbox) redeliver(t *testing.T, source string, bodies []string) {
	t.Helper()
	queue := x.services.queues[source]
	var batch struct{ Records []map[string]any }
	for _, body := range bodies {
		for range 2 {
			_, err := x.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &queue.url, MessageBody: &body})
			must(t, err)
		}
		batch.Records = append(batch.Records, map[string]any{
			"messageId": uuid.NewString(), "receiptHandle": "none", "body": body, "messageAttributes": map[string]any{},
			"attributes":  map[string]string{"ApproximateReceiveCount": "2", "SentTimestamp": "1770000000000", "SenderId": "000000000000", "ApproximateFirstReceiveTimestamp": "1770000000000"},
			"eventSource": "aws:sqs", "eventSourceARN": queue.arn, "awsRegion": "us-east-1",
		})
	}
	event, err := json.Marshal(batch)
	must(t, err)
	for range 2 {
		must(t, x.services.invoke(t.Context(), event))
	}
}

// invoke invokes the process function with a batch, of which nothing may fail.
func (x *services) invoke(ctx context.Context, event []byte) error {
	out, err := x.functions.Invoke(ctx, &lambda.InvokeInput{FunctionName: &x.process, Payload: event})
	if err != nil {
		return err
	}
	var answer struct {
		BatchItemFailures []struct {
			ItemIdentifier string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
	}
	err = json.Unmarshal(out.Payload, &answer)
	if out.FunctionError != nil || len(answer.BatchItemFailures) > 0 {
		err = errors.Join(err, fmt.Errorf("the process function answered %s", out.Payload))
	}
	return err
}

// settled waits until the queues of all sources are empty. Then each message has one effect, the
// check has no others, and no copy is a dead letter.
func (x *sandbox) settled(t *testing.T, want map[string]string) {
	t.Helper()
	for _, queue := range x.services.queues {
		await(t, "an empty queue of a source", func() (bool, error) {
			left, err := queueDepth(t.Context(), x.sqs, &queue.url)
			return len(left) == 0, err
		})
	}
	effects, got := map[string]int{}, map[string]bool{}
	for _, p := range append(x.sourced(want), x.effects("sourced")...) {
		if !got[p.webhookID] {
			effects[p.id]++
		}
		got[p.webhookID] = true
	}
	once := map[string]int{}
	for id := range want {
		once[id] = 1
	}
	if d := cmp.Diff(once, effects); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
	letters, err := x.letters()
	must(t, err)
	for _, l := range letters {
		if l.Stream == "sourced" && (want[l.ID] != "" || strings.HasPrefix(l.ID, x.prefix)) {
			t.Errorf("dead letter %s: %s", l, l.Detail)
		}
	}
}
