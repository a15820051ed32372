package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// A reader records when its messages ran.
type reader struct {
	mu   sync.Mutex
	runs map[string]time.Time
	ran  chan struct{}
}

func newReader() *reader { return &reader{runs: map[string]time.Time{}, ran: make(chan struct{}, 100)} }

func (r *reader) stream(name string) system.Stream {
	return system.Stream{Stream: record.Stream{Name: name, Handler: func(_ context.Context, _ *record.Attempt, m record.Message) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.runs[m.ID].IsZero() {
			r.runs[m.ID+" again"] = time.Now()
		}
		r.runs[m.ID] = time.Now()
		r.ran <- struct{}{}
		return nil
	}}}
}

// await waits for so many runs more.
func (r *reader) await(n int) {
	for range n {
		<-r.ran
	}
}

func (r *reader) when(id string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[id]
}

func TestADelayedMessageRunsAtItsTimeAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newReader()
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {orders: {}, queued: {direct: false}}\n"}
		start := func() *running { return p.start(seen.stream("orders"), seen.stream("queued")) }
		r := start()
		soon, after, late := time.Now().Add(time.Minute), time.Now().Add(time.Hour), time.Now().Add(24*time.Hour)
		for stream, at := range map[string]time.Time{"orders": soon, "queued": after} {
			got := r.send(t, client.Message{Stream: stream, Key: stream, Group: "g", NotBefore: at})
			if got.Status != "accepted" || !got.NotBefore.Equal(at) {
				t.Errorf("the receipt is %+v, want an accepted message that is due at %v", got, at)
			}
		}
		for _, result := range r.client.SendBatch(t.Context(), []client.Message{
			{Stream: "orders", Key: "late", Group: "g", NotBefore: late}, {Stream: "orders", Key: "now", Group: "g"}, {Stream: "orders", Key: "also late", NotBefore: late},
		}) {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
		}
		if info, err := r.Message(t.Context(), "orders", "late"); err != nil || len(info.Waiting) != 1 || info.Waiting[0].For != admin.WaitTime || info.Waiting[0].Next.Sub(late).Abs() > time.Second {
			t.Errorf("the message waits for %+v, %v; want its time, %v", info.Waiting, err, late)
		}
		seen.await(2) // the message without a delay, and the first one with it
		if seen.when("orders").Before(soon) {
			t.Errorf("a message ran %v before it was due", soon.Sub(seen.when("orders")))
		}
		r.stop()
		r = start()
		defer func() { r.stop() }()
		seen.await(1)
		if seen.when("queued").Before(after) {
			t.Errorf("a message ran %v before it was due", after.Sub(seen.when("queued")))
		}
		stats := r.idle(t)
		if stats.NotDue != 2 || stats.NextDue == nil || !stats.NextDue.Equal(late) {
			t.Errorf("%d messages wait until %v, want 2 until %v", stats.NotDue, stats.NextDue, late)
		}
	})
}

func TestOfTwoCopiesWithDifferentTimesTheFirstThatIsDueRunsAndTheOtherIsADuplicate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newReader()
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {orders: {}}\n"}
		r := p.start(seen.stream("orders"))
		defer func() { r.stop() }()
		for i, wait := range []time.Duration{4 * time.Minute, time.Minute, 7 * time.Minute} {
			got := r.send(t, client.Message{Stream: "orders", Key: "a", NotBefore: time.Now().Add(wait)})
			if got.Replayed != (i > 0) {
				t.Errorf("copy %d: replayed is %v, want that the later ones are", i, got.Replayed)
			}
		}
		r.send(t, client.Message{Stream: "orders", Key: "last", NotBefore: time.Now().Add(10 * time.Minute)})
		seen.await(2)
		r.idle(t)
		if again := seen.when("a again"); !again.IsZero() {
			t.Error("a message ran twice, want once")
		}
		if got := r.send(t, client.Message{Stream: "orders", Key: "a"}); got.Status != "done" || !got.Replayed {
			t.Errorf("a copy without a delay gets %+v, want that the message is done", got)
		}
	})
}

func TestADelayOnANumberedStreamIsRefused(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: "streams: {chat: {admission: sequence}}\n"}
	r := p.start()
	defer func() { r.stop() }()
	_, err := r.client.Send(t.Context(), client.Message{Stream: "chat", Source: "ann", Sequence: 1, NotBefore: time.Now().Add(time.Hour)})
	if got := fmt.Sprint(err); problemStatus(err) != http.StatusBadRequest {
		t.Errorf("got %s, want 400", got)
	}
}

func problemStatus(err error) int {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return p.Status
	}
	return 0
}
