package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// slow takes 200 ms for each delivery.
type slow struct{ posted map[string]int }

func (s *slow) Send(ctx context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	for i, d := range deliveries {
		select {
		case <-time.After(200 * time.Millisecond): // virtual time: only called in a bubble
			s.posted[d.Identity]++
		case <-ctx.Done():
			errs[i] = ctx.Err()
		}
	}
	return errs
}

func TestWithGraceOutlivesItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ending, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Hour))
		defer cancel()
		live, cancel := context.WithCancel(t.Context())
		defer cancel()
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for name, c := range map[string]struct {
			ctx  context.Context
			more time.Duration // 0: forever
		}{
			"one that ends in a second": {ending, 2500 * time.Millisecond}, "one that is over for long": {over, 100 * time.Millisecond}, "one that does not end": {live, 0},
			"one that was cancelled": {cancelled, 1500 * time.Millisecond}, "one that nobody ends": {context.Background(), 0},
		} {
			grace, cancel := outbox.WithGrace(c.ctx)
			deadline, ends := grace.Deadline()
			if more := time.Until(deadline); grace.Err() != nil || ends != (c.more > 0) || ends && more != c.more {
				t.Errorf("%s: ends %v, in %v, %v", name, ends, more, grace.Err())
			}
			cancel()
		}
	})
}

func TestAPublisherThatExceedsItsDeadlineMakesProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, sender := memstore.New(time.Now), &slow{posted: map[string]int{}}
		p := outbox.New(outbox.Config{Store: store, Senders: map[string]record.Sender{"out": sender}, Now: time.Now, Observe: func(record.Event) {}})
		g := record.Group{Key: record.GroupKey{Stream: "s", Group: "g"}, Incarnation: 1, Version: 1, Last: 10}
		for n := uint64(1); n <= 10; n++ {
			g.Pending = append(g.Pending, record.Pending{Number: n, Identity: fmt.Sprint(n), Effects: []record.Effect{{To: []string{"out"}}}})
		}
		if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: g.Key}, Next: g}); err != nil {
			t.Fatal(err)
		}
		tries := 0
		for err := context.DeadlineExceeded; err != nil; tries++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second-time.Millisecond)
			err = p.Publish(ctx, []record.GroupKey{g.Key})[0]
			cancel()
			if tries > 10 {
				t.Fatalf("no end: %v", sender.posted)
			}
		}
		for identity, n := range sender.posted {
			if n > 1 {
				t.Errorf("%s was posted %d times", identity, n)
			}
		}
		if len(sender.posted) != 10 {
			t.Errorf("posted %v", sender.posted)
		}
	})
}

// flaky returns err for each delivery.
type flaky struct{ err error }

func (f *flaky) Send(_ context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	for i := range errs {
		errs[i] = f.err
	}
	return errs
}

func TestAMessageIsObservedAsPublishedWhenAllOfItIsSent(t *testing.T) {
	store, side, events := memstore.New(time.Now), &flaky{errors.New("away")}, []record.Event{}
	p := outbox.New(outbox.Config{
		Store: store, Senders: map[string]record.Sender{"out": &flaky{}, "side": side}, Now: time.Now, Observe: func(e record.Event) { events = append(events, e) },
	})
	g := record.Group{Key: record.GroupKey{Stream: "s", Group: "g"}, Incarnation: 1, Version: 1, Last: 1}
	g.Pending = []record.Pending{{Number: 1, Identity: "1", Effects: []record.Effect{{To: []string{"out", "side"}}}}}
	if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: g.Key}, Next: g}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{0, 1} {
		err := p.Publish(t.Context(), []record.GroupKey{g.Key})[0]
		if (err == nil) != (side.err == nil) || len(events) != want {
			t.Errorf("observed %v, want %d; %v", events, want, err)
		}
		side.err = nil
	}
	if len(events) == 1 && (events[0].Name != record.EventPublished || events[0].Count != 1) {
		t.Errorf("observed %v", events)
	}
}

func TestOfManyEffectsBehindAFailedOnePublishReturnsOneError(t *testing.T) {
	away := errors.New("away")
	for name, errs := range map[string][]error{
		"a failed one and those behind it": {away, record.ErrBlocked, record.ErrBlocked},
		"behind one that was sent before":  {record.ErrBlocked, record.ErrBlocked, record.ErrBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New(time.Now)
			p := outbox.New(outbox.Config{Store: store, Senders: map[string]record.Sender{"out": &canned{errs: errs}}, Now: time.Now})
			g := record.Group{Key: record.GroupKey{Stream: "s", Group: "g"}, Incarnation: 1, Version: 1, Last: 3}
			g.Pending = []record.Pending{{Number: 1, Identity: "1", Effects: slices.Repeat([]record.Effect{{To: []string{"out"}}}, 3)}}
			if err := store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: g.Key}, Next: g}); err != nil {
				t.Fatal(err)
			}
			err := p.Publish(t.Context(), []record.GroupKey{g.Key})[0]
			if err == nil || strings.Count(err.Error(), "send to out") != 1 {
				t.Errorf("error %v", err)
			}
		})
	}
}
