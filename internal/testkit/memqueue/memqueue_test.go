package memqueue_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/queuetest"
	"github.com/effectively-once/once/internal/testkit/memqueue"
)

func TestAQueueBehavesAsSQS(t *testing.T) { queuetest.Run(t, harness()) }

func TestHistoriesAreLinearizable(t *testing.T) { queuetest.Histories(t, harness(), 5_000) }

func harness() queuetest.Harness {
	var mu sync.Mutex
	now, n := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	return queuetest.Harness{
		Exact: true, NoDeduplication: true,
		Advance: func(_ *testing.T, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(d)
		},
		New: func(_ *testing.T, o queuetest.Options) queue.Queue {
			n++
			name := fmt.Sprintf("q%d", n)
			if o.FIFO {
				name += ".fifo"
			}
			options := memqueue.Options{Now: clock, MaxReceives: o.MaxReceives}
			if o.DeadLetter != nil {
				options.DeadLetter = o.DeadLetter.(*memqueue.Queue)
			}
			return memqueue.New(name, options)
		},
	}
}

func TestTheDeepestLengthIsKept(t *testing.T) {
	q := memqueue.New("q", memqueue.Options{})
	q.Send(t.Context(), []queue.Message{{Body: "a"}, {Body: "b"}})
	got, err := q.Receive(t.Context(), 10, time.Minute, 0)
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	q.Delete(t.Context(), []string{got[0].Receipt})
	if q.Len() != 1 || q.Deepest() != 2 {
		t.Errorf("%d messages, at most %d", q.Len(), q.Deepest())
	}
}
