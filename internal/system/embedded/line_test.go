package embedded

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// newLine returns the line of a system whose queues nobody reads. Its stream orders has groups, and
// the stream numbered none.
func newLine(t *testing.T) line {
	t.Helper()
	s, err := Open(Options{DataDir: t.TempDir(), Config: &config.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	streams := []system.Stream{{Stream: record.Stream{Name: "orders", Handler: echo}}, {Stream: record.Stream{Name: "numbered", Admission: record.BySequence, Handler: echo}}}
	if _, err := s.Start(streams); err != nil {
		t.Fatal(err)
	}
	return s.now().line
}

func put(t *testing.T, to queue.Queue, group string) queue.Delivery {
	t.Helper()
	m := queue.Message{Body: "x"}
	if group != "" {
		m.Group, m.DedupID = group, "x"
	}
	if r := to.Send(t.Context(), []queue.Message{m})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	list, err := to.Receive(t.Context(), 1, time.Minute, 0)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0]
}

// within returns the places that a batch has after it has waited at most for a time.
func (l line) within(t *testing.T, most time.Duration, m record.Message) (has bool, waited time.Duration) {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), most) // virtual time: the tests of a line run in bubbles
	defer end()
	begun := time.Now()
	p := l.ReserveAll(ctx, []record.Message{m})
	if p != nil {
		defer p.Release()
	}
	return p != nil && p.Has(0), time.Since(begun) // virtual time: the tests of a line run in bubbles
}

func TestABatchWaitsUntilNoMessageIsInItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		for name, m := range map[string]record.Message{"orders": {Stream: "orders", ID: "a", Group: "g"}, "numbered": {Stream: "numbered", Source: "s", Sequence: 1}} {
			q, group := queue.Queue(l.queues.ingress), ""
			if name == "orders" {
				q, group = l.queues.ingressFIFO, wire.FIFOGroup(&m)
			}
			d := put(t, q, group)
			go func() {
				time.Sleep(20 * time.Millisecond)
				for _, err := range q.Delete(t.Context(), []string{d.Receipt}) {
					if err != nil {
						t.Error(err)
					}
				}
			}()
			if has, _ := l.within(t, time.Minute, m); !has {
				t.Errorf("%s: no place after the message is deleted", name)
			}
		}
	})
}

func TestAfterABatchHasWaitedInVainTheOthersOfItsStreamDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		order, numbered := record.Message{Stream: "orders", ID: "a", Group: "g"}, record.Message{Stream: "numbered", Source: "s", Sequence: 1}
		put(t, l.queues.ingress, "")
		put(t, l.queues.ingressFIFO, wire.FIFOGroup(&order))
		for name, m := range map[string]record.Message{"orders": order, "numbered": numbered} {
			if has, waited := l.within(t, 20*time.Millisecond, m); has || waited != 20*time.Millisecond {
				t.Errorf("%s: a place %v after %v", name, has, waited)
			}
			if has, waited := l.within(t, time.Minute, m); has || waited > 0 {
				t.Errorf("%s: the second batch has a place %v after %v", name, has, waited)
			}
		}
	})
}

func TestABatchThatHasWaitedForAPlaceOnlyDoesNotKeepOthersFromWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		m := record.Message{Stream: "orders", ID: "a", Group: "g"}
		p, ok := l.Reserve(&m)
		if !ok {
			t.Fatal("no place")
		}
		if has, _ := l.within(t, 10*time.Millisecond, m); has {
			t.Error("two have a place")
		}
		p.Release()
		if n := l.noWait["orders"].Load(); n != 0 {
			t.Errorf("batches do not wait until %v", time.Unix(0, n))
		}
		if has, _ := l.within(t, 0, m); !has || l.noWait["orders"].Load() != 0 {
			t.Error("a batch without time has no place, or keeps others from waiting")
		}
		d, numbered := put(t, l.queues.ingress, ""), record.Message{Stream: "numbered", Source: "s", Sequence: 1}
		if has, _ := l.within(t, 0, numbered); has || l.noWait["numbered"].Load() != 0 {
			t.Error("a numbered batch without time has a place, or keeps others from waiting")
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, leave)
		if p := l.ReserveAll(gone, []record.Message{numbered}); p != nil || l.noWait["numbered"].Load() != 0 {
			t.Error("a batch whose caller has gone has a place, or keeps others from waiting")
		}
		if err := l.queues.ingress.ChangeVisibility(t.Context(), d.Receipt, time.Minute); err != nil {
			t.Fatal(err)
		}
		if has, waited := l.within(t, time.Minute, numbered); has || waited > 0 || l.noWait["numbered"].Load() != 0 {
			t.Error("a batch waits for a message that pauses, or keeps others from waiting")
		}
	})
}
