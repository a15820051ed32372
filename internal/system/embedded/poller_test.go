package embedded

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/queue"
)

func TestABatchOfLargeMessagesIsFollowedByOneOfFewer(t *testing.T) {
	batch := func(sizes ...int) (out []queue.Delivery) {
		for _, size := range sizes {
			out = append(out, queue.Delivery{Message: queue.Message{Body: strings.Repeat("x", size)}})
		}
		return out
	}
	for want, sizes := range map[int][]int{
		pollBatch: {1}, 64: {256 << 10, 256 << 10}, 11: {1400 << 10}, 23: {1400 << 10, 1000}, 1: {pollBytes + 1},
	} {
		if got := nextBatch(batch(sizes...)); got != want {
			t.Errorf("after %v: %d, want %d", sizes, got, want)
		}
	}
}

// A fed queue delivers the messages that a test sends. It has no other methods.
type fed struct {
	queue.Queue
	messages chan string
}

func (f fed) Receive(ctx context.Context, _ int, _, _ time.Duration) ([]queue.Delivery, error) {
	select {
	case body := <-f.messages:
		return []queue.Delivery{{Message: queue.Message{Body: body}}}, nil
	case <-ctx.Done():
		return nil, nil
	}
}

func (f fed) Delete(context.Context, []string) []error { return nil }

func TestABatchWhoseHandlerHangsStopsNoOtherBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		messages, handled := make(chan string, 10), make(chan string, 10)
		p := &poller{queue: fed{messages: messages}, log: slog.New(slog.DiscardHandler), wrote: func() {}, longest: func() time.Duration { return 0 }, parts: whole, handle: func(ctx context.Context, batch []queue.Delivery) []queue.Disposition {
			if batch[0].Body == "hangs" {
				<-ctx.Done()
			}
			handled <- batch[0].Body
			return make([]queue.Disposition, 1)
		}}
		ctx, cancel := context.WithCancel(t.Context())
		handling, halt := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); p.run(ctx, handling) }()
		begun := time.Now()
		messages <- "hangs"
		messages <- "hangs"
		messages <- "works"
		if got := <-handled; got != "works" || time.Since(begun) > 5*time.Second {
			t.Errorf("%q is handled first, after %v; want the message behind those that hang", got, time.Since(begun))
		}
		cancel()
		halt()
		<-over
		if len(handled) != 2 {
			t.Errorf("%d batches are done at the end, want that run waits for 2", len(handled))
		}
	})
}
