package pipeline

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

// names are the queues of a world, in the order of [Ports.all].
var names = []string{"ingress", "ingress.fifo", "publish", "publish.fifo", "dead", "dead-publish"}

// A world is real queues in a folder of their own, and a clock that only the test moves.
type world struct {
	t      *testing.T
	now    time.Time
	queues map[string]*pebblequeue.Queue

	mu    sync.Mutex // destinations send concurrently
	calls []string   // the deliveries of each Send, a line a call
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db, err := pebbledb.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, now: noon, queues: map[string]*pebblequeue.Queue{}}
	for _, name := range names {
		q, err := pebblequeue.Open(db, name, pebblequeue.Options{Now: w.clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = q.Close() })
		w.queues[name] = q
	}
	return w
}

func (w *world) clock() time.Time { return w.now }

// A noted queue records the messages sent to it.
type noted struct {
	*pebblequeue.Queue
	world *world
}

func (q noted) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	line := q.Name() + ":"
	for _, m := range messages {
		line += " " + brief(m.Body)
	}
	q.world.mu.Lock()
	q.world.calls = append(q.world.calls, line)
	q.world.mu.Unlock()
	return q.Queue.Send(ctx, messages)
}

// brief shortens a body: tests write plain texts; bodies made by the pipeline are JSON.
func brief(body string) string {
	switch {
	case strings.HasPrefix(body, `{"publish"`):
		return "trigger"
	case strings.HasPrefix(body, `{"deliver"`):
		return "effect"
	case len(body) > queue.MaxSize:
		return "huge"
	default:
		return body
	}
}

func (w *world) ports() Ports {
	q := func(name string) queue.Queue { return noted{w.queues[name], w} }
	return Ports{
		Ingress: q("ingress"), IngressFIFO: q("ingress.fifo"), Publish: q("publish"), PublishFIFO: q("publish.fifo"), Dead: q("dead"), DeadPublish: q("dead-publish"),
	}
}

// ways returns the queues; the stream numbers admits by sequence.
func (w *world) ways() *Queues {
	return newQueues(w.ports(), []record.Stream{
		{Name: "orders", Admission: record.ByKey}, {Name: "numbers", Admission: record.BySequence}, {Name: "ending", Admission: record.BySequence, Partitions: 1},
	}, w.clock)
}

// contents returns the messages of each queue, ready or not, and how many of them are delayed.
func (w *world) contents() map[string][]string {
	w.t.Helper()
	out := map[string][]string{}
	for _, name := range names {
		for _, d := range w.peek(name) {
			out[name] = append(out[name], brief(d.Body))
		}
	}
	return out
}

func (w *world) peek(name string) []queue.Delivery {
	w.t.Helper()
	list, err := w.queues[name].Peek(100)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *world) want(want map[string][]string) {
	w.t.Helper()
	if d := cmp.Diff(want, w.contents()); d != "" {
		w.t.Errorf("in the queues (-want +got):\n%s", d)
	}
}

// ready receives and deletes the messages of a queue that are ready now.
func (w *world) ready(name string) []queue.Delivery {
	w.t.Helper()
	list, err := w.queues[name].Receive(w.t.Context(), 100, time.Minute, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range list {
		if err := w.queues[name].Delete(w.t.Context(), []string{d.Receipt})[0]; err != nil {
			w.t.Fatal(err)
		}
	}
	return list
}

func bodies(list []queue.Delivery) []string {
	var out []string
	for _, d := range list {
		out = append(out, brief(d.Body))
	}
	return out
}

func message(stream, group, body string) record.Message {
	return record.Message{Stream: stream, Group: group, ID: body, Body: []byte(body)}
}

// trusting trusts the messages of the system's own parts.
func trusting() wire.Defaults { return wire.Defaults{Trusted: []string{wire.Sender}} }
