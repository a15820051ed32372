// Package delaytest is the conformance suite of the port in internal/delay.
package delaytest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
)

// A Harness makes stores.
type Harness struct {
	// New returns an empty store, which it removes when the test ends. Required.
	New func(t *testing.T) delay.Store
	// Now is about the time for which the store is made: the items of the suite are due around it.
	// Defaults to a fixed time.
	Now time.Time
	// Many is how many items the case with many has. Defaults to 2,500.
	Many int
	// Parallel runs the cases concurrently, for a store behind a network.
	Parallel bool
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Now.IsZero() {
		h.Now = time.Date(2026, 5, 4, 10, 59, 58, 123456789, time.UTC)
	}
	if h.Many == 0 {
		h.Many = 2500
	}
	for name, run := range map[string]func(*testing.T, *world){
		"items come back as they were put":                  sameItems,
		"due items come in the order of their times":        inOrder,
		"no more than the limit comes":                      limited,
		"an item is due after its time only":                dueOnTime,
		"items are read one behind the other":               behindAKey,
		"large items come in parts":                         inParts,
		"the same key is the same item":                     oneItemAKey,
		"a copy with another time is another item":          copies,
		"names may be any text":                             anyNames,
		"an item that was deleted does not come back":       deleted,
		"a missing item can be deleted":                     deleteMissing,
		"an item that is put before others comes first":     putEarlier,
		"times of a year ahead and of the past are kept":    farTimes,
		"many items that are due at the same time all come": many,
		"concurrent calls lose no item":                     concurrent,
		"a call whose context has ended fails":              ended,
		"items are counted":                                 counted,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if h.Parallel {
				t.Parallel()
			}
			run(t, &world{Harness: h, store: h.New(t)})
		})
	}
}

type world struct {
	Harness
	store delay.Store
}

func (w *world) item(after time.Duration, name string) delay.Item {
	return delay.Item{
		Key: delay.Key{Due: w.Now.Add(after), Name: name}, Queue: "ingress",
		Message: queue.Message{Body: "body of " + name, Attributes: map[string]string{"once-stream": "orders"}, Sender: "once"},
	}
}

func (w *world) put(t *testing.T, items ...delay.Item) {
	t.Helper()
	if err := w.store.Put(t.Context(), items); err != nil {
		t.Fatalf("put: got %v, want no error", err)
	}
}

func (w *world) delete(t *testing.T, keys ...delay.Key) {
	t.Helper()
	if err := w.store.Delete(t.Context(), keys); err != nil {
		t.Fatalf("delete: got %v, want no error", err)
	}
}

func (w *world) due(t *testing.T, after time.Duration, limit int) []delay.Item {
	t.Helper()
	items, err := w.store.Due(t.Context(), delay.Key{}, w.Now.Add(after), limit)
	if err != nil {
		t.Fatalf("due: got %v, want no error", err)
	}
	return items
}

// wantDue compares the names of the items that are due.
func (w *world) wantDue(t *testing.T, after time.Duration, limit int, names ...string) {
	t.Helper()
	items := w.due(t, after, limit)
	if !slices.IsSortedFunc(items, func(a, b delay.Item) int { return a.Due.Compare(b.Due) }) {
		t.Errorf("items due %v after now are not in the order of their times: %v", after, items)
	}
	slices.SortFunc(items, func(a, b delay.Item) int { // any order at the same time
		if c := a.Due.Compare(b.Due); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	var got []string
	for _, item := range items {
		got = append(got, item.Name)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("names of the items due %v after now, at most %d (-want +got):\n%s", after, limit, diff)
	}
}

func sameItems(t *testing.T, w *world) {
	full := delay.Item{
		Key: delay.Key{Due: w.Now.Add(time.Minute), Name: "orders/1"}, Queue: "ingress.fifo",
		Message: queue.Message{
			Body: "Größe 😀\n" + strings.Repeat("x", 5000), Attributes: map[string]string{"a": "é", "b": strings.Repeat("y", 300)},
			Group: "orders/g", DedupID: "0-1", Sender: "once",
		},
	}
	least := delay.Item{Key: delay.Key{Due: w.Now.Add(2 * time.Minute), Name: "n"}, Queue: "q", Message: queue.Message{Body: "x"}}
	w.put(t, least, full)
	got := w.due(t, time.Hour, 10)
	for i := range got {
		got[i].Due = got[i].Due.UTC()
	}
	if diff := cmp.Diff([]delay.Item{full, least}, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

func inOrder(t *testing.T, w *world) {
	w.put(t, w.item(time.Hour, "hour"), w.item(2, "b"), w.item(25*time.Hour, "day"), w.item(1, "c"))
	w.put(t, w.item(2, "a"), w.item(time.Minute, "minute"))
	w.wantDue(t, 48*time.Hour, 10, "c", "a", "b", "minute", "hour", "day")
}

func limited(t *testing.T, w *world) {
	w.put(t, w.item(1, "a"), w.item(2, "b"), w.item(time.Hour, "c"))
	w.wantDue(t, 2*time.Hour, 1, "a")
	w.wantDue(t, 2*time.Hour, 2, "a", "b")
	w.wantDue(t, 2*time.Hour, 3, "a", "b", "c")
}

// behindAKey reads items one at a time, each behind the one before it, although that is deleted.
func behindAKey(t *testing.T, w *world) {
	var want, got []string
	for i := range 20 {
		name := fmt.Sprint("same time ", i)
		want = append(want, name)
		w.put(t, w.item(time.Minute, name))
	}
	slices.Sort(want)
	want = append(append([]string{"first"}, want...), "last")
	w.put(t, w.item(1, "first"), w.item(time.Hour, "last"), w.item(2*time.Hour, "not due"))
	var after delay.Key
	for {
		items, err := w.store.Due(t.Context(), after, w.Now.Add(time.Hour+1), 1)
		if err != nil {
			t.Fatalf("due: got %v, want no error", err)
		}
		if len(items) == 0 {
			break
		}
		after, got = items[0].Key, append(got, items[0].Name)
		if len(got)%2 == 0 {
			w.delete(t, after)
		}
	}
	if len(got) == len(want) {
		slices.Sort(got[1 : len(got)-1]) // any order at the same time
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names of the items, one after the other (-want +got):\n%s", diff)
	}
	w.wantDue(t, 2, 2, "first")
	if items, err := w.store.Due(t.Context(), delay.Key{Due: w.Now.Add(time.Hour), Name: "z"}, w.Now.Add(time.Minute), 10); err != nil || len(items) != 0 {
		t.Errorf("behind the last time: got %v (%v), want nothing", items, err)
	}
}

func inParts(t *testing.T, w *world) {
	const size, all = 300 << 10, 70
	for i := range all {
		x := w.item(time.Duration(i), fmt.Sprint(i))
		x.Message.Body = strings.Repeat("x", size)
		w.put(t, x)
	}
	first := w.due(t, time.Hour, 1000)
	if most := delay.PageBytes/size + 1; len(first) > most || !delay.Full(first, 1000) {
		t.Fatalf("got %d items of %d bytes, want at most %d, and that others are left", len(first), size, most)
	}
	rest, err := w.store.Due(t.Context(), first[len(first)-1].Key, w.Now.Add(time.Hour), 1000)
	if err != nil || len(first)+len(rest) != all || delay.Full(rest, 1000) {
		t.Errorf("got %d items and then %d (%v), want %d together", len(first), len(rest), err, all)
	}
}

func dueOnTime(t *testing.T, w *world) {
	w.put(t, w.item(time.Second, "a"))
	w.wantDue(t, time.Second, 10)
	w.wantDue(t, time.Second+1, 10, "a")
}

func oneItemAKey(t *testing.T, w *world) {
	again := w.item(1, "a")
	again.Message.Body = "again"
	w.put(t, w.item(1, "a"), w.item(1, "a"))
	w.put(t, again)
	if got := w.due(t, time.Hour, 10); len(got) != 1 || got[0].Message.Body != "again" {
		t.Errorf("got %+v, want one item, with the last body", got)
	}
}

func copies(t *testing.T, w *world) {
	w.put(t, w.item(time.Minute, "a"), w.item(time.Hour, "a"))
	w.wantDue(t, 2*time.Hour, 10, "a", "a")
	w.delete(t, w.item(time.Minute, "a").Key)
	got := w.due(t, 2*time.Hour, 10)
	if len(got) != 1 || !got[0].Due.Equal(w.Now.Add(time.Hour)) {
		t.Errorf("got %+v, want the later copy alone", got)
	}
}

func anyNames(t *testing.T, w *world) {
	names := []string{"", "\x00", "\x00\x00", "#", "/", "a", "a\x00", "a\x00b", "a#", "a/b", "ab", strings.Repeat("n", 1100), "é", "\U0001F600"}
	var items []delay.Item
	for i := range names {
		items = append(items, w.item(1, names[len(names)-1-i]))
	}
	w.put(t, items...)
	w.wantDue(t, time.Hour, 100, names...)
	for _, item := range items {
		w.delete(t, item.Key)
	}
	w.wantDue(t, time.Hour, 100)
}

func deleted(t *testing.T, w *world) {
	w.put(t, w.item(1, "a"), w.item(2, "b"), w.item(time.Hour, "c"))
	w.delete(t, w.item(1, "a").Key, w.item(time.Hour, "c").Key)
	w.wantDue(t, 2*time.Hour, 10, "b")
	w.put(t, w.item(1, "a"))
	w.wantDue(t, 2*time.Hour, 10, "a", "b")
}

func deleteMissing(t *testing.T, w *world) {
	w.delete(t)
	w.delete(t, w.item(1, "missing").Key)
	w.put(t, w.item(1, "a"))
	w.delete(t, w.item(2, "a").Key, w.item(1, "b").Key)
	w.wantDue(t, time.Hour, 10, "a")
}

func putEarlier(t *testing.T, w *world) {
	for i := range 5 {
		w.put(t, w.item(time.Duration(i), strconv.Itoa(i)))
	}
	for i := range 5 {
		w.wantDue(t, time.Hour, 1, strconv.Itoa(i))
		w.delete(t, w.item(time.Duration(i), strconv.Itoa(i)).Key)
	}
	w.wantDue(t, time.Hour, 1)
	w.put(t, w.item(-time.Hour, "earlier"))
	w.wantDue(t, time.Hour, 1, "earlier")
	w.put(t, w.item(-2*time.Hour, "earliest"))
	w.wantDue(t, time.Hour, 2, "earliest", "earlier")
}

func farTimes(t *testing.T, w *world) {
	w.put(t, w.item(365*24*time.Hour, "next year"), w.item(-24*time.Hour, "yesterday"))
	w.wantDue(t, 0, 10, "yesterday")
	w.wantDue(t, 366*24*time.Hour, 10, "yesterday", "next year")
}

func many(t *testing.T, w *world) {
	want := map[string]bool{}
	var items []delay.Item
	for i := range w.Many {
		name := fmt.Sprintf("many/%05d", i)
		want[name] = true
		items = append(items, w.item(time.Second, name))
	}
	w.put(t, items...)
	for len(want) > 0 {
		due := w.due(t, time.Minute, 700)
		if len(due) != min(700, len(want)) {
			t.Fatalf("got %d items, want %d", len(due), min(700, len(want)))
		}
		var keys []delay.Key
		for _, item := range due {
			if !want[item.Name] {
				t.Fatalf("got %s a second time, want each item once", item.Name)
			}
			delete(want, item.Name)
			keys = append(keys, item.Key)
		}
		w.delete(t, keys...)
	}
	w.wantDue(t, time.Minute, 10)
}

func concurrent(t *testing.T, w *world) {
	const writers, each = 8, 25
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for i := range each {
				// times that run backwards, so that each item is the earliest one
				item := w.item(-time.Duration(i)*time.Second, fmt.Sprintf("%d/%d", n, i))
				if err := w.store.Put(t.Context(), []delay.Item{item}); err != nil {
					t.Errorf("put: got %v, want no error", err)
				}
			}
		})
	}
	seen := map[string]bool{}
	for deadline := time.Now().Add(time.Minute); len(seen) < writers*each && time.Now().Before(deadline); {
		for _, item := range w.due(t, time.Hour, 3) {
			if seen[item.Name] {
				t.Fatalf("%s came again after it was deleted", item.Name)
			}
			seen[item.Name] = true
			w.delete(t, item.Key)
		}
	}
	wg.Wait()
	if len(seen) != writers*each {
		t.Errorf("got %d items, want all %d", len(seen), writers*each)
	}
}

func ended(t *testing.T, w *world) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.store.Due(ctx, delay.Key{}, w.Now, 1)
	for call, err := range map[string]error{
		"put": w.store.Put(ctx, []delay.Item{w.item(1, "a")}), "due": err, "delete": w.store.Delete(ctx, []delay.Key{w.item(1, "a").Key}),
	} {
		if err == nil {
			t.Errorf("%s: got no error, want one", call)
		}
	}
}

func counted(t *testing.T, w *world) {
	counter, ok := w.store.(delay.Counter)
	if !ok {
		return // it does not count
	}
	want := func(waiting int, next time.Time) {
		t.Helper()
		got, err := counter.Stats(t.Context())
		if err != nil || got.Waiting != waiting || !got.Next.Equal(next) {
			t.Errorf("got %+v and %v, want %d waiting, the next at %v", got, err, waiting, next)
		}
	}
	want(0, time.Time{})
	w.put(t, w.item(5, "a"), w.item(5, "a"), w.item(7, "b"))
	w.put(t, w.item(7, "b"))
	want(2, w.Now.Add(5))
	w.delete(t, w.item(5, "a").Key, w.item(5, "a").Key, w.item(9, "missing").Key)
	want(1, w.Now.Add(7))
	w.delete(t, w.item(7, "b").Key)
	want(0, time.Time{})
}
