package pebblequeue

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/queuetest"
)

// A clock is moved by tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func openDB(t testing.TB, dir string) *pebble.DB {
	t.Helper()
	db, err := pebbledb.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func newDB(t testing.TB) *pebble.DB {
	t.Helper()
	db := openDB(t, t.TempDir())
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close database: %v", err)
		}
	})
	return db
}

func open(t testing.TB, db *pebble.DB, name string, o Options) *Queue {
	t.Helper()
	q, err := Open(db, name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closed(t, q) })
	return q
}

// closed closes a queue, within a bound.
func closed(t testing.TB, q *Queue) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- q.Close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatalf("queue %s does not close: a call that has returned still counts as under way", q.Name())
		return nil
	}
}

var long = flag.Bool("long", false, "make histories of a million operations on each kind of queue")

func TestAQueueBehavesAsSQS(t *testing.T) { queuetest.Run(t, harness(t)) }

func TestHistoriesAreLinearizable(t *testing.T) {
	operations := 5_000
	if *long {
		operations = 1_000_000
	}
	queuetest.Histories(t, harness(t), operations)
}

func TestAnyHistoryOfCallsMatchesTheModel(t *testing.T) { queuetest.Model(t, harness(t)) }

func harness(t *testing.T) queuetest.Harness {
	t.Helper()
	db, c, n := newDB(t), newClock(), 0
	return queuetest.Harness{
		Exact:   true,
		Advance: func(_ *testing.T, d time.Duration) { c.Advance(d) },
		New: func(t *testing.T, o queuetest.Options) queue.Queue {
			n++
			name := fmt.Sprintf("q%d", n)
			if o.FIFO {
				name += ".fifo"
			}
			options := Options{Now: c.Now, MaxReceives: o.MaxReceives}
			if o.DeadLetter != nil {
				options.DeadLetter = o.DeadLetter.(*Queue)
			}
			if o.Deduplicate {
				options.Deduplicate = 5 * time.Minute
			}
			return open(t, db, name, options)
		},
	}
}
