package faultproxy_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/queue"
)

// A line is a queue in memory. A received message is redelivered when its receiver releases it.
type line struct {
	name string

	mu      sync.Mutex
	last    int
	waiting []*place
}

type place struct {
	queue.Delivery
	taken bool
}

var _ queue.Queue = (*line)(nil)

func (l *line) Name() string { return l.name }

func (l *line) Send(_ context.Context, messages []queue.Message) []queue.SendResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		l.last++
		id := strconv.Itoa(l.last)
		l.waiting = append(l.waiting, &place{Delivery: queue.Delivery{Message: m, Queue: l.name, ID: id, Receipt: id, SequenceNumber: id}})
	}
	return make([]queue.SendResult, len(messages))
}

// Receive returns the messages that are ready; of a group of a FIFO line one at a time. It does not
// wait.
func (l *line) Receive(_ context.Context, limit int, _, _ time.Duration) ([]queue.Delivery, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	blocked := map[string]bool{}
	var out []queue.Delivery
	for _, p := range l.waiting {
		free := !p.taken && (!queue.FIFO(l.name) || !blocked[p.Group])
		blocked[p.Group] = blocked[p.Group] || p.taken
		if !free || p.Delay > 0 || len(out) == limit {
			continue
		}
		p.taken = true
		p.Receives++
		out = append(out, p.Delivery)
	}
	return out, nil
}

func (l *line) Delete(_ context.Context, receipts []string) []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(p *place) bool { return slices.Contains(receipts, p.Receipt) })
	return make([]error, len(receipts))
}

func (l *line) ChangeVisibility(_ context.Context, receipt string, _ time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.waiting {
		if p.Receipt == receipt {
			p.taken = false
		}
	}
	return nil
}

// again returns a second copy of each message in flight, as a queue does after the visibility
// timeout.
func (l *line) again(limit int) []queue.Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []queue.Delivery
	for _, p := range l.waiting {
		if p.taken && len(out) < limit {
			out = append(out, p.Delivery)
		}
	}
	return out
}

// pass makes all delayed messages ready.
func (l *line) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.waiting {
		p.Delay = 0
	}
}

func (l *line) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}
