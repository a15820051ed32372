package sqsqueue_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/blob/s3blob"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/queuetest"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// TestMain lets all cases wait concurrently, unless the command line sets the number: they take the
// time of visibility timeouts, not of a processor.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", "64"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// again repeats a call whose connection broke, regardless of the client's retries.
func again(o *sqs.Options) { o.RetryMaxAttempts = retry.DefaultMaxAttempts }

// create makes a queue and deletes it when the test ends.
func create(t *testing.T, client *sqs.Client, o queuetest.Options) queue.Queue {
	t.Helper()
	name, attributes := rand.Text(), map[string]string{}
	if o.FIFO {
		name += ".fifo"
	}
	if o.DeadLetter != nil {
		policy, err := json.Marshal(map[string]string{
			"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:" + o.DeadLetter.Name(), "maxReceiveCount": strconv.Itoa(o.MaxReceives),
		})
		if err != nil {
			t.Fatal(err)
		}
		attributes["RedrivePolicy"] = string(policy)
	}
	return sqsqueue.New(client, awstest.Queue(t, client, name, attributes, again))
}

var long = flag.Bool("long", false, "make histories of a million operations; it takes half an hour and more: give it -timeout 6h")

func TestQueue(t *testing.T) { queuetest.Run(t, harness(t)) }

// bucket makes a bucket and returns the bodies in it.
func bucket(t *testing.T) *s3blob.Claims {
	t.Helper()
	client, name := s3.NewFromConfig(awstest.Config(t, "S3")), "test-"+strings.ToLower(rand.Text())
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	bodies := s3blob.NewBodies(client, name)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		names, err := bodies.List(ctx, time.Now().Add(time.Hour))
		if err == nil {
			err = bodies.Delete(ctx, names)
		}
		if err == nil {
			_, err = client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &name})
		}
		if err != nil {
			t.Error(err)
		}
	})
	return bodies
}

func TestQueueWithBodies(t *testing.T) {
	h, bodies := harness(t), bucket(t)
	without := h.New
	h.New = func(t *testing.T, o queuetest.Options) queue.Queue {
		t.Helper()
		return without(t, o).(*sqsqueue.Queue).WithBodies(bodies, func(*queue.Delivery) bool { return true })
	}
	t.Run("cases", func(t *testing.T) { queuetest.Run(t, h) })
	names, err := bodies.List(t.Context(), time.Now().Add(time.Hour))
	if err != nil || len(names) != 2 { // of the two largest messages
		t.Errorf("bodies %q, %v", names, err)
	}
}

func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	// the history must know each try
	h, operations := harness(t, func(o *sqs.Options) { o.RetryMaxAttempts = 1 }), 2_000
	if *long {
		h.Abreast, operations = 64, 1_000_000 // a round waits for a second at its end
	}
	queuetest.Histories(t, h, operations)
}

func harness(t *testing.T, options ...func(*sqs.Options)) queuetest.Harness {
	t.Helper()
	client := sqs.NewFromConfig(awstest.Config(t, "SQS"), options...)
	return queuetest.Harness{
		New: func(t *testing.T, o queuetest.Options) queue.Queue {
			t.Helper()
			return create(t, client, o)
		},
		Advance: wait,
		Lost: func(err error) bool {
			var answer smithy.APIError
			return !errors.As(err, &answer)
		},
		// long enough for an emulator that stands still for some seconds on a busy machine
		Unit: 15 * time.Second, Patience: time.Second, Parallel: true,
		// That case takes five minutes; the test below covers it without waiting.
		NoDeduplication: true,
		// as ElasticMQ has it
		NoSequenceNumbers: true, NewDedupIDs: true, LateReceipts: true, LooseBatches: true,
		Abreast: 16,
	}
}

// wait lets real time pass.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d): // the clock of a queue behind a network can't be moved
	case <-t.Context().Done():
	}
}

func TestARepeatedSendIsRecognisedByItsDeduplicationID(t *testing.T) {
	client := sqs.NewFromConfig(awstest.Config(t, "SQS"))
	q := create(t, client, queuetest.Options{FIFO: true})
	m := queue.Message{Body: "original", Group: "g", DedupID: "1"}
	first := q.Send(t.Context(), []queue.Message{m})[0]
	m.Body = "repeated"
	again := q.Send(t.Context(), []queue.Message{m})[0]
	if first.Err != nil || again != first {
		t.Errorf("first %+v, repeated %+v", first, again)
	}
	got, err := q.Receive(t.Context(), 10, time.Minute, 0)
	if err != nil || len(got) != 1 || got[0].Body != "original" {
		t.Errorf("received %+v, %v", got, err)
	}
}
