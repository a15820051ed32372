package lambdahost

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/wire"
)

// A Source is an event source mapping: a queue that feeds a function.
type Source struct {
	Queue queue.Queue
	// Visibility is the queue's visibility timeout: when a message that failed comes again. Required.
	Visibility time.Duration
	// Batch is how many messages one invocation gets. Defaults to 10.
	Batch int
	// Wait is how long one look at the empty queue lasts. Defaults to 20 s.
	Wait time.Duration
	// Again chooses the deliveries of a batch that are handed out a second time, in an invocation of their own, and how long after the batch was received that begins. Whichever
	// invocation settles a message deletes it. Defaults to none.
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

// Poll feeds a function until the context ends, as Lambda does with partial batch responses: what the function does not report is deleted, what it
// reports stays in the queue and comes again when its visibility ends. A batch that is under way at the end is finished.
func (s Source) Poll(ctx context.Context, invoke func(context.Context, []byte) ([]byte, error)) {
	s = s.withDefaults()
	working := context.WithoutCancel(ctx)
	var copies sync.WaitGroup
	defer copies.Wait()
	for ctx.Err() == nil {
		batch, err := s.Queue.Receive(ctx, s.Batch, s.Visibility, s.Wait)
		if err != nil || len(batch) == 0 {
			if err != nil && ctx.Err() == nil {
				s.Log.Error("queue not readable", "queue", s.Queue.Name(), "error", err)
				pause(ctx, time.Second)
			}
			continue
		}
		if again, after := s.Again(batch); len(again) > 0 {
			copies.Go(func() {
				pause(ctx, after)
				s.serve(working, again, invoke)
			})
		}
		s.serve(working, batch, invoke)
	}
}

// serve hands a batch to the function and deletes what that settled.
func (s Source) serve(ctx context.Context, batch []queue.Delivery, invoke func(context.Context, []byte) ([]byte, error)) {
	event, err := json.Marshal(wire.Event("arn:aws:sqs:local:000000000000:"+s.Queue.Name(), batch))
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

// settled gives the receipts of the messages that an answer does not report. An answer that is no JSON, or that reports a message without an id or one
// that was not in the batch, settles nothing.
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

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
