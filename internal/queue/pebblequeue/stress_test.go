package pebblequeue

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/queue"
)

// A ledger checks the received messages against the sent ones: the first deliveries of a group's
// messages are in order, and no message of a group is received while another call holds one.
type ledger struct {
	mu     sync.Mutex
	seen   map[string]int  // the highest number delivered, by group
	held   map[string]bool // groups in flight
	left   int
	faults []string
	done   chan struct{}
}

func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func (l *ledger) take(batch []queue.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	groups := map[string]bool{}
	for _, d := range batch {
		var n int
		if _, err := fmt.Sscan(d.Body, &n); err != nil {
			l.fault("body %q", d.Body)
		}
		if n > l.seen[d.Group]+1 {
			l.fault("group %s: %d came after %d", d.Group, n, l.seen[d.Group])
		}
		l.seen[d.Group] = max(l.seen[d.Group], n)
		if l.held[d.Group] {
			l.fault("group %s was in flight already", d.Group)
		}
		groups[d.Group] = true
	}
	for g := range groups {
		l.held[g] = true
	}
}

func (l *ledger) release(batch []queue.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range batch {
		delete(l.held, d.Group)
	}
}

func (l *ledger) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left--; l.left == 0 {
		close(l.done)
	}
}

// consume deletes some messages, and makes the rest of each group visible from its first failure
// on.
func (l *ledger) consume(t *testing.T, q *Queue) {
	for {
		select {
		case <-l.done:
			return
		default:
		}
		batch, err := q.Receive(t.Context(), 1+rand.IntN(5), time.Minute, 20*time.Millisecond)
		if err != nil {
			t.Errorf("receive: %v", err)
			return
		}
		l.take(batch)
		l.release(batch) // before another receiver can get any of them
		failed := map[string]bool{}
		for _, d := range batch {
			if failed[d.Group] = failed[d.Group] || rand.IntN(4) == 0; failed[d.Group] {
				if err := q.ChangeVisibility(t.Context(), d.Receipt, time.Duration(rand.IntN(2))*time.Millisecond); err != nil {
					t.Errorf("give back: %v", err)
				}
				continue
			}
			if err := q.Delete(t.Context(), []string{d.Receipt})[0]; err != nil {
				t.Errorf("delete: %v", err)
			}
			l.settle()
		}
	}
}

func TestManySendersAndConsumersKeepEveryGroupInOrder(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	const groups, each = 8, 60
	l := &ledger{seen: map[string]int{}, held: map[string]bool{}, left: groups * each, done: make(chan struct{})}
	var all sync.WaitGroup
	for g := range groups {
		all.Go(func() {
			for n := 1; n <= each; n++ {
				send := q.Send
				if rand.IntN(2) == 0 {
					send = q.SendOrdered
				}
				if r := send(t.Context(), []queue.Message{{Body: fmt.Sprint(n), Group: fmt.Sprint("g", g)}}); r[0].Err != nil {
					t.Errorf("send: %v", r[0].Err)
				}
			}
		})
	}
	for range 6 {
		all.Go(func() { l.consume(t, q) })
	}
	all.Wait()
	for _, f := range l.faults {
		t.Error(f)
	}
	if n := q.Len(); n != 0 {
		t.Errorf("%d messages left", n)
	}
}
