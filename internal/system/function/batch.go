package function

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/claimcheck"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/system/function/environment"
)

// A pauser hides messages of a queue for a time.
type pauser interface {
	Hide(ctx context.Context, receipts []string, pauses []time.Duration) []error
}

// serveBatch serves an event of SQS. It hides the messages that are to be retried for their pauses;
// the response names them. Without a pause, or if hiding fails, a message is hidden for the rest of
// the queue's visibility timeout.
func (s *System) serveBatch(ctx context.Context, event json.RawMessage, handle queue.Handler) (events.SQSEventResponse, error) {
	var in events.SQSEvent
	if err := json.Unmarshal(event, &in); err != nil {
		return events.SQSEventResponse{}, fmt.Errorf("read event: %w", err)
	}
	batch := deliveries(in)
	// The documented response has an empty list, not null.
	out := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	hidden := map[string]*hiding{}
	dispositions := s.inTurns(ctx, batch, handle)
	for i := range batch {
		disposition := queue.Disposition{Retry: true} // Lambda deletes each message that is not reported
		if i < len(dispositions) {
			disposition = dispositions[i]
		}
		if !disposition.Retry {
			continue
		}
		out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: batch[i].ID})
		if disposition.Pause > 0 {
			h := hidden[batch[i].Queue]
			if h == nil {
				h = &hiding{}
				hidden[batch[i].Queue] = h
			}
			h.receipts, h.pauses = append(h.receipts, batch[i].Receipt), append(h.pauses, disposition.Pause)
		}
	}
	ctx, cancel := s.keep(ctx, func(time.Duration) time.Duration { return hideMargin })
	defer cancel()
	for name, h := range hidden {
		s.hide(ctx, name, h)
	}
	return out, nil
}

// maxBodies is how many bodies from outside of the queue are in memory at a time: as many as a
// batch has without a window.
const maxBodies = 10

// inTurns handles a batch. An event has at most 6 MB, but this does not limit bodies that are kept
// outside of the queue: hundreds of them would not fit into the memory of the function. So a batch
// with more than [maxBodies] of them is handled in several parts. Such a batch comes from a
// standard queue, which has no order. If the time ends, the rest of the batch is retried.
func (s *System) inTurns(ctx context.Context, batch []queue.Delivery, handle queue.Handler) []queue.Disposition {
	var out []queue.Disposition
	for {
		turn := batch[len(out):]
		turn = turn[:turnOf(turn)]
		s.redeem(ctx, turn)
		dispositions := handle(ctx, turn)
		for i := range turn {
			disposition := queue.Disposition{Retry: true}
			if i < len(dispositions) {
				disposition = dispositions[i]
			}
			out = append(out, disposition)
			turn[i].Body = "" // frees the memory
		}
		if len(out) == len(batch) || ctx.Err() != nil {
			return out
		}
	}
}

// turnOf returns how many of the next deliveries are handled together.
func turnOf(rest []queue.Delivery) int {
	bodies := 0
	for i := range rest {
		if _, kept := rest[i].Attributes[claimcheck.Attribute]; !kept {
			continue
		}
		if bodies++; bodies > maxBodies {
			return i
		}
	}
	return len(rest)
}

// redeem reads the bodies that are kept outside of the queue. It leaves half of the time for the
// messages; a body that was not read by then is tried again with its message.
func (s *System) redeem(ctx context.Context, batch []queue.Delivery) {
	ctx, cancel := s.keep(ctx, func(left time.Duration) time.Duration { return left / 2 })
	defer cancel()
	claimcheck.Redeem(ctx, s.bodies.place, s.bodies.trusts, batch)
}

// hideMargin is the time before the function's deadline at which hiding ends: if the function did
// not answer, all messages of the batch would be delivered again.
const hideMargin = 500 * time.Millisecond

// hiding lists the messages to hide of one queue, and the pauses.
type hiding struct {
	receipts []string
	pauses   []time.Duration
}

func (s *System) hide(ctx context.Context, name string, h *hiding) {
	q := s.pauser(name)
	if q == nil {
		return
	}
	errs := q.Hide(ctx, h.receipts, h.pauses)
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		s.log.Warn("messages stay hidden for the visibility timeout of their queue", "queue", name, "error", errs[i])
	}
}

// sqsPauser returns the queue of the deployment with a name, or nil if there is none.
func sqsPauser(client *sqs.Client, urls environment.Queues) func(name string) pauser {
	return func(name string) pauser {
		work := []string{urls.Ingress, urls.IngressFIFO, urls.Publish, urls.PublishFIFO}
		for _, url := range slices.AppendSeq(work, maps.Values(urls.Sources)) {
			if url != "" && path.Base(url) == name {
				return sqsqueue.New(client, url)
			}
		}
		return nil
	}
}

// deliveries returns the messages of an event as their queue would deliver them.
func deliveries(event events.SQSEvent) []queue.Delivery {
	out := make([]queue.Delivery, len(event.Records))
	for i := range event.Records {
		out[i] = delivery(&event.Records[i])
	}
	return out
}

func delivery(m *events.SQSMessage) queue.Delivery {
	d := queue.Delivery{
		Message: queue.Message{
			Body: m.Body, Attributes: make(map[string]string, len(m.MessageAttributes)), Group: m.Attributes["MessageGroupId"],
			DedupID: m.Attributes["MessageDeduplicationId"], Sender: m.Attributes["SenderId"],
		},
		Queue: m.EventSourceARN[strings.LastIndexByte(m.EventSourceARN, ':')+1:],
		ID:    m.MessageId, Receipt: m.ReceiptHandle, SequenceNumber: m.Attributes["SequenceNumber"], Receives: 1,
		Sent: sqsqueue.Time(m.Attributes["SentTimestamp"]), FirstReceived: sqsqueue.Time(m.Attributes["ApproximateFirstReceiveTimestamp"]),
	}
	if n, err := strconv.Atoi(m.Attributes["ApproximateReceiveCount"]); err == nil {
		d.Receives = n
	}
	for name, a := range m.MessageAttributes {
		if a.StringValue == nil {
			d.Binary = append(d.Binary, name)
			continue
		}
		d.Attributes[name] = *a.StringValue
	}
	slices.Sort(d.Binary)
	return d
}
