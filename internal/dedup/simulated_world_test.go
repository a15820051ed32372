package dedup_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A world is a lab with random faults: queues redeliver, out of order and to several workers
// concurrently, replies are lost, workers die.
type world struct {
	*lab
	stream record.Stream

	rmu    sync.Mutex
	rnd    *rand.Rand
	faults float64
	queue  []*entry
	// messages are those that were sent, by group and identity.
	messages map[string]record.Message
}

// entry is a message on the ingress queue. An acknowledgement removes it for all workers.
type entry struct {
	m    record.Message
	gone bool
}

func newWorld(t *testing.T, seed uint64, stream record.Stream) *world {
	t.Helper()
	return &world{
		lab: newLab(t), stream: stream, rnd: rand.New(rand.NewPCG(seed, 1)), faults: 0.15, messages: map[string]record.Message{},
	}
}

func (w *world) float() float64 {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	return w.rnd.Float64()
}

func (w *world) pick(n int) int {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	return w.rnd.IntN(n)
}

// send puts a message on the queue.
func (w *world) send(m record.Message) {
	w.messages[m.Group+" "+m.Identity()] = m
	w.queue = append(w.queue, &entry{m: m})
}

// unreliable starts a worker that may die, and whose calls may fail before or after they are
// applied. The destination "side" is down half of the time.
func (w *world) unreliable() (k *worker, dead func() bool) {
	k = w.worker(w.stream)
	var mu sync.Mutex
	died := false
	k.at = func(call string) fault {
		mu.Lock()
		defer mu.Unlock()
		f := w.float()
		switch {
		case died:
			return failsBefore
		case f < w.faults/5:
			died = true
			return fault(1 + w.pick(2))
		case f < w.faults, w.faults > 0 && strings.HasPrefix(call, "send side") && f < 0.5:
			return fault(1 + w.pick(2))
		}
		return works
	}
	return k, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return died
	}
}

// take receives up to n messages. Messages that another worker has received and not acknowledged
// may be received too.
func (w *world) take(n int) []*entry {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	w.queue = slices.DeleteFunc(w.queue, func(e *entry) bool { return e.gone })
	w.mu.Lock()
	for _, m := range w.returned {
		w.queue = append(w.queue, &entry{m: m})
	}
	w.returned = nil
	w.mu.Unlock()
	w.rnd.Shuffle(len(w.queue), func(i, j int) { w.queue[i], w.queue[j] = w.queue[j], w.queue[i] })
	return slices.Clone(w.queue[:min(n, len(w.queue))])
}

// serve processes batches until the queue is empty.
func (w *world) serve(turns int) {
	for range turns {
		batch := w.take(1 + w.pick(5))
		if len(batch) == 0 {
			return
		}
		messages := make([]record.Message, len(batch))
		for i, e := range batch {
			messages[i] = e.m
		}
		k, dead := w.unreliable()
		var outcomes []record.Outcome
		if len(messages) == 1 && w.pick(2) == 0 {
			outcomes = []record.Outcome{k.Call(context.Background(), messages[0])}
		} else {
			outcomes = k.Process(context.Background(), messages)
		}
		for i, o := range outcomes {
			refused := o.Kind == record.Rejected && k.Refuse(context.Background(), []record.Refused{{Message: messages[i], Reason: o.Reason}}) != nil
			if o.Settled() && !refused && !dead() {
				w.acknowledge(batch[i])
			}
		}
	}
}

func (w *world) acknowledge(e *entry) {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	e.gone = true
}

// publishing serves triggers until there are none.
func (w *world) publishing(turns int) {
	for range turns {
		w.mu.Lock()
		if len(w.triggers) == 0 {
			w.mu.Unlock()
			return
		}
		x := w.triggers[0]
		w.triggers = w.triggers[1:]
		w.mu.Unlock()
		k, dead := w.unreliable()
		if k.Publish(context.Background(), []record.GroupKey{x.Key})[0] != nil || dead() {
			w.mu.Lock()
			w.triggers = append(w.triggers, x)
			w.mu.Unlock()
		}
	}
}

// sweeping closes gaps and sweeps now and then, while the clock moves.
func (w *world) sweeping(groups []string) {
	for range 3 {
		w.pass(20 * time.Second)
		for _, g := range groups {
			k, _ := w.unreliable()
			key := record.GroupKey{Stream: "s", Group: g}
			if w.pick(4) == 0 {
				_ = k.Sweep(context.Background(), key)
			} else {
				_ = k.CloseGaps(context.Background(), key)
			}
		}
	}
}

// run runs three processors, three publishers and a sweeper concurrently until everything is done:
// first with faults, then without.
func (w *world) run(groups []string) {
	w.t.Helper()
	for _, faults := range []float64{w.faults, w.faults, 0, 0} {
		w.faults = faults
		for range 8 {
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { w.serve(40) })
				all.Go(func() { w.publishing(40) })
			}
			all.Go(func() { w.sweeping(groups) })
			all.Wait()
		}
	}
	for turn := 0; w.open(groups); turn++ {
		if turn > 200 {
			w.t.Fatalf("it does not end: %d messages, %d triggers", len(w.queue), len(w.triggers))
		}
		w.serve(100)
		w.publishing(100)
		w.sweeping(groups)
	}
}

// open reports whether anything is left to do.
func (w *world) open(groups []string) bool {
	for _, name := range groups {
		if g := w.record(name); g.HasHeld() {
			return true
		}
	}
	return len(w.take(1)) > 0 || len(w.triggers) > 0
}
