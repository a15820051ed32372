package embedded

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
)

// Settings of the pollers. In a deployment, the event source mappings and the queues have them.
const (
	pollBatch = 100
	// pollFirst is the size of the first batch: nobody knows how large the messages are.
	pollFirst = 10
	// pollBytes is how much a batch should have at most, because it is in memory several times.
	pollBytes = 16 << 20
	// in addition to the longest timeout of a handler
	pollVisibility = 60 * time.Second
	// of one batch; shorter than the visibility, or two would work on it
	pollTimeout = 30 * time.Second
	// pollStarting is how long the handlers of a batch may start. Each then has its own timeout.
	pollStarting = pollTimeout - 2*time.Second
	pollWait     = 20 * time.Second
	retryPause   = time.Second // if the function leaves it to the queue
	// pollPatience is how long a poller waits for a batch. After that it polls beside the batch, so
	// that a handler which hangs does not stop the other streams.
	pollPatience = time.Second
	// pollSlow bounds the bytes of the batches of one poller that take longer. How many handlers
	// run is bounded by their concurrency.
	pollSlow = 32 << 20
	// pollOverhead is about what a delivery takes besides its body, in bytes.
	pollOverhead = 4 << 10
)

// A poller feeds a function from a queue, as Lambda's event source mapping does.
type poller struct {
	queue  queue.Queue
	handle queue.Handler
	log    *slog.Logger
	wrote  func() // called when something was written
	// longest returns the longest time that a handler may take in addition to that of a batch.
	longest func() time.Duration
	// parts splits a batch into those that are handled and acknowledged each by itself.
	parts func([]queue.Delivery) [][]queue.Delivery
}

// run polls until the context ends. The batches that are under way then are finished, at the latest
// when handling ends.
func (p *poller) run(ctx, handling context.Context) {
	most := pollFirst
	slow := semaphore.NewWeighted(pollSlow)
	var serving sync.WaitGroup
	defer serving.Wait()
	for ctx.Err() == nil {
		batch, err := p.queue.Receive(ctx, most, pollVisibility+p.longest(), pollWait)
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
		done, end := context.WithCancel(context.WithoutCancel(ctx))
		serving.Go(func() {
			defer end()
			var parts sync.WaitGroup
			for _, part := range p.parts(batch) {
				parts.Go(func() { p.serve(handling, part) })
			}
			parts.Wait()
		})
		if size := min(int64(sizeOf(batch)+pollOverhead*len(batch)), pollSlow); isSlow(done, slow, size) {
			serving.Go(func() { <-done.Done(); slow.Release(size) })
		}
	}
}

// isSlow waits until a batch is done. If that takes long, and slow batches have so many bytes left,
// it takes them and returns true.
func isSlow(done context.Context, slow *semaphore.Weighted, size int64) bool {
	timer := time.NewTimer(pollPatience)
	defer timer.Stop()
	select {
	case <-done.Done():
		return false
	case <-timer.C:
	}
	return slow.Acquire(done, size) == nil
}

func sizeOf(batch []queue.Delivery) (size int) {
	for i := range batch {
		size += batch[i].Size()
	}
	return size
}

// nextBatch returns how many messages of the size of these may be in the next batch.
func nextBatch(batch []queue.Delivery) int {
	return min(max(pollBytes*len(batch)/max(sizeOf(batch), 1), 1), pollBatch)
}

// serve calls the function with a batch, acknowledges the settled deliveries, and returns the
// others to the queue.
func (p *poller) serve(handling context.Context, batch []queue.Delivery) {
	ctx := context.WithoutCancel(handling)
	var settled []string
	for i, disposition := range p.handle(handling, batch) {
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

// whole is the parts of a batch that is not split.
func whole(batch []queue.Delivery) [][]queue.Delivery { return [][]queue.Delivery{batch} }

// apart splits a batch of messages. A group is not delivered again before its messages are
// acknowledged, so the groups of a stream whose handler may take longer than [pollStarting] are
// handled each by itself; all others are handled together, which costs fewer writes.
func (g *generation) apart(batch []queue.Delivery) [][]queue.Delivery {
	if g.pipeline.Longest() <= pollStarting {
		return whole(batch)
	}
	var together []queue.Delivery
	var parts [][]queue.Delivery
	place := map[string]int{}
	for i := range batch {
		d := &batch[i]
		stream := d.Attributes[wire.AttrStream]
		if g.pipeline.Timeout(stream) <= pollStarting {
			together = append(together, *d)
			continue
		}
		group := stream + "/" + cmp.Or(d.Group, d.Attributes[wire.AttrGroup], d.Attributes[wire.AttrSource], d.ID)
		if _, ok := place[group]; !ok {
			place[group], parts = len(parts), append(parts, nil)
		}
		parts[place[group]] = append(parts[place[group]], *d)
	}
	if len(together) > 0 {
		parts = append(parts, together)
	}
	return parts
}
