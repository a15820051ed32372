package embedded

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/queue"
)

// Settings of the pollers. In a deployment, the event source mappings and the queues have them.
const (
	pollBatch = 100
	// pollFirst is the size of the first batch: nobody knows how large the messages are.
	pollFirst = 10
	// pollBytes is how much a batch should have at most, because it is in memory several times.
	pollBytes      = 16 << 20
	pollVisibility = 60 * time.Second
	// of one batch; shorter than the visibility, or two would work on it
	pollTimeout = 30 * time.Second
	pollWait    = 20 * time.Second
	retryPause  = time.Second // if the function leaves it to the queue
	// pollPatience is how long a poller waits for a batch. After that it polls beside the batch, so
	// that a handler which hangs does not stop the other streams.
	pollPatience = time.Second
	// pollSlow is how many batches of one poller may take longer.
	pollSlow = 4
)

// A poller feeds a function from a queue, as Lambda's event source mapping does.
type poller struct {
	queue  queue.Queue
	handle queue.Handler
	log    *slog.Logger
	wrote  func() // called when something was written
}

// run polls until the context ends. The batches that are under way then are finished.
func (p *poller) run(ctx context.Context) {
	most := pollFirst
	slow := make(chan struct{}, pollSlow)
	var serving sync.WaitGroup
	defer serving.Wait()
	for ctx.Err() == nil {
		batch, err := p.queue.Receive(ctx, most, pollVisibility, pollWait)
		if err != nil {
			if ctx.Err() == nil {
				p.log.Error("queue not readable", "queue", p.queue.Name(), "error", err)
				_ = backoff.Sleep(ctx, time.Second) // the loop looks at ctx
			}
			continue
		}
		if len(batch) == 0 {
			continue
		}
		most = nextBatch(batch)
		done := make(chan struct{})
		serving.Go(func() {
			defer close(done)
			p.serve(context.WithoutCancel(ctx), batch)
		})
		if wait(done, slow) {
			serving.Go(func() { <-done; <-slow })
		}
	}
}

// wait waits until a batch is done. If that takes long, and there is a place for a slow batch, it
// takes the place and returns true.
func wait(done <-chan struct{}, slow chan<- struct{}) bool {
	timer := time.NewTimer(pollPatience)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
	}
	select {
	case <-done:
		return false
	case slow <- struct{}{}:
		return true
	}
}

// nextBatch returns how many messages of the size of these may be in the next batch.
func nextBatch(batch []queue.Delivery) int {
	size := 0
	for i := range batch {
		size += batch[i].Size()
	}
	return min(max(pollBytes*len(batch)/max(size, 1), 1), pollBatch)
}

// serve calls the function with a batch, acknowledges the settled deliveries, and returns the
// others to the queue.
func (p *poller) serve(ctx context.Context, batch []queue.Delivery) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	var settled []string
	for i, disposition := range p.handle(ctx, batch) {
		if disposition.Retry {
			p.giveBack(ctx, &batch[i], disposition.Pause)
			continue
		}
		settled = append(settled, batch[i].Receipt)
	}
	defer p.wrote()
	crash("before-acknowledge")
	errs := p.queue.Delete(ctx, settled)
	crash("after-acknowledge")
	for _, err := range errs {
		if err != nil {
			p.log.Error("message not acknowledged; it will be redelivered", "queue", p.queue.Name(), "error", err)
		}
	}
}

// giveBack hides a message until its next delivery.
func (p *poller) giveBack(ctx context.Context, d *queue.Delivery, pause time.Duration) {
	if err := p.queue.ChangeVisibility(ctx, d.Receipt, cmp.Or(pause, retryPause)); err != nil {
		p.log.Warn("message stays hidden for its visibility time", "queue", p.queue.Name(), "error", err)
	}
}
