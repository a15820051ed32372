package dedup_test

import (
	"testing"
	"time"

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
	if o, _ := w.Direct(t.Context(), m); o.Kind != record.Retry {
		t.Errorf("direct: %+v", o)
	}
	same(t, "calls", w.calls(), []string{"load g +1 tokens"})
	same(t, "queued", w.process(m), []string{"processed"})
}

func TestADirectMessageRunsUnderItsIssuedToken(t *testing.T) {
	w := newLab(t).worker(byToken)
	m := keyed("a")[0]
	w.issue(m)
	if o, _ := w.Direct(t.Context(), m); o.Kind != record.Processed {
		t.Errorf("got %+v", o)
	}
}
