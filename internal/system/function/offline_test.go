package function

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

// An offline account replaces AWS without an emulator: DynamoDB tables that store each item without
// checking conditions, and one SQS queue, whose messages are received once.
type offline struct {
	mu       sync.Mutex
	tables   map[string]map[string]json.RawMessage // items by partition and sort key
	messages []map[string]any
	visible  int   // how many messages were made visible again
	fail     error // of every call
	calls    []string
}

// openOffline opens a system in an offline account.
func openOffline(t *testing.T, function Function) (*System, *offline) {
	t.Helper()
	o := &offline{tables: map[string]map[string]json.RawMessage{"groups": {}, "tokens": {}}}
	clients := Clients{
		DynamoDB: o.dynamodb(),
		SQS:      sqs.New(sqs.Options{Region: "eu-central-1", Credentials: anyKeys(), HTTPClient: o, RetryMaxAttempts: 1}),
	}
	settings, err := environment.Read(variables(nil))
	if err != nil {
		t.Fatal(err)
	}
	if settings.Config, err = config.Parse("once.yaml", []byte(webhookConfig)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(function, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, o
}

func anyKeys() aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider("key", "secret", "")
}

func (o *offline) dynamodb() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "eu-central-1", Credentials: anyKeys(), HTTPClient: o, DisableValidateResponseChecksum: true, RetryMaxAttempts: 1,
	})
}

// keyOf returns the text of the keys in an item or a key.
func keyOf(item json.RawMessage) string {
	var keys struct {
		PK struct{ S string } `json:"pk"`
		SK struct{ S string } `json:"sk"`
	}
	_ = json.Unmarshal(item, &keys) // an item without them has an empty key
	return keys.PK.S + "\x00" + keys.SK.S
}

// Do implements aws.HTTPClient.
func (o *offline) Do(r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return nil, o.fail
	}
	var in struct {
		TableName                    string
		Item, Key, ExclusiveStartKey json.RawMessage
		RequestItems                 map[string]struct{ Keys []json.RawMessage }
		QueueURL                     string `json:"QueueUrl"`
		Entries                      []struct {
			ID           string `json:"Id"`
			DelaySeconds int
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	out := map[string]any{}
	defer func() {
		o.calls = append(o.calls, strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810."))
	}()
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	status := http.StatusOK
	switch action {
	case "PutItem":
		o.tables[in.TableName][keyOf(in.Item)] = in.Item
	case "DeleteItem":
		delete(o.tables[in.TableName], keyOf(in.Key))
	case "GetItem":
		if item, ok := o.tables[in.TableName][keyOf(in.Key)]; ok {
			out["Item"] = item
		}
	case "BatchGetItem":
		found := map[string][]json.RawMessage{}
		for table, wanted := range in.RequestItems {
			for _, key := range wanted.Keys {
				if item, ok := o.tables[table][keyOf(key)]; ok {
					found[table] = append(found[table], item)
				}
			}
		}
		out["Responses"] = found
	case "Scan":
		items := []json.RawMessage{}
		for _, key := range slices.Sorted(maps.Keys(o.tables[in.TableName])) {
			if in.ExclusiveStartKey == nil || key > keyOf(in.ExclusiveStartKey) {
				items = append(items, o.tables[in.TableName][key])
			}
		}
		out["Items"] = items
	case "ReceiveMessage":
		out["Messages"], o.messages = o.messages, nil
	case "ChangeMessageVisibility":
		o.visible++
	case "SendMessageBatch":
		sent := []map[string]string{}
		for _, entry := range in.Entries {
			o.messages = append(o.messages, map[string]any{"QueueUrl": in.QueueURL, "DelaySeconds": entry.DelaySeconds})
			sent = append(sent, map[string]string{"Id": entry.ID, "MessageId": "1", "MD5OfMessageBody": "0"})
		}
		out["Successful"] = sent
	default:
		status, out["__type"], out["message"] = http.StatusBadRequest, "Unsupported", action
	}
	body, err := json.Marshal(out)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(string(body))), Request: r,
	}, err
}

func TestASweepVisitsGroupsWithWorkAndGroupsWithoutAnExpiry(t *testing.T) {
	s, _ := openOffline(t, Process)
	later := time.Now().Add(time.Hour)
	for name, g := range map[string]record.Group{
		"idle":           {Version: 1, Retention: time.Hour, Expires: later},
		"with a state":   {Version: 1, State: []byte("kept for ever")},
		"pending":        {Version: 1, Last: 1, Pending: []record.Pending{{Number: 1, Identity: "1"}}},
		"without expiry": {Version: 1, Retention: time.Hour},
	} {
		g.Key, g.Incarnation = record.GroupKey{Stream: "orders", Group: name}, 1
		if err := s.store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: g.Key}, Next: g, Attempt: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	visited := map[string]int{}
	for key, err := range s.unfinished(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		visited[key.Group]++
	}
	if d := cmp.Diff(map[string]int{"pending": 1, "without expiry": 1}, visited); d != "" {
		t.Errorf("visited (-want +got)\n%s", d)
	}
}

func TestOnlyTheProcessFunctionReadsTokensWithoutTheirReplies(t *testing.T) {
	for function, replies := range map[Function]bool{Ingest: true, Process: false, Publish: true} {
		s, _ := openOffline(t, function)
		key := record.NewTokenKey("", "orders", "1")
		done := record.Token{
			Key: key, State: record.Done, Owner: "a", Epoch: 1, Stream: "orders", Group: "1", Expires: time.Now().Add(time.Hour),
			Reply: &record.Reply{Status: http.StatusCreated, Body: large},
		}
		if _, err := s.store.SwapToken(t.Context(), record.Token{Key: key}, done); err != nil {
			t.Fatal(err)
		}
		_, tokens, err := s.store.Load(t.Context(), nil, []record.TokenKey{key})
		if err != nil || tokens[0].State != record.Done || (tokens[0].Reply != nil) != replies {
			t.Errorf("%s: token %v with a reply %v, want %v; %v", function, tokens[0].State, tokens[0].Reply != nil, replies, err)
		}
	}
}

func TestTheCallsOfOneRedriveShareTheTimeAtWhichTheFirstBegan(t *testing.T) {
	s, o := openOffline(t, Process)
	begun := time.UnixMilli(1_700_000_000_000).UTC()
	s.now = func() time.Time { return begun }
	first, err := s.redrive(t.Context(), tasks.Task{Queue: tasks.DeadIngress})
	if err != nil || !first.Until.Equal(begun) || !first.Done {
		t.Fatalf("the first call: %+v, %v", first, err)
	}
	// Dead-lettered between the calls, and so later than the beginning of the first one.
	o.messages = []map[string]any{{
		"MessageId": "1", "ReceiptHandle": "r", "Body": "{}", "Attributes": map[string]string{"SentTimestamp": strconv.FormatInt(begun.UnixMilli()+1, 10)},
	}}
	s.now = func() time.Time { return begun.Add(time.Minute) }
	second, err := s.redrive(t.Context(), tasks.Task{Queue: tasks.DeadIngress, Until: first.Until})
	if d := cmp.Diff(tasks.Redriven{Left: 1, Until: begun, Done: true}, second); d != "" || err != nil || o.visible != 1 {
		t.Errorf("the second call (-want +got)\n%s%v, %d made visible", d, err, o.visible)
	}
}

func TestAProblemOfTheFrontDoorNamesTheRequestOfTheGateway(t *testing.T) {
	s, _ := openOffline(t, Ingest)
	event := `{"version":"2.0","rawPath":"/v1/streams/nothing/messages","headers":{},"requestContext":{
		"requestId":"of-the-gateway","http":{"method":"POST","path":"/v1/streams/nothing/messages"}}}`
	answer, err := s.Handler()(t.Context(), json.RawMessage(event))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(answer)
	if err != nil || !strings.Contains(string(text), "urn:once:request:of-the-gateway") {
		t.Errorf("got %s, %v", text, err)
	}
}

// A failing bucket can not list its claims.
type failingBucket struct {
	dynamostore.Claims
	err error
}

func (f failingBucket) List(context.Context, time.Time) ([]string, error) { return nil, f.err }

func TestASweepThatCanNotListClaimsIsAnError(t *testing.T) {
	s, o := openOffline(t, Process)
	away := errors.New("away")
	var err error
	s.store, err = dynamostore.New(o.dynamodb(), dynamostore.Tables{Groups: "groups", Tokens: "tokens"}, dynamostore.Options{Claims: failingBucket{err: away}})
	if err != nil {
		t.Fatal(err)
	}
	if _, through, err := s.sweepStrays(t.Context()); !errors.Is(err, away) || !through {
		t.Errorf("through %v, %v", through, err)
	}
}

func TestASweepOfEverythingListsTheBucketIfThereIsOne(t *testing.T) {
	for bucket, lists := range map[string]bool{"": false, "objects": true} {
		o := &offline{tables: map[string]map[string]json.RawMessage{"groups": {}, "tokens": {}}}
		settings, err := environment.Read(variables(map[string]string{environment.Bucket: bucket}))
		if err != nil {
			t.Fatal(err)
		}
		if settings.Config, err = config.Parse("once.yaml", []byte(webhookConfig)); err != nil {
			t.Fatal(err)
		}
		s, err := Open(Process, settings, Clients{
			DynamoDB: o.dynamodb(), S3: s3.New(s3.Options{Region: "eu-central-1", Credentials: anyKeys(), HTTPClient: nowhere{}, RetryMaxAttempts: 1}),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.do(t.Context(), tasks.Task{Once: tasks.SweepAll}); errors.Is(err, errNowhere) != lists {
			t.Errorf("bucket %q: %v", bucket, err)
		}
	}
}

// nowhere is a service that can't be reached.
type nowhere struct{}

var errNowhere = errors.New("nowhere")

func (nowhere) Do(*http.Request) (*http.Response, error) { return nil, errNowhere }

func TestARedriveWhoseQueueDoesNotAnswerIsAnError(t *testing.T) {
	s, o := openOffline(t, Process)
	o.fail = context.DeadlineExceeded // the client's own timeout, while the function has time left
	if got, err := s.redrive(t.Context(), tasks.Task{Queue: tasks.DeadIngress}); !errors.Is(err, context.DeadlineExceeded) || got.Done {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestADeliveryHasEveryFieldOfALambdaRecord(t *testing.T) {
	text := "orders"
	m := events.SQSMessage{
		MessageId: "m", ReceiptHandle: "r", Body: "x", EventSourceARN: "arn:aws:sqs:eu-central-1:1:ingress.fifo",
		Attributes: map[string]string{
			"SentTimestamp": "1700000000001", "ApproximateFirstReceiveTimestamp": "1700000000002", "ApproximateReceiveCount": "3",
			"SenderId": "AROA1", "MessageGroupId": "g", "MessageDeduplicationId": "d", "SequenceNumber": "7",
		},
		MessageAttributes: map[string]events.SQSMessageAttribute{
			"once-stream": {DataType: "String", StringValue: &text}, "b": {DataType: "Binary", BinaryValue: []byte("1")}, "a": {DataType: "Binary"},
		},
	}
	want := queue.Delivery{
		Message: queue.Message{Body: "x", Attributes: map[string]string{"once-stream": "orders"}, Group: "g", DedupID: "d", Sender: "AROA1"},
		Queue:   "ingress.fifo", ID: "m", Receipt: "r", SequenceNumber: "7", Receives: 3, Binary: []string{"a", "b"},
		Sent: time.UnixMilli(1_700_000_000_001).UTC(), FirstReceived: time.UnixMilli(1_700_000_000_002).UTC(),
	}
	if d := cmp.Diff(want, delivery(&m)); d != "" {
		t.Error(d)
	}
}
