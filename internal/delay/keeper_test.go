package delay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/memdelay"
)

// patience is far more than any of these tests takes.
const patience = 30 * time.Second

// queues record what they get.
type queues struct {
	mu     sync.Mutex
	got    []string // queue/body
	broken map[string]bool
	sent   func() // called before each send, if it is set
	change chan struct{}
}

func newQueues() *queues { return &queues{broken: map[string]bool{}, change: make(chan struct{}, 1)} }

func (q *queues) Send(_ context.Context, name string, messages []queue.Message) []error {
	if q.sent != nil {
		q.sent()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	errs := make([]error, len(messages))
	for i, m := range messages {
		if q.broken[name] || q.broken[m.Body] {
			errs[i] = errors.New("the queue is down")
			continue
		}
		q.got = append(q.got, name+"/"+m.Body)
	}
	select {
	case q.change <- struct{}{}:
	default:
	}
	return errs
}

func (q *queues) repair() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.broken)
}

func (q *queues) all() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return strings.Join(q.got, " ")
}

// await waits until the queues have got exactly this.
func (q *queues) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(patience)
	for q.all() != want {
		select {
		case <-q.change:
		case <-deadline:
			t.Fatalf("the queues got %q, want %q", q.all(), want)
		}
	}
}

// A clock is set by a test, and stands still.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) Advance(d time.Duration) { c.at.Add(int64(d)) }

func item(due time.Time, queueName, body string) delay.Item {
	return delay.Item{Key: delay.Key{Due: due, Name: body}, Queue: queueName, Message: queue.Message{Body: body}}
}

func put(t *testing.T, s delay.Store, items ...delay.Item) {
	t.Helper()
	if err := s.Put(t.Context(), items); err != nil {
		t.Fatalf("put: got %v, want no error", err)
	}
}

func waiting(t *testing.T, s *memdelay.Store) int {
	t.Helper()
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats.Waiting
}

func run(t *testing.T, k *delay.Keeper) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestDueItemsReachTheirQueuesInOrderAndAreDeleted(t *testing.T) {
	store, q, c := memdelay.New(), newQueues(), newClock()
	put(t, store, item(c.Now().Add(2), "b", "late"), item(c.Now(), "a", "3"), item(c.Now().Add(-2), "a", "1"), item(c.Now().Add(-1), "b", "2"))
	var late []time.Duration
	moved, err := delay.NewKeeper(store, q.Send, delay.Options{Now: c.Now, Moved: func(d []time.Duration) { late = append(late, d...) }}).MoveDue(t.Context())
	if err != nil || moved != 3 || q.all() != "a/1 a/3 b/2" || waiting(t, store) != 1 {
		t.Errorf("moved %d (%v), the queues got %q, %d wait; want 3 (no error), a/1 a/3 b/2, 1", moved, err, q.all(), waiting(t, store))
	}
	if fmt.Sprint(late) != "[2ns 0s 1ns]" {
		t.Errorf("lateness %v, want 2ns, 0s and 1ns", late)
	}
}

func TestAnItemIsDeletedOnlyAfterItsQueueHasIt(t *testing.T) {
	store, q, c := memdelay.New(), newQueues(), newClock()
	put(t, store, item(c.Now(), "a", "1"))
	q.sent = func() {
		if n := waiting(t, store); n != 1 {
			t.Errorf("%d items wait while the queue is asked, want 1", n)
		}
	}
	if _, err := delay.NewKeeper(store, q.Send, delay.Options{Now: c.Now}).MoveDue(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnItemThatItsQueueDoesNotTakeStaysAndStopsNoOther(t *testing.T) {
	store, q, c := memdelay.New(), newQueues(), newClock()
	q.broken["down"], q.broken["bad"] = true, true
	var want []string
	for i := range 10 {
		put(t, store, item(c.Now().Add(-time.Minute), "down", fmt.Sprint("d", i)), item(c.Now().Add(-time.Second), "up", fmt.Sprint("u", i)))
		want = append(want, fmt.Sprint("up/u", i))
	}
	put(t, store, item(c.Now().Add(-time.Hour), "up", "bad"))
	k := delay.NewKeeper(store, q.Send, delay.Options{Now: c.Now, Batch: 3})
	moved, err := k.MoveDue(t.Context())
	if err == nil || moved != 10 || q.all() != strings.Join(want, " ") || waiting(t, store) != 11 {
		t.Errorf("moved %d (%v), the queues got %q, %d wait; want 10 (an error), %q, 11", moved, err, q.all(), waiting(t, store), want)
	}
	q.repair()
	if moved, err := k.MoveDue(t.Context()); err != nil || moved != 11 || waiting(t, store) != 0 {
		t.Errorf("after the repair: moved %d (%v), %d wait; want 11, no error, 0", moved, err, waiting(t, store))
	}
}

func TestItemsThatFailKeepNoOtherWaiting(t *testing.T) {
	store, q, c := memdelay.New(), newQueues(), newClock()
	q.broken["down"] = true
	const many = 2500
	items := make([]delay.Item, many)
	for i := range items {
		items[i] = item(c.Now().Add(-time.Hour), "down", fmt.Sprint(i))
	}
	put(t, store, items...)
	put(t, store, item(c.Now(), "up", "behind"))
	moved, err := delay.NewKeeper(store, q.Send, delay.Options{Now: c.Now}).MoveDue(t.Context())
	if err == nil || moved != 1 || q.all() != "up/behind" || waiting(t, store) != many {
		t.Errorf("moved %d (%v), the queues got %q, %d wait; want 1 (an error), up/behind, %d", moved, err, q.all(), waiting(t, store), many)
	}
}

// damaged is a store with a corrupt item besides others.
type damaged struct{ delay.Store }

func (d damaged) Due(ctx context.Context, after delay.Key, before time.Time, limit int) ([]delay.Item, error) {
	items, err := d.Store.Due(ctx, after, before, limit)
	if err == nil {
		err = fmt.Errorf("an item: %w", record.ErrCorrupt)
	}
	return items, err
}

func TestACorruptItemIsAnErrorAndStopsNoOther(t *testing.T) {
	store, q, c := memdelay.New(), newQueues(), newClock()
	put(t, store, item(c.Now(), "a", "1"), item(c.Now(), "a", "2"), item(c.Now(), "a", "3"))
	moved, err := delay.NewKeeper(damaged{store}, q.Send, delay.Options{Now: c.Now, Batch: 2}).MoveDue(t.Context())
	if moved != 3 || !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("moved %d (%v), want 3 and that an item is corrupt", moved, err)
	}
}

func TestACorruptItemIsLoggedOnceAnHourAndMakesNoOtherLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, q := memdelay.New(), newQueues()
		var lines strings.Builder
		var late []time.Duration
		k := delay.NewKeeper(damaged{store}, q.Send, delay.Options{
			Pause: 24 * time.Hour, Log: slog.New(slog.NewTextHandler(&lines, nil)), Moved: func(l []time.Duration) { late = append(late, l...) },
		})
		run(t, k)
		for i := range 10 {
			put(t, k.Waking(store), item(time.Now().Add(time.Millisecond), "a", fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if len(late) != 10 || slices.Max(late) != 0 || strings.Count(lines.String(), "can't be read") != 1 {
			t.Errorf("items were late by %v, and the log has %q; want 10 on time, and one line", late, lines.String())
		}
		time.Sleep(time.Hour)
		put(t, k.Waking(store), item(time.Now(), "a", "an hour later"))
		synctest.Wait()
		if n := strings.Count(lines.String(), "can't be read"); n != 2 {
			t.Errorf("an hour later the log has %d lines, want another one", n)
		}
	})
}

func TestAllItemsOfManyBatchesAreMoved(t *testing.T) {
	store, q, c := memdelay.New(), newQueues(), newClock()
	for i := range 1001 {
		put(t, store, item(c.Now().Add(-time.Duration(i)), "a", fmt.Sprint(i)))
	}
	if moved, err := delay.NewKeeper(store, q.Send, delay.Options{Now: c.Now, Batch: 10}).MoveDue(t.Context()); err != nil || moved != 1001 || waiting(t, store) != 0 {
		t.Errorf("moved %d (%v), %d wait; want 1001, no error, 0", moved, err, waiting(t, store))
	}
}

func TestLargeItemsAreMovedInPartsThatFitIntoMemory(t *testing.T) {
	store, q, c := memdelay.New(), newQueues(), newClock()
	body, most := strings.Repeat("x", 1<<20), 0
	for i := range 40 {
		x := item(c.Now(), "a", fmt.Sprint(i))
		x.Message.Body = body
		put(t, store, x)
	}
	send := func(ctx context.Context, name string, messages []queue.Message) []error {
		most = max(most, len(messages))
		return q.Send(ctx, name, messages)
	}
	moved, err := delay.NewKeeper(store, send, delay.Options{Now: c.Now}).MoveDue(t.Context())
	if err != nil || moved != 40 || most > 16 {
		t.Errorf("moved %d (%v), at most %d at a time; want 40, at most 16 of one MiB", moved, err, most)
	}
}

// undeletable is a store that can't delete.
type undeletable struct{ *memdelay.Store }

func (undeletable) Delete(context.Context, []delay.Key) error { return errors.New("the disk is full") }

func TestAnItemThatCannotBeDeletedIsAnError(t *testing.T) {
	store, q, c := memdelay.New(), newQueues(), newClock()
	put(t, store, item(c.Now(), "a", "1"))
	moved, err := delay.NewKeeper(undeletable{store}, q.Send, delay.Options{Now: c.Now}).MoveDue(t.Context())
	if err == nil || moved != 1 || q.all() != "a/1" {
		t.Errorf("moved %d (%v), the queue got %q; want 1 and an error, after it got a/1 once", moved, err, q.all())
	}
}

func TestARunningKeeperMovesAnItemWhenItIsDue(t *testing.T) {
	store, q := memdelay.New(), newQueues()
	k := delay.NewKeeper(store, q.Send, delay.Options{Moved: func(late []time.Duration) {
		for _, d := range late {
			if d < 0 {
				t.Errorf("an item was moved %v before it was due", -d)
			}
		}
	}})
	put(t, store, item(time.Now().Add(50*time.Millisecond), "a", "2"), item(time.Now().Add(-time.Hour), "a", "1"))
	run(t, k)
	q.await(t, "a/1 a/2")
}

func TestAPutWakesAKeeperThatSleepsUntilALaterItem(t *testing.T) {
	store, q := memdelay.New(), newQueues()
	k := delay.NewKeeper(store, q.Send, delay.Options{})
	put(t, store, item(time.Now().Add(time.Hour), "a", "late"))
	run(t, k)
	put(t, k.Waking(store), item(time.Now().Add(20*time.Millisecond), "a", "soon"))
	q.await(t, "a/soon")
}

func TestAPutWakesAKeeperOfAnEmptyStore(t *testing.T) {
	store, q := memdelay.New(), newQueues()
	k := delay.NewKeeper(store, q.Send, delay.Options{})
	run(t, k)
	for i := range 5 {
		put(t, k.Waking(store), item(time.Now(), "a", fmt.Sprint(i)))
		q.await(t, strings.Join([]string{"a/0", "a/1", "a/2", "a/3", "a/4"}[:i+1], " "))
	}
}

func TestAKeeperFollowsAClockThatIsSetForward(t *testing.T) {
	store, q, c := memdelay.New(), newQueues(), newClock()
	k := delay.NewKeeper(store, q.Send, delay.Options{Now: c.Now})
	put(t, store, item(c.Now().Add(3*time.Hour), "a", "1"))
	run(t, k)
	c.Advance(3*time.Hour - 1)
	put(t, k.Waking(store), item(c.Now(), "a", "0"))
	q.await(t, "a/0")
	c.Advance(1)
	q.await(t, "a/0 a/1")
}

func TestAKeeperTriesAgainAfterAFailure(t *testing.T) {
	store, q := memdelay.New(), newQueues()
	q.broken["a"] = true
	failed := make(chan struct{})
	var once sync.Once
	q.sent = func() { once.Do(func() { close(failed) }) }
	put(t, store, item(time.Now().Add(-time.Second), "a", "1"))
	run(t, delay.NewKeeper(store, q.Send, delay.Options{Pause: 10 * time.Millisecond}))
	<-failed
	q.repair()
	q.await(t, "a/1")
}

func TestAKeeperAheadGivesTheQueueTheRestOfTheDelay(t *testing.T) {
	store, c := memdelay.New(), newClock()
	put(t, store, item(c.Now().Add(-time.Hour), "a", "overdue"), item(c.Now().Add(1500*time.Millisecond), "a", "soon"), item(c.Now().Add(2*time.Minute), "a", "later"))
	var got []string
	k := delay.NewKeeper(store, func(_ context.Context, _ string, messages []queue.Message) []error {
		for _, m := range messages {
			got = append(got, fmt.Sprint(m.Body, " ", m.Delay))
		}
		return make([]error, len(messages))
	}, delay.Options{Now: c.Now, Ahead: time.Minute})
	if _, err := k.MoveDue(t.Context()); err != nil || fmt.Sprint(got) != "[overdue 0s soon 2s]" || waiting(t, store) != 1 {
		t.Errorf("got %v (%v), %d wait; want overdue 0s and soon 2s, no error, 1", got, err, waiting(t, store))
	}
}

func TestAKeeperThatSleepsForDaysTakesNoMoreMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const days = 3
		store := memdelay.New()
		if err := store.Put(t.Context(), []delay.Item{{Key: delay.Key{Due: time.Now().AddDate(1, 0, 0), Name: "a"}, Queue: "ingress"}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			delay.NewKeeper(store, newQueues().Send, delay.Options{}).Run(ctx)
		}()
		synctest.Wait()
		before := objects()
		time.Sleep(days * 24 * time.Hour)
		synctest.Wait()
		if more := objects() - before; more > 10_000 {
			t.Errorf("%d more objects are in memory after %d days of sleep, want none for each look at the clock", more, days)
		}
		cancel()
		<-ended
	})
}

// objects returns how many objects are in memory.
func objects() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapObjects)
}
