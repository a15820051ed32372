package main

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/queue"
)

// sender is the SenderId of senders to a broker; the functions trust it, as they trust each other.
const sender = "faults"

// offerPause is how long a receiver waits before it asks for another new message.
const offerPause = 100 * time.Millisecond

// A broker holds queues with at-least-once delivery: a received message is hidden for the
// visibility timeout, and redelivered unless it was deleted by then. Of a message group of a
// first-in-first-out queue only one message is delivered at a time.
type broker struct {
	visibility time.Duration

	mu      sync.Mutex
	items   []*item
	changed chan struct{} // closed at the next change
	known   map[string]bool
}

// An item is a message on a queue.
type item struct {
	queue.Delivery
	queue   string
	visible time.Time
}

func newBroker(visibility time.Duration) *broker {
	return &broker{visibility: visibility, changed: make(chan struct{}), known: map[string]bool{}}
}

// send puts a message on a queue, unless its deduplication id is known there.
func (b *broker) send(name string, m queue.Message) queue.SendResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := rand.Text()
	if dedup := name + "\x1f" + m.Group + "\x1f" + m.DedupID; queue.FIFO(name) && m.DedupID != "" {
		if b.known[dedup] {
			return queue.SendResult{ID: id}
		}
		b.known[dedup] = true
	}
	m.Sender = sender
	b.items = append(b.items, &item{queue: name, visible: time.Now().Add(m.Delay), Delivery: queue.Delivery{Message: m, ID: id, Sent: time.Now()}})
	b.wake()
	return queue.SendResult{ID: id}
}

func (b *broker) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// receive waits for a message of a queue whose name begins so, and asks for another one to be sent
// where none is there; it asks again from time to time. Nothing is an end of the context.
func (b *broker) receive(ctx context.Context, prefix string, offer func() bool) (item, bool) {
	for ctx.Err() == nil {
		got, wait, changed := b.take(prefix)
		if got != nil {
			return *got, true
		}
		if offer() {
			continue
		}
		timer := time.NewTimer(min(wait, offerPause))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return item{}, false
}

// take returns a message if one is visible. Otherwise it returns how long to wait for one, or for a
// change.
func (b *broker) take(prefix string) (got *item, wait time.Duration, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, blocked := time.Now(), map[string]bool{}
	wait = b.visibility
	for _, i := range b.items {
		group := i.queue + "\x1f" + i.Group
		if !strings.HasPrefix(i.queue, prefix) || blocked[group] {
			continue
		}
		if left := i.visible.Sub(now); left > 0 {
			wait = min(wait, left)
			blocked[group] = queue.FIFO(i.queue)
			continue
		}
		i.visible = now.Add(b.visibility)
		i.Receives++
		i.Receipt = i.ID + "/" + strconv.Itoa(i.Receives)
		copied := *i
		return &copied, 0, nil
	}
	return nil, wait, b.changed
}

// remove acknowledges a delivery, unless its receipt is outdated: after the visibility timeout.
func (b *broker) remove(receipt string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, i := range b.items {
		if i.Receipt == receipt && time.Now().Before(i.visible) {
			b.items = append(b.items[:at], b.items[at+1:]...)
			b.wake()
			return
		}
	}
}

// left returns the number of messages in the queues with a prefix.
func (b *broker) left(prefix string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, i := range b.items {
		if strings.HasPrefix(i.queue, prefix) {
			n++
		}
	}
	return n
}
