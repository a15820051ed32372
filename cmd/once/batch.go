package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/effectively-once/once/client"
)

// tally counts the messages of a file by their result.
type tally struct {
	// Lines is how many lines contained a message.
	Lines int `json:"lines"`
	// Accepted are new messages; Replayed are messages that the server had before.
	Accepted int `json:"accepted"`
	Replayed int `json:"replayed"`
	// Failed are messages that the server refused.
	Failed int `json:"failed"`
	// Unacknowledged are messages without an answer, or that were not sent: send them again under
	// the same keys.
	Unacknowledged int `json:"unacknowledged"`
}

// batch sends many messages concurrently, but those of one group in order.
type batch struct {
	send    func(context.Context, []client.Message) []client.Result
	workers int
	done    func()           // called after each acknowledged or refused message
	refused func(int, error) // called with the line of a refused message
	seed    maphash.Seed     // of the partition
	memory  *semaphore.Weighted
	cancel  context.CancelFunc // ends the run

	mu    sync.Mutex
	tally tally
	fatal error // the error that ended the run
}

// Limits of the messages that were read and are not acknowledged: in one request, in the queue of
// one worker, and in memory, in bytes.
const (
	requestSize = 100
	queueDepth  = 2 * requestSize
	memoryLimit = 32 << 20
)

// weight is about how much memory a message takes, in bytes.
func (l *line) weight() int64 { return int64(len(l.message.Body)) + 1<<10 }

// run sends the messages that next returns, until io.EOF, an error of next, a fatal answer, or the
// end of ctx. Unless ctx has ended, it finishes the messages in progress.
func (b *batch) run(ctx context.Context, next func() (line, error)) (tally, error) {
	ctx, b.cancel = context.WithCancel(ctx)
	defer b.cancel()
	b.seed, b.memory = maphash.MakeSeed(), semaphore.NewWeighted(memoryLimit)
	queues := make([]chan line, b.workers)
	var group sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan line, queueDepth)
		group.Go(func() { b.work(ctx, queues[i]) })
	}
	err := b.deal(ctx, next, queues)
	for _, q := range queues {
		close(q)
	}
	group.Wait()
	t := b.tally
	t.Unacknowledged = t.Lines - t.Accepted - t.Replayed - t.Failed
	return t, errors.Join(b.fatal, err)
}

func (b *batch) deal(ctx context.Context, next func() (line, error), queues []chan line) error {
	for turn := 0; ctx.Err() == nil; turn++ {
		l, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.tally.Lines++
		b.mu.Unlock()
		if b.memory.Acquire(ctx, l.weight()) != nil {
			return nil //nolint:nilerr // ctx has ended, which is no failure of the file
		}
		select {
		case queues[b.partition(l, turn)] <- l:
		case <-ctx.Done():
		}
	}
	return nil
}

// partition selects the worker of a message: the same for messages with an order among them,
// otherwise one after the other.
func (b *batch) partition(l line, turn int) int {
	name := l.message.Group
	if name == "" {
		name = cmp.Or(l.message.Source, l.message.Key)
	}
	if name == "" {
		return turn % b.workers
	}
	return int(maphash.String(b.seed, name) % uint64(b.workers)) //nolint:gosec // smaller than workers
}

// work sends the messages in its queue, up to requestSize in one request.
func (b *batch) work(ctx context.Context, queue <-chan line) {
	for l := range queue {
		lines := waiting(queue, []line{l})
		if ctx.Err() != nil {
			continue // empties the queue, so that deal does not block
		}
		messages := make([]client.Message, len(lines))
		for i, l := range lines {
			messages[i] = l.message
		}
		for i, r := range b.send(ctx, messages) {
			b.count(lines[i], r.Receipt, r.Err)
			b.memory.Release(lines[i].weight())
		}
	}
}

// waiting appends the lines that are in the queue now.
func waiting(queue <-chan line, lines []line) []line {
	for len(lines) < requestSize {
		select {
		case l, open := <-queue:
			if !open {
				return lines
			}
			lines = append(lines, l)
		default:
			return lines
		}
	}
	return lines
}

// together returns a function that sends messages in one request if the sender can do that,
// otherwise one by one.
func together(c sender) func(context.Context, []client.Message) []client.Result {
	if all, ok := c.(interface {
		SendBatch(context.Context, []client.Message) []client.Result
	}); ok {
		return all.SendBatch
	}
	return func(ctx context.Context, messages []client.Message) []client.Result {
		results := make([]client.Result, len(messages))
		var stopped error // after it, a message could overtake one whose fate is unknown
		for i, m := range messages {
			if results[i].Err = stopped; stopped != nil {
				continue
			}
			results[i].Receipt, results[i].Err = c.Send(ctx, m)
			var p *client.Problem
			if err := results[i].Err; err != nil && (!errors.As(err, &p) || hopeless(p)) {
				stopped = context.Canceled
			}
		}
		return results
	}
}

func (b *batch) count(l line, receipt client.Receipt, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var p *client.Problem // not in the chain of an unacknowledged error
	switch {
	case err == nil && receipt.Replayed:
		b.tally.Replayed++
	case err == nil:
		b.tally.Accepted++
	case errors.As(err, &p) && !hopeless(p):
		b.tally.Failed++
		b.refused(l.number, p)
	default:
		b.end(fmt.Errorf("line %d: %w", l.number, err))
		return
	}
	b.done()
}

// end stops the run at its first fatal error; later errors are consequences.
func (b *batch) end(err error) {
	if b.fatal == nil && !errors.Is(err, context.Canceled) {
		b.fatal = err
	}
	b.cancel()
}

// hopeless reports whether the server would refuse all other messages as well.
func hopeless(p *client.Problem) bool {
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return p.Type == "" // not a once server
}
