package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
)

// dead returns a dead-letter queue with letters 1, 2, 3 …
func dead(t *testing.T, letters int) *pebblequeue.Queue {
	t.Helper()
	db, err := pebbledb.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := pebblequeue.Open(db, "ingress-dead", pebblequeue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range letters {
		if r := q.Send(t.Context(), []queue.Message{{Body: fmt.Sprint(i + 1)}}); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	return q
}

// walk shows letters and keeps them; it returns their ids.
func walk(t *testing.T, q queue.Queue) (w *deadletter.Walk, shown []string) {
	t.Helper()
	w = &deadletter.Walk{Queue: q}
	through, err := w.Run(t.Context(), func(_ context.Context, l *deadletter.Letter) (deadletter.Verdict, bool) {
		shown = append(shown, l.Body)
		return deadletter.Keep, true
	})
	if err != nil || !through {
		t.Fatalf("through %t, %v", through, err)
	}
	return w, shown
}

func TestRemainingLettersAreHiddenUntilReleased(t *testing.T) {
	q := dead(t, 12)
	w, first := walk(t, q)
	if _, second := walk(t, q); len(first) != 12 || len(second) > 0 {
		t.Errorf("one walk saw %q, another %q", first, second)
	}
	w.Release(t.Context(), time.Minute)
	if _, third := walk(t, q); len(third) != 12 {
		t.Errorf("released, %q are seen", third)
	}
}

func TestTheNextWalkSeesTheLettersThatWereNotShown(t *testing.T) {
	q := dead(t, 5)
	w := &deadletter.Walk{Queue: q}
	through, err := w.Run(t.Context(), func(_ context.Context, l *deadletter.Letter) (deadletter.Verdict, bool) {
		return deadletter.Remove, l.Body != "2"
	})
	if err != nil || through {
		t.Fatalf("through %t, %v", through, err)
	}
	if _, shown := walk(t, q); !cmp.Equal([]string{"3", "4", "5"}, slices.Sorted(slices.Values(shown))) {
		t.Errorf("shown: %q", shown)
	}
}

func TestTheNextWalkSeesTheLettersBeyondTheTimeLimit(t *testing.T) {
	q := dead(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	w := &deadletter.Walk{Queue: q}
	through, err := w.Run(ctx, func(_ context.Context, l *deadletter.Letter) (deadletter.Verdict, bool) {
		if l.Body == "1" {
			return deadletter.Remove, true
		}
		cancel()
		return deadletter.Keep, false
	})
	if err == nil || through {
		t.Fatalf("through %t, %v", through, err)
	}
	if _, shown := walk(t, q); !cmp.Equal([]string{"2", "3"}, slices.Sorted(slices.Values(shown))) {
		t.Errorf("shown: %q", shown)
	}
}

// A sampler is a queue that returns the batches of a test, as SQS samples its servers, and hides
// nothing; at the end it begins again.
type sampler struct {
	queue.Queue
	batches [][]string
	given   int
}

func (s *sampler) Name() string { return "dead" }

func (s *sampler) Receive(context.Context, int, time.Duration, time.Duration) ([]queue.Delivery, error) {
	if s.given > 100 {
		return nil, errors.New("still receiving")
	}
	var out []queue.Delivery
	for _, id := range s.batches[s.given%len(s.batches)] {
		out = append(out, queue.Delivery{ID: id, Message: queue.Message{Body: id}})
	}
	s.given++
	return out, nil
}

func TestRedeliveredLettersDoNotHideWaitingOnes(t *testing.T) {
	// The time for which the first ones were hidden has passed before the last ones are received.
	q := &sampler{batches: [][]string{{"1", "2"}, {"3"}, {"2", "1"}, {"3"}, {"1", "4"}, {"2"}, {"5"}, {}}}
	if _, shown := walk(t, q); !cmp.Equal([]string{"1", "2", "3", "4", "5"}, shown) {
		t.Errorf("shown: %q", shown)
	}
}

func TestAWalkEndsIfLettersAreRedeliveredForever(t *testing.T) {
	q := &sampler{batches: [][]string{{"1", "2"}, {"3"}, {"2", "3"}}}
	if _, shown := walk(t, q); !cmp.Equal([]string{"1", "2", "3"}, shown) {
		t.Errorf("shown: %q", shown)
	}
}
