package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// An sqsSender sends with the stock AWS SDK, to which the server is an SQS endpoint like any other.
type sqsSender struct {
	client *sqs.Client
	stream string
	urls   map[string]*string
	turn   atomic.Uint32
}

func newSQSSender(t *testing.T, s *server, stream string) *sqsSender {
	t.Helper()
	q := &sqsSender{client: newSQSClient(t, s.url()), stream: stream, urls: map[string]*string{}}
	for _, name := range []string{"ingress", "ingress.fifo", stream, stream + ".fifo"} {
		q.urls[name] = queueURL(t, q.client, name)
	}
	return q
}

// newSQSClient returns a stock client of an endpoint, which retries every error.
func newSQSClient(t *testing.T, endpoint string) *sqs.Client {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	c, err := config.LoadDefaultConfig(t.Context(),
		config.WithSharedConfigFiles([]string{none}), config.WithSharedCredentialsFiles([]string{none}),
		config.WithRegion("us-east-1"),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("test", "test", "")),
		config.WithRetryer(untilAcknowledged),
	)
	must(t, err)
	return sqs.NewFromConfig(c, func(o *sqs.Options) { o.BaseEndpoint = &endpoint })
}

func queueURL(t *testing.T, client *sqs.Client, name string) *string {
	t.Helper()
	out, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: &name})
	must(t, err)
	return out.QueueUrl
}

// untilAcknowledged retries for as long as the server is down.
func untilAcknowledged() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		// a test ends by its own deadline
		o.MaxAttempts, o.RateLimiter = math.MaxInt32, ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) {
			return 10*time.Millisecond + rand.N(100*time.Millisecond), nil
		})
	})
}

// A way is a queue, and how it names a message's group and identity.
type way struct {
	queue string
	fifo  bool // group and identity are attributes of SQS
	bound bool // the queue belongs to the stream
}

// ways returns the queues of a stream: two, and two more if queues are bound to it.
func (q *sqsSender) ways() []way {
	ways := []way{{"ingress", false, false}, {"ingress.fifo", true, false}}
	if q.urls[q.stream] != nil {
		ways = append(ways, way{q.stream, false, true}, way{q.stream + ".fifo", true, true})
	}
	return ways
}

// sendBatch sends up to ten messages to one of the queues, a single one by itself, until all are
// acknowledged.
func (q *sqsSender) sendBatch(ctx context.Context, batch []sent) error {
	ways := q.ways()
	w := ways[q.turn.Add(1)%uint32(len(ways))]
	if len(batch) == 1 {
		return q.send(ctx, w, batch[0])
	}
	for len(batch) > 0 {
		entries := make([]types.SendMessageBatchRequestEntry, len(batch))
		for i, m := range batch {
			entries[i] = q.entry(w, i, m)
		}
		out, err := q.client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: q.urls[w.queue], Entries: entries})
		if err != nil {
			return err
		}
		var again []sent
		for _, f := range out.Failed {
			if f.SenderFault {
				return fmt.Errorf("entry %s: %s: %s", *f.Id, *f.Code, aws.ToString(f.Message))
			}
			i, err := strconv.Atoi(*f.Id)
			if err != nil {
				return err
			}
			again = append(again, batch[i])
		}
		batch = again
	}
	return nil
}

// send sends one message to one of the queues until it is acknowledged.
func (q *sqsSender) send(ctx context.Context, w way, m sent) error {
	e := q.entry(w, 0, m)
	_, err := q.client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: q.urls[w.queue], MessageBody: e.MessageBody, MessageAttributes: e.MessageAttributes,
		MessageGroupId: e.MessageGroupId, MessageDeduplicationId: e.MessageDeduplicationId,
	})
	return err
}

func (q *sqsSender) entry(w way, i int, m sent) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(m.body))}
	attributes := map[string]string{"once-source": m.source, "Content-Type": m.contentType}
	maps.Copy(attributes, m.headers)
	if m.sequence > 0 {
		attributes["once-sequence"] = strconv.FormatUint(m.sequence, 10)
	}
	deduplication := m.identity()
	if !w.bound { // SQS drops a message with the group and the deduplication id of another stream's
		attributes["once-stream"], attributes["once-id"] = q.stream, m.id
		deduplication = q.stream + "/" + deduplication
	}
	if w.fifo {
		e.MessageGroupId, e.MessageDeduplicationId = aws.String(m.groupName()), &deduplication
	} else {
		attributes["once-id"], attributes["once-group"] = m.id, m.group
	}
	e.MessageAttributes = map[string]types.MessageAttributeValue{}
	for name, value := range attributes {
		if value != "" {
			e.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String(value)}
		}
	}
	return e
}

// groupName returns the group of a message.
func (m *sent) groupName() string {
	switch {
	case m.group != "":
		return m.group
	case m.source != "":
		return m.source
	}
	return m.id
}

// batches cuts a load into batches of one to ten messages.
func batches(random *rand.Rand, load []sent) [][]sent {
	var out [][]sent
	for len(load) > 0 {
		n := min(1+random.IntN(10), len(load))
		out = append(out, load[:n])
		load = load[n:]
	}
	return out
}

// textual converts messages to those that SQS can carry: it accepts only text, and there every
// message has a group.
func textual(list []sent) []sent {
	for i := range list {
		m := &list[i]
		if !utf8.Valid(m.body) {
			m.contentType, m.body = "text/plain", []byte(base64.StdEncoding.EncodeToString(m.body))
		}
		m.group = m.groupName()
	}
	return list
}

func TestASenderBySQSNamesItsStreamWhereTwoShareAQueue(t *testing.T) {
	m := sent{id: "order-1", group: "ann"}
	ids := map[string]bool{}
	for _, stream := range []string{"stock", "bills"} {
		q := sqsSender{stream: stream}
		ids[*q.entry(way{queue: "ingress.fifo", fifo: true}, 0, m).MessageDeduplicationId] = true
	}
	if len(ids) != 2 {
		t.Errorf("both streams send %v: SQS drops the second message", ids)
	}
}
