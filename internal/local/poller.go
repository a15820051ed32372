package local

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/queue"
)

// Settings of the pollers: what the event source mappings of a deployment have as settings of their queues.
const (
	pollBatch      = 100
	pollVisibility = 60 * time.Second
	pollTimeout    = 30 * time.Second // of one batch; shorter than the visibility, or two would work on it
	pollWait       = 20 * time.Second
	retryFirst     = 100 * time.Millisecond
	retryMost      = 30 * time.Second
)

// A poller feeds a function from a queue, as Lambda's event source mapping does.
type poller struct {
	queue  queue.Queue
	event  func([]queue.Delivery) events.SQSEvent
	handle func(context.Context, events.SQSEvent) (events.SQSEventResponse, error)
	log    *slog.Logger
	wrote  func() // is told that something was written
}

// run polls until the context ends. A batch that is under way then is finished.
func (p *poller) run(ctx context.Context) {
	for ctx.Err() == nil {
		batch, err := p.queue.Receive(ctx, pollBatch, pollVisibility, pollWait)
		if err != nil {
			if ctx.Err() == nil {
				p.log.Error("queue not readable", "queue", p.queue.Name(), "error", err)
				pause(ctx, time.Second)
			}
			continue
		}
		if len(batch) > 0 {
			p.serve(context.WithoutCancel(ctx), batch)
		}
	}
}

// serve hands a batch to the function, acknowledges what it settled, and gives the rest back.
func (p *poller) serve(ctx context.Context, batch []queue.Delivery) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	response, err := p.handle(ctx, p.event(batch))
	if err != nil {
		p.log.Error("batch failed", "queue", p.queue.Name(), "count", len(batch), "error", err)
	}
	failed := map[string]bool{}
	for _, f := range response.BatchItemFailures {
		failed[f.ItemIdentifier] = true
	}
	var settled []string
	for _, d := range batch {
		if err != nil || failed[d.ID] {
			p.giveBack(ctx, d)
			continue
		}
		settled = append(settled, d.Receipt)
	}
	defer p.wrote()
	crash("before-acknowledge")
	errs := p.queue.Delete(ctx, settled)
	crash("after-acknowledge")
	for _, err := range errs {
		if err != nil {
			p.log.Error("message not acknowledged; it will come again", "queue", p.queue.Name(), "error", err)
		}
	}
}

// giveBack lets a message come again after a time that doubles with every delivery.
func (p *poller) giveBack(ctx context.Context, d queue.Delivery) {
	delay := min(retryFirst<<min(d.Receives-1, 20), retryMost)
	if err := p.queue.ChangeVisibility(ctx, d.Receipt, delay); err != nil {
		p.log.Warn("message not given back; it comes again when its visibility ends", "queue", p.queue.Name(), "error", err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
