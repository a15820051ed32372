package host

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/queue"
)

// A Source is an event source mapping: a queue that invokes a function.
type Source struct {
	Queue queue.Queue
	// Visibility is the queue's visibility timeout, after which a failed message is redelivered.
	// Required.
	Visibility time.Duration
	// Batch is the largest number of messages in one invocation. Defaults to 10, the most that
	// Lambda allows for a FIFO queue.
	Batch int
	// Wait is the wait of one receive on the empty queue. Defaults to 20 s.
	Wait time.Duration
	// Again selects the deliveries of a batch that are delivered a second time, in a separate
	// invocation, and the delay after the receipt of the batch. The first invocation that settles a
	// message deletes it. Defaults to none.
	Again func(batch []queue.Delivery) (chosen []queue.Delivery, after time.Duration)
	// Log defaults to discarding.
	Log *slog.Logger
}

func (s Source) withDefaults() Source {
	if s.Batch == 0 {
		s.Batch = 10
	}
	if s.Wait == 0 {
		s.Wait = 20 * time.Second
	}
	if s.Again == nil {
		s.Again = func([]queue.Delivery) ([]queue.Delivery, time.Duration) { return nil, 0 }
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Poll invokes a function until the context ends, as Lambda does with partial batch responses:
// messages that the function does not report are deleted; those that it reports stay in the queue
// and are redelivered when their visibility ends. A batch in progress at the end is finished.
func (s Source) Poll(ctx context.Context, invoke func(context.Context, []byte) ([]byte, error)) {
	s = s.withDefaults()
	working := context.WithoutCancel(ctx)
	var copies sync.WaitGroup
	defer copies.Wait()
	for ctx.Err() == nil {
		batch, err := s.receive(ctx)
		if err != nil || len(batch) == 0 {
			if err != nil && ctx.Err() == nil {
				s.Log.Error("queue not readable", "queue", s.Queue.Name(), "error", err)
				_ = backoff.Sleep(ctx, time.Second) // the loop looks at ctx
			}
			continue
		}
		if again, after := s.Again(batch); len(again) > 0 {
			copies.Go(func() {
				_ = backoff.Sleep(ctx, after) // the loop looks at ctx
				s.serve(working, again, invoke)
			})
		}
		s.serve(working, batch, invoke)
	}
}

// maxReceive is the most messages that one receive returns.
const maxReceive = 10

// receive waits for a message, and returns a batch of those that are in the queue.
func (s Source) receive(ctx context.Context) ([]queue.Delivery, error) {
	batch, err := s.Queue.Receive(ctx, min(s.Batch, maxReceive), s.Visibility, s.Wait)
	for last := len(batch); last == maxReceive && len(batch) < s.Batch; {
		// If it fails, the messages so far are a batch.
		more, _ := s.Queue.Receive(ctx, min(s.Batch-len(batch), maxReceive), s.Visibility, 0)
		batch, last = append(batch, more...), len(more)
	}
	return batch, err
}

// serve invokes the function with a batch and deletes the settled messages.
func (s Source) serve(ctx context.Context, batch []queue.Delivery, invoke func(context.Context, []byte) ([]byte, error)) {
	event, err := json.Marshal(Event("arn:aws:sqs:local:000000000000:"+s.Queue.Name(), batch))
	if err != nil {
		s.Log.Error("event not encoded", "queue", s.Queue.Name(), "error", err)
		return
	}
	answer, err := invoke(ctx, event)
	if err != nil {
		s.Log.Error("batch failed", "queue", s.Queue.Name(), "count", len(batch), "error", err)
		return
	}
	done := settled(batch, answer)
	if len(done) == 0 {
		return
	}
	for _, err := range s.Queue.Delete(ctx, done) {
		if err != nil {
			s.Log.Error("message not deleted", "queue", s.Queue.Name(), "error", err)
		}
	}
}

// settled returns the receipts of the messages that a response does not report. If the response is
// not JSON, or reports a message without an id or one that was not in the batch, nothing is
// settled.
func settled(batch []queue.Delivery, answer []byte) []string {
	var response events.SQSEventResponse
	if len(answer) > 0 && json.Unmarshal(answer, &response) != nil {
		return nil
	}
	receipts := make(map[string]string, len(batch))
	for _, d := range batch {
		receipts[d.ID] = d.Receipt
	}
	failed := map[string]bool{}
	for _, f := range response.BatchItemFailures {
		if receipts[f.ItemIdentifier] == "" {
			return nil
		}
		failed[f.ItemIdentifier] = true
	}
	var out []string
	for _, d := range batch {
		if !failed[d.ID] {
			out = append(out, d.Receipt)
		}
	}
	return out
}
