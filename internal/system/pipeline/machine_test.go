package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// These tests run the system with the functions behind its queues through a history of deliveries,
// in any order and with copies. At a call to a port, the call fails, or is applied and its answer
// is lost, or the worker dies, or another worker runs. There are few messages, one such event for
// each delivery, and failing histories are shrunk; the simulations of the engine have many
// concurrent workers.

const writing = `
streams:
  orders:  {destinations: [out]}
  numbers: {admission: sequence, destinations: [out]}
destinations:
  out: {file: out.jsonl}
`

func TestAnyHistoryOfTheSystemAppliesAndSendsEachMessageOnce(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) record.Store{
		"memstore": func(*testing.T) record.Store { return memstore.New(atNoon) },
		"pebblestore": func(t *testing.T) record.Store {
			db, err := pebbledb.Open("data", &pebble.Options{FS: vfs.NewMem()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return pebblestore.New(db, pebblestore.Options{Now: atNoon})
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, history := open(t), 0
			rapid.Check(t, func(rt *rapid.T) {
				history++
				m := &machine{T: rt, test: t, store: store, prefix: fmt.Sprint(history, "-"), bags: map[string]*bag{}}
				for _, name := range names {
					m.bags[name] = &bag{name: name}
				}
				rt.Repeat(map[string]func(*rapid.T){"offer": m.offer, "process": m.process, "publish": m.publish, "": m.check})
				m.drain()
			})
		})
	}
}

func atNoon() time.Time { return noon }

// A bag is a queue that delivers in any order.
type bag struct {
	name     string
	messages []queue.Delivery
	last     int
}

func (b *bag) put(messages []queue.Message) []queue.SendResult {
	for _, m := range messages {
		b.last++
		d := queue.Delivery{Message: m, Queue: b.name, ID: fmt.Sprint(b.name, "-", b.last), Receives: 1, Sent: noon}
		if queue.FIFO(b.name) {
			d.SequenceNumber = fmt.Sprintf("%020d", b.last)
		}
		b.messages = append(b.messages, d)
	}
	return make([]queue.SendResult, len(messages))
}

// A machine is a system and its input.
type machine struct {
	*rapid.T
	test    *testing.T
	store   record.Store
	prefix  string // of the groups of this history
	bags    map[string]*bag
	copies  []record.Delivery // all deliveries to the destination
	offered map[record.GroupKey][]string
}

// offer enqueues a new message, once or twice.
func (m *machine) offer(rt *rapid.T) {
	group := m.prefix + rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "group")
	x := record.Message{Stream: rapid.SampledFrom([]string{"orders", "numbers"}).Draw(rt, "stream"), Group: group}
	key := x.GroupKey()
	n := len(m.offered[key]) + 1
	x.Body = fmt.Append(nil, n)
	if x.Stream == "numbers" {
		x.Source, x.Sequence = "s", uint64(n)
	} else {
		x.ID = fmt.Sprint(group, "/", n)
	}
	if m.offered == nil {
		m.offered = map[record.GroupKey][]string{}
	}
	m.offered[key] = append(m.offered[key], fmt.Sprint(n))
	for range rapid.IntRange(1, 2).Draw(rt, "copies") {
		if err := m.worker(nil).pipeline.Queues.Enqueue(context.Background(), x); err != nil {
			rt.Fatal(err)
		}
	}
}

func (m *machine) process(rt *rapid.T) { m.serve(m.turn(rt, "ingress", "ingress.fifo")) }

func (m *machine) publish(rt *rapid.T) { m.serve(m.turn(rt, "publish", "publish.fifo")) }

// A turn is one call of the function behind a queue, and the event at one of its calls to ports,
// counted from 0.
type turn struct {
	queue     string
	from, n   int  // of the messages that the queue has
	backwards bool // in reverse order
	again     bool // they are delivered once more, including the settled ones
	what      string
	at        int
	other     *turn // a turn of another worker meanwhile
}

func (m *machine) turn(rt *rapid.T, queues ...string) *turn {
	x := &turn{
		queue: rapid.SampledFrom(queues).Draw(rt, "queue"), from: rapid.IntRange(0, 7).Draw(rt, "from"), n: rapid.IntRange(1, 3).Draw(rt, "messages"),
		backwards: rapid.Bool().Draw(rt, "backwards"), again: rapid.IntRange(0, 4).Draw(rt, "again") == 4,
	}
	kinds := []string{"nothing", "fails before", "fails after", "dies before", "dies after", "handler fails"}
	if len(queues) < 3 {
		kinds = append(kinds, "meanwhile", "meanwhile", "meanwhile")
	}
	if x.what = rapid.SampledFrom(kinds).Draw(rt, "what happens"); x.what == "nothing" {
		return x
	}
	x.at = rapid.IntRange(0, 9).Draw(rt, "at call")
	if x.what == "meanwhile" {
		x.other = m.turn(rt, "ingress", "ingress.fifo", "publish.fifo")
	}
	return x
}

// serve passes some messages of a queue to its function.
func (m *machine) serve(x *turn) {
	b := m.bags[x.queue]
	var batch []queue.Delivery
	for i := range min(x.n, len(b.messages)) {
		batch = append(batch, b.messages[(x.from+i)%len(b.messages)])
	}
	if x.backwards {
		slices.Reverse(batch)
	}
	if len(batch) > 0 {
		m.deliver(b, batch, m.worker(x), x.again)
	}
}

// deliver removes the settled messages from the queue, unless the worker died.
func (m *machine) deliver(b *bag, batch []queue.Delivery, w *worker, again bool) {
	handle := w.pipeline.Process().Handle
	if strings.HasPrefix(b.name, "publish") {
		handle = w.pipeline.Publish().Handle
	}
	dispositions := handle(w.ctx, batch)
	if again || w.ctx.Err() != nil {
		return
	}
	b.messages = slices.DeleteFunc(b.messages, func(d queue.Delivery) bool {
		i := slices.IndexFunc(batch, func(x queue.Delivery) bool { return x.ID == d.ID })
		return i >= 0 && !dispositions[i].Retry
	})
}

// drain runs a worker without events until it is done, and checks that no work is left.
func (m *machine) drain() {
	for n := 0; m.busy(); n++ {
		if n > 100 {
			m.Fatalf("it does not end: %v", m.bags)
		}
		for _, name := range names[:4] {
			if b := m.bags[name]; len(b.messages) > 0 {
				m.deliver(b, slices.Clone(b.messages), m.worker(nil), false)
			}
		}
	}
	m.check(m.T)
	for key, offered := range m.offered {
		g := m.group(key)
		if applied := strings.Fields(string(g.State)); len(applied) != len(offered) || len(m.first(key)) != len(offered) || len(g.Pending) > 0 || g.HasHeld() {
			m.Fatalf("%s: offered %v, applied %v, sent %v; record %+v", key.Stream, offered, applied, m.first(key), g)
		}
	}
	if letters := len(m.bags["dead"].messages) + len(m.bags["dead-publish"].messages); letters > 0 {
		m.Fatalf("%d dead letters", letters)
	}
}

func (m *machine) busy() bool {
	return slices.ContainsFunc(names[:4], func(name string) bool { return len(m.bags[name].messages) > 0 })
}

// check is the specification: each message is applied at most once, numbered ones in order; the
// sent effects are those of the applied messages, in their order.
func (m *machine) check(*rapid.T) {
	for key, offered := range m.offered {
		applied := strings.Fields(string(m.group(key).State))
		for i, id := range applied {
			if !slices.Contains(offered, id) || slices.Contains(applied[:i], id) || key.Stream == "numbers" && id != offered[i] {
				m.Fatalf("%s: offered %v, applied %v", key.Stream, offered, applied)
			}
		}
		if sent := m.first(key); len(sent) > len(applied) || !slices.Equal(sent, applied[:len(sent)]) {
			m.Fatalf("%s: applied %v, sent %v", key.Stream, applied, sent)
		}
	}
}

func (m *machine) group(key record.GroupKey) record.Group {
	groups, _, err := m.store.Load(context.Background(), []record.GroupKey{key}, nil)
	if err != nil {
		m.Fatal(err)
	}
	return groups[0]
}

// first returns the first copies of the effects that a group has sent. It fails if one identity has
// two contents.
func (m *machine) first(key record.GroupKey) []string {
	var out []string
	content := map[string]string{}
	for _, d := range m.copies {
		if d.Stream != key.Stream || d.Group != key.Group {
			continue
		}
		body := string(d.Effect.Body)
		if before, ok := content[d.Identity]; !ok {
			out = append(out, body)
		} else if before != body {
			m.Fatalf("%s stands for %s and for %s", d.Identity, before, body)
		}
		content[d.Identity] = body
	}
	return out
}

// A worker is one process, with at most one event.
type worker struct {
	*machine
	pipeline *Pipeline
	ctx      context.Context //nolint:containedctx // a process that ends
	die      func()
	turn     *turn
	// groups of a batch are processed concurrently; this serialises their calls
	one    sync.Mutex
	calls  int
	failed bool
}

func (m *machine) worker(x *turn) *worker {
	w := &worker{machine: m, turn: x}
	w.ctx, w.die = context.WithCancel(context.Background())
	handler := func(_ context.Context, a *record.Attempt, x record.Message) error {
		w.one.Lock()
		fails := w.turn != nil && w.turn.what == "handler fails" && !w.failed
		w.failed = w.failed || fails
		w.one.Unlock()
		if fails {
			return errors.New("not now")
		}
		a.State = append(a.State, string(x.Body)+" "...)
		a.Send(record.Effect{To: []string{"out"}, Body: x.Body})
		return nil
	}
	at := func(name string) queue.Queue { return way{w, m.bags[name]} }
	var err error
	w.pipeline, err = New(Config{
		Config: parsed(m.test, writing), Store: reach{w}, Now: atNoon, Trusted: []string{wire.Sender},
		Ports: Ports{at("ingress"), at("ingress.fifo"), at("publish"), at("publish.fifo"), at("dead"), at("dead-publish"), Delays{}},
		Open:  opener(outlet{w}),
		Declared: []system.Stream{
			{Stream: record.Stream{Name: "orders", Handler: handler}}, {Stream: record.Stream{Name: "numbers", Admission: record.BySequence, Handler: handler}},
		},
	})
	if err != nil {
		m.Fatal(err)
	}
	return w
}

var errPlanned = errors.New("planned fault")

// call makes a call to a port.
func (w *worker) call(do func() error) error {
	w.one.Lock()
	defer w.one.Unlock()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.calls++
	if w.turn == nil || w.turn.at != w.calls-1 {
		return do()
	}
	switch w.turn.what {
	case "fails before":
		return errPlanned
	case "dies before":
		w.die()
		return w.ctx.Err()
	case "meanwhile":
		w.serve(w.turn.other)
	}
	err := do()
	switch w.turn.what {
	case "fails after":
		return errPlanned
	case "dies after":
		w.die()
		return w.ctx.Err()
	}
	return err
}
