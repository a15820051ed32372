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

// tally counts the messages of a file by their fate.
type tally struct {
	// Lines that were read and held a message.
	Lines int `json:"lines"`
	// Accepted for the first time; Replayed were known to the server before.
	Accepted int `json:"accepted"`
	Replayed int `json:"replayed"`
	// Failed were refused by the server.
	Failed int `json:"failed"`
	// Unacknowledged have no answer, or were not sent: send them again under the same keys.
	Unacknowledged int `json:"unacknowledged"`
}

// batch sends many messages side by side, those of one group one after the other.
type batch struct {
	send    func(context.Context, client.Message) (client.Receipt, error)
	workers int
	done    func()             // called after each acknowledged or refused message
	refused func(int, error)   // called with the line of a refused message
	seed    maphash.Seed       // of the partition
	cancel  context.CancelFunc // ends the run

	mu    sync.Mutex
	tally tally
	fatal error // what ended the run
}

// queueDepth is how many messages may wait in front of one worker; together with the bodies' limit it bounds the memory.
const queueDepth = 4

// run sends what next gives until io.EOF, an error of next, a fatal answer, or the end of ctx. What is under way is finished, unless ctx has ended.
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

// partition gives messages that have an order among them to the same worker, and all others to one after the other.
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
			continue // empties the queue, so that deal does not wait for ever
		}
		receipt, err := b.send(ctx, l.message)
		b.count(l, receipt, err)
	}
}

func (b *batch) count(l line, receipt client.Receipt, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var p *client.Problem // not in the chain of an unacknowledged one
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

// end stops the run at its first fatal error; the others only follow from it.
func (b *batch) end(err error) {
	if b.fatal == nil && !errors.Is(err, context.Canceled) {
		b.fatal = err
	}
	b.cancel()
}

// hopeless reports whether every other message would be refused as well.
func hopeless(p *client.Problem) bool {
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return p.Type == "" // not a once server
}
