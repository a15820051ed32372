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
	send    func(context.Context, client.Message) (client.Receipt, error)
	workers int
	done    func()             // called after each acknowledged or refused message
	refused func(int, error)   // called with the line of a refused message
	seed    maphash.Seed       // of the partition
	cancel  context.CancelFunc // ends the run

	mu    sync.Mutex
	tally tally
	fatal error // the error that ended the run
}

// queueDepth is how many messages are queued for one worker; together with the limit for bodies it
// limits the memory.
const queueDepth = 4

// run sends the messages that next returns, until io.EOF, an error of next, a fatal answer, or the
// end of ctx. Unless ctx has ended, it finishes the messages in progress.
func (b *batch) run(ctx context.Context, next func() (line, error)) (tally, error) {
	ctx, b.cancel = context.WithCancel(ctx)
	defer b.cancel()
	b.seed = maphash.MakeSeed()
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

func (b *batch) work(ctx context.Context, queue <-chan line) {
	for l := range queue {
		if ctx.Err() != nil {
			continue // empties the queue, so that deal does not block
		}
		receipt, err := b.send(ctx, l.message)
		b.count(l, receipt, err)
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
