package dedup_test

import (
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// The front end answers a caller whose message is leased. A queued message has no caller, and the
// worker that leased it may be dead.
func TestADirectMessageIsLeftToTheAttemptThatLeasedItAndAQueuedOneIsNot(t *testing.T) {
	w := newLab(t).worker(byKey)
	m := keyed("a")[0]
	key := record.NewTokenKey("", "s", "a")
	_, err := w.store.SwapToken(t.Context(), record.Token{Key: key}, record.Token{
		Key: key, State: record.Leased, Fingerprint: m.Fingerprint(), Stream: "s", Group: "g", Owner: "other",
		Lease: w.clock().Add(time.Minute), Expires: w.clock().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := w.Direct(t.Context(), time.Time{}, m); o.Kind != record.Retry {
		t.Errorf("direct: %+v", o)
	}
	same(t, "calls", w.calls(), []string{"load g +1 tokens"})
	same(t, "queued", w.process(m), []string{"processed"})
}

func TestADirectMessageRunsUnderItsIssuedToken(t *testing.T) {
	w := newLab(t).worker(byToken)
	m := keyed("a")[0]
	w.issue(m)
	if o, _ := w.Direct(t.Context(), time.Time{}, m); o.Kind != record.Processed {
		t.Errorf("got %+v", o)
	}
}

// Where one process has all workers, a direct message is published by the worker that commits it.
// In all other cases a publisher is triggered.
func TestADirectMessageIsPublishedByItsWorkerIfItsProcessLooksForUnfinishedGroups(t *testing.T) {
	for _, c := range []struct {
		name      string
		recalls   bool
		fails     string // prefix of the calls that fail
		published bool
		calls     []string
	}{
		{"one process", true, "", true, []string{"load g +1 tokens", "run a", "commit g v1", "send out s/g/1", "mark 1", "clear g 1"}},
		{"one process, the destination fails", true, "send", false, []string{"load g +1 tokens", "run a", "commit g v1", "send out s/g/1", "trigger g"}},
		{"several processes", false, "", false, []string{"load g +1 tokens", "run a", "trigger later g", "commit g v1", "trigger g"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLab(t).workerOf(dedup.Config{Streams: []record.Stream{byKey}, Recalls: c.recalls})
			if c.fails != "" {
				w.at = always(c.fails, failsBefore)
			}
			o, published := w.Direct(t.Context(), time.Time{}, keyed("a: send")[0])
			if o.Kind != record.Processed || published != c.published {
				t.Errorf("got %+v, published %v", o, published)
			}
			same(t, "calls", w.calls(), c.calls)
		})
	}
}
