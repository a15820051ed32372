package function

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/blob/s3blob"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/claimcheck"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// newBucket makes a bucket, and deletes it when the test ends.
func newBucket(t *testing.T) string {
	t.Helper()
	client, name := NewClients(awstest.Config(t, "S3")).S3, "test-"+strings.ToLower(rand.Text())
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		var errs []error
		for _, c := range []*s3blob.Claims{s3blob.NewBodies(client, name), s3blob.NewClaims(client, name)} {
			names, err := c.List(ctx, time.Now().Add(time.Hour))
			errs = append(errs, err, c.Delete(ctx, names))
		}
		_, err := client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &name})
		if err := errors.Join(append(errs, err)...); err != nil {
			t.Error(err)
		}
	})
	return name
}

// largest is the largest body, of bytes that a queue takes as base64 only.
func largest(first string) []byte {
	return append([]byte(first), bytes.Repeat([]byte{0, 0xff, 1}, record.MaxBody)[:record.MaxBody-len(first)]...)
}

func TestTheLargestBodiesPassTheFunctions(t *testing.T) {
	passLargest(t, deployLarge(t, peace))
}

func TestKillsAndDuplicatesLoseNoLargeBody(t *testing.T) {
	var killed atomic.Int64
	passLargest(t, deployLarge(t, war(&killed)))
	t.Logf("%d functions killed", killed.Load())
}

func passLargest(t *testing.T, d *deployment) {
	t.Helper()
	want := map[string]int{}
	for _, header := range []map[string]string{
		{}, {"Once-Group": "g"}, {"Once-Group": "g", "X-Odd": strings.Repeat(`"`, 10<<10)}, // in one group: one after the other
	} {
		for _, stream := range []string{"web", "tokens"} {
			body := largest(rand.Text())
			h := map[string]string{"Idempotency-Key": `"` + rand.Text() + `"`}
			maps.Copy(h, header)
			for range 2 { // the second one is a duplicate
				d.accepted(t, stream, string(body), h)
			}
			want[string(body)]++
		}
	}
	got := d.webhook.wait(t, len(want))
	for _, body := range got["shop"] {
		if want[body]--; want[body] != 0 {
			t.Errorf("a body of %d bytes that was not sent, or twice", len(body))
		}
	}
	d.settled(t)
	if len(d.webhook.firsts) > 0 {
		t.Errorf("%d deliveries too many", len(d.webhook.firsts))
	}
	for stream, most := range map[string]int{"web": record.MaxBody, "numbers": record.SmallBody, "topics": record.SmallBody, "queued": record.QueueBody} {
		header := map[string]string{"Idempotency-Key": `"larger"`, "Once-Source": "s", "Once-Sequence": "1"}
		if status, answer := d.post(t, stream, strings.Repeat("x", most+1), header); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: a byte too much: %d %s", stream, status, answer)
		}
	}
}

// openLarge opens a system with a bucket.
func openLarge(t *testing.T, function Function) *mended {
	t.Helper()
	bucket := newBucket(t)
	settings, clients := emulated(t, webhookConfig)
	settings.Bucket = bucket
	s, err := Open(function, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &mended{s, settings, clients, time.Now().UTC().Add(-time.Hour).Truncate(time.Second)}
}

// arrived returns the message of the ingress queue as the process function gets it.
func (m *mended) arrived(t *testing.T) record.Message {
	t.Helper()
	got := awstest.Take(t, m.bodies.queue(m.clients.SQS, m.settings.Queues.IngressFIFO))
	if len(got) != 1 {
		t.Fatalf("%d messages", len(got))
	}
	message, _, err := wire.FromQueue(&got[0], wire.Defaults{Trusted: m.settings.Trusted})
	if err != nil {
		t.Fatal(err)
	}
	return message
}

func TestADeadLetterAndItsRedriveKeepALargeBody(t *testing.T) {
	m := openLarge(t, Process)
	refused := m.refusal("1", record.ReasonHandler)
	refused.Message.Body = largest("")
	m.refuse(t, refused)
	if got := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead"}`); got.Redriven != 1 || got.Failed != 0 {
		t.Fatalf("got %+v", got)
	}
	if got := m.arrived(t); got.ID != "1" || got.Principal != ann || !bytes.Equal(got.Body, refused.Message.Body) {
		t.Errorf("put back %s of %s, %d bytes", got.ID, got.Principal, len(got.Body))
	}
}

func TestADeadEffectAndItsRedriveKeepALargeBody(t *testing.T) {
	m := openLarge(t, Publish)
	d := record.Delivery{Identity: "orders/1", Stream: "orders", Target: "g", Effect: record.Effect{To: []string{"shop"}, Body: largest("")}}
	m.refuse(t, record.Refused{Delivery: &d, To: "shop", Reason: record.ReasonGone})
	if got := m.redrive(t, `{"once":"redrive","answered":true,"queue":"publish-dead"}`); got.Redriven != 1 || got.Failed != 0 {
		t.Fatalf("got %+v", got)
	}
	got := awstest.Take(t, m.bodies.queue(m.clients.SQS, m.settings.Queues.PublishFIFO))
	if len(got) != 1 {
		t.Fatalf("%d triggers", len(got))
	}
	if x, err := wire.FromTrigger(&got[0]); err != nil || x.Delivery == nil || !bytes.Equal(x.Delivery.Effect.Body, d.Effect.Body) {
		t.Errorf("%v", err)
	}
}

func TestALetterWithoutItsBodyStaysAndSaysWhy(t *testing.T) {
	m := openLarge(t, Process)
	refused := m.refusal("1", record.ReasonHandler)
	refused.Message.Body = largest("")
	m.refuse(t, refused)
	m.lose(t)
	got := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead"}`)
	if got.Redriven != 0 || got.Failed != 1 || !strings.Contains(got.Failures[0].Error, "no such object") || got.Failures[0].ID != "1" {
		t.Fatalf("got %+v", got)
	}
	left := awstest.Take(t, m.bodies.queue(m.clients.SQS, m.settings.Queues.Dead))
	if len(left) != 1 {
		t.Fatalf("%d letters", len(left))
	}
	letter := deadletter.Read("dead", left[0], m.settings.Trusted)
	if info := letter.InfoWithContent(100); info.ID != "1" || info.Reason != string(record.ReasonHandler) || !strings.Contains(info.Detail, "as it says; read body") || info.Content.Bytes > 0 {
		t.Errorf("%+v", info)
	}
}

// lose deletes the bodies in the bucket.
func (m *mended) lose(t *testing.T) {
	t.Helper()
	bodies := s3blob.NewBodies(m.clients.S3, m.settings.Bucket)
	names, err := bodies.List(t.Context(), time.Now().Add(time.Hour))
	if err := errors.Join(err, bodies.Delete(t.Context(), names)); err != nil || len(names) != 1 {
		t.Fatalf("bodies %q, %v", names, err)
	}
}

func TestAMessageWhoseBodyCanNotBeReadIsRetried(t *testing.T) {
	m := openLarge(t, Process)
	order := m.order("1")
	order.Body = largest("")
	if err := m.pipeline.Queues.Enqueue(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	raw := awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.IngressFIFO))
	if len(raw) != 1 || raw[0].Attributes[claimcheck.Attribute] == "" {
		t.Fatalf("in the queue: %+v", raw)
	}
	event := func(sender string) json.RawMessage {
		x := events.SQSMessage{
			MessageId: "m", ReceiptHandle: "r", Body: raw[0].Body, EventSourceARN: "arn:aws:sqs:us-east-1:000000000000:" + raw[0].Queue,
			Attributes: map[string]string{"SenderId": sender, "MessageGroupId": raw[0].Group}, MessageAttributes: map[string]events.SQSMessageAttribute{},
		}
		for name, value := range raw[0].Attributes {
			x.MessageAttributes[name] = events.SQSMessageAttribute{StringValue: &value, DataType: "String"}
		}
		data, err := json.Marshal(events.SQSEvent{Records: []events.SQSMessage{x}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	failed := func(s *System, sender string) int {
		answer, err := s.Handler()(t.Context(), event(sender))
		if err != nil {
			t.Fatal(err)
		}
		return len(answer.(events.SQSEventResponse).BatchItemFailures)
	}
	without := m.settings
	without.Bucket = ""
	s, err := Open(Process, without, m.clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := failed(s, "127.0.0.1"); n != 1 {
		t.Error("a function without a bucket acknowledged it")
	}
	m.lose(t)
	if n := failed(m.System, "127.0.0.1"); n != 1 {
		t.Error("it was acknowledged without its body")
	}
	if letters := awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.Dead)); len(letters) > 0 {
		t.Errorf("it became a dead letter: %v", letters)
	}
	// a name of another sender is not followed, and no attribute of the contract
	if n := failed(m.System, "mallory"); n != 0 {
		t.Error("a message of another sender is retried")
	}
	letters := awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.Dead))
	if len(letters) != 1 || !strings.Contains(letters[0].Attributes[wire.AttrReason], "once-body is not an attribute of this contract") {
		t.Errorf("letters %+v", letters)
	}
}

func TestWithoutABucketALargeMessageOfSQSIsADeadLetter(t *testing.T) {
	m := openMended(t, Process)
	h := m.Handler()
	for size, taken := range map[int]bool{record.SmallBody: true, record.SmallBody + 1: false} {
		order := m.order("1")
		order.Body = bytes.Repeat([]byte("x"), size)
		sent := wire.ToQueue(order)
		x := events.SQSMessage{MessageId: "m", ReceiptHandle: "r", Body: sent.Body, EventSourceARN: "arn:aws:sqs:us-east-1:000000000000:q", MessageAttributes: map[string]events.SQSMessageAttribute{}}
		for name, value := range sent.Attributes {
			x.MessageAttributes[name] = events.SQSMessageAttribute{StringValue: &value, DataType: "String"}
		}
		event, err := json.Marshal(events.SQSEvent{Records: []events.SQSMessage{x}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h(t.Context(), event); err != nil {
			t.Fatal(err)
		}
		letters := awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.Dead))
		if refused := slices.ContainsFunc(letters, func(d queue.Delivery) bool {
			return strings.Contains(d.Attributes[wire.AttrReason], "body must be at most 262144 bytes in this stream")
		}); refused == taken {
			t.Errorf("%d bytes: letters %d", size, len(letters))
		}
	}
}

func TestALargeMessageIsNotAcceptedIfItsBodyCanNotBeKept(t *testing.T) {
	m := openLarge(t, Ingest)
	m.settings.Bucket = "missing-" + strings.ToLower(rand.Text())
	s, err := Open(Ingest, m.settings, m.clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := s.frontDoor()
	post := func(h http.Handler) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/streams/orders/messages", bytes.NewReader(largest("same")))
		r.Header.Set("Idempotency-Key", `"1"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if code := post(h); code != http.StatusServiceUnavailable {
		t.Errorf("without the bucket: %d", code)
	}
	if code := post(m.frontDoor()); code != http.StatusAccepted {
		t.Errorf("when the bucket is back: %d", code)
	}
	if got := m.arrived(t); got.ID != "1" || len(got.Body) != record.MaxBody {
		t.Errorf("%s, %d bytes", got.ID, len(got.Body))
	}
}
