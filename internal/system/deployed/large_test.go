package deployed_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/blob/s3blob"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

func TestTheBodyOfALargeDeadLetterIsReadOnlyIfItIsAskedFor(t *testing.T) {
	client := s3.NewFromConfig(awstest.Config(t, "S3", "SQS", "DYNAMODB"))
	w := newWorld(t)
	bucket := strings.ToLower(w.aws.Outputs["Bucket"])
	w.aws.Outputs["Bucket"] = bucket
	w.open(t)
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	bodies := s3blob.NewBodies(client, bucket)
	lose := func() {
		ctx := context.WithoutCancel(t.Context())
		names, err := bodies.List(ctx, time.Now().Add(time.Hour))
		if err := errors.Join(err, bodies.Delete(ctx, names)); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		lose()
		if _, err := client.DeleteBucket(context.WithoutCancel(t.Context()), &s3.DeleteBucketInput{Bucket: &bucket}); err != nil {
			t.Error(err)
		}
	})
	refused := refusal("o-1", ann, record.ReasonHandler)
	refused.Message.Body = make([]byte, record.MaxBody)
	effect := record.Refused{To: "shop", Reason: record.ReasonGone, Delivery: &record.Delivery{
		Identity: "orders/g/1", Stream: "orders", Group: "g", Number: 1, Effect: record.Effect{Body: make([]byte, record.MaxBody)},
	}}
	q := w.queue("Dead").(*sqsqueue.Queue).WithBodies(bodies, func(*queue.Delivery) bool { return true })
	send(t, q, wire.ToDeadLetter(refused, queue.MaxLarge))
	q = w.queue("DeadPublish").(*sqsqueue.Queue).WithBodies(bodies, func(*queue.Delivery) bool { return true })
	send(t, q, wire.ToDeadLetter(effect, queue.MaxLarge))
	if got, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{Queue: "publish-dead", Stream: "orders"}); err != nil || len(got) != 1 ||
		got[0].ID != "orders/g/1" || got[0].Group != "g" || got[0].Destination != "shop" || got[0].Detail != "" {
		t.Errorf("effects: %+v, %v", got, err)
	}
	look := func(content int) admin.DeadLetter {
		t.Helper()
		got, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{Queue: "ingress-dead", Content: content})
		if err != nil || len(got) != 1 || got[0].ID != "o-1" || got[0].Stream != "orders" || got[0].Reason != string(record.ReasonHandler) {
			t.Fatalf("%+v, %v", got, err)
		}
		return got[0]
	}
	if l := look(10); l.Content.Bytes != record.MaxBody || !l.Content.Truncated || l.Detail != "as it says" {
		t.Errorf("content of %d bytes: %+v", l.Content.Bytes, l)
	}
	lose()
	if l := look(0); l.Detail != "as it says" || l.Content != nil {
		t.Errorf("%+v", l)
	}
	if l := look(10); !strings.Contains(l.Detail, "no such object") || l.Content.Bytes > 0 {
		t.Errorf("%+v", l)
	}
}
