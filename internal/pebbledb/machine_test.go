package pebbledb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/record"
)

// A town is the part of the test that survives power failures: the acknowledgements of senders, and
// the arrived effects.
type town struct {
	mu sync.Mutex
	// running is the machine with power. Calls of other machines happen after their power failed,
	// and do not count.
	running  *machine
	accepted map[string]record.GroupKey
	arrived  map[string]string // message by identity
	wrong    []string
}

func (w *town) as(m *machine, f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != m {
		return false
	}
	f()
	return true
}

// A machine is the embedded system on one disk, until its power fails.
type machine struct {
	town    *town
	fs      *vfs.MemFS
	db      *pebble.DB
	store   *pebblestore.Store
	ingress *pebblequeue.Queue
	publish *pebblequeue.Queue
	engine  *dedup.Engine
	off     chan struct{}
	work    sync.WaitGroup
}

func start(t *testing.T, w *town, fs *vfs.MemFS) *machine {
	t.Helper()
	m := &machine{town: w, fs: fs, off: make(chan struct{})}
	var err error
	// tables in memory are small, so that they are flushed
	if m.db, err = pebbledb.Open("data", &pebble.Options{FS: fs, MemTableSize: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	m.store = pebblestore.New(m.db, pebblestore.Options{})
	for name, q := range map[string]**pebblequeue.Queue{"ingress": &m.ingress, "publish": &m.publish} {
		if *q, err = pebblequeue.Open(m.db, name, pebblequeue.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	handler := func(_ context.Context, a *record.Attempt, msg record.Message) error {
		a.State = append(a.State, msg.Identity()+","...)
		if len(msg.Body)%2 == 0 {
			a.Send(record.Effect{To: []string{"out"}, Body: []byte(msg.Identity())})
		}
		return nil
	}
	m.engine, err = dedup.New(dedup.Config{
		Streams: []record.Stream{{Name: "key", Handler: handler}, {Name: "seq", Admission: record.BySequence, Handler: handler}},
		Store:   m.store, Queues: m, Senders: map[string]record.Sender{"out": m},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.running = m
	w.mu.Unlock()
	m.work.Go(func() { m.poll(m.ingress, m.process) })
	m.work.Go(func() { m.poll(m.ingress, m.process) })
	m.work.Go(func() { m.poll(m.publish, m.publishAll) })
	return m
}

// Trigger implements record.Queues. Like the embedded system, it does not wait for the disk.
func (m *machine) Trigger(ctx context.Context, groups []record.GroupKey, delay time.Duration) error {
	var messages []queue.Message
	for _, g := range groups {
		messages = append(messages, queue.Message{Body: encode(g), Delay: delay})
	}
	return sent(m.publish.SendOrdered(ctx, messages))
}

// Return implements record.Queues.
func (m *machine) Return(ctx context.Context, messages []record.Message) error {
	var out []queue.Message
	for _, x := range messages {
		out = append(out, queue.Message{Body: encode(x)})
	}
	return sent(m.ingress.SendOrdered(ctx, out))
}

// DeadLetter implements record.Queues.
func (m *machine) DeadLetter(_ context.Context, refused []record.Refused) error {
	m.town.as(m, func() { m.town.wrong = append(m.town.wrong, fmt.Sprintf("refused: %+v", refused)) })
	return nil
}

func (*machine) Delay(context.Context, []record.Delayed) error { return nil }

// Send implements record.Sender, as the destination.
func (m *machine) Send(_ context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	on := m.town.as(m, func() {
		for _, d := range deliveries {
			if was, ok := m.town.arrived[d.Identity]; ok && was != string(d.Effect.Body) {
				m.town.wrong = append(m.town.wrong, fmt.Sprintf("%s is %s, and was %s", d.Identity, d.Effect.Body, was))
			}
			m.town.arrived[d.Identity] = string(d.Effect.Body)
		}
	})
	for i := range errs {
		if !on {
			errs[i] = errors.New("no power")
		}
	}
	return errs
}

func encode(x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func sent(results []queue.SendResult) error {
	var errs []error
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	return errors.Join(errs...)
}

// poll passes batches to a worker until the machine is off. Deliveries that the worker does not
// settle are released.
func (m *machine) poll(q *pebblequeue.Queue, work func(batch []queue.Delivery) []bool) {
	ctx := context.Background()
	for {
		select {
		case <-m.off:
			return
		default:
		}
		batch, err := q.Receive(ctx, 10, time.Hour, 5*time.Millisecond)
		if err != nil {
			return // closed
		}
		var done []string
		for i, settled := range work(batch) {
			if settled {
				done = append(done, batch[i].Receipt)
			} else {
				// otherwise it stays hidden until the next start
				_ = q.ChangeVisibility(ctx, batch[i].Receipt, 0)
			}
		}
		_ = errors.Join(q.Delete(ctx, done)...) // messages that are not deleted are redelivered
	}
}

func (m *machine) process(batch []queue.Delivery) []bool {
	messages := make([]record.Message, len(batch))
	for i := range batch {
		if err := json.Unmarshal([]byte(batch[i].Body), &messages[i]); err != nil {
			panic(err)
		}
	}
	settled := make([]bool, len(batch))
	for i, o := range m.engine.Process(context.Background(), messages) {
		settled[i] = o.Settled()
	}
	return settled
}

func (m *machine) publishAll(batch []queue.Delivery) []bool {
	groups := make([]record.GroupKey, len(batch))
	for i := range batch {
		if err := json.Unmarshal([]byte(batch[i].Body), &groups[i]); err != nil {
			panic(err)
		}
	}
	settled := make([]bool, len(batch))
	for i, err := range m.engine.Publish(context.Background(), groups) {
		settled[i] = err == nil
	}
	return settled
}

// fail cuts the power, and returns the disk of the next start: unsynced data is there in part, or
// not at all.
func (m *machine) fail(c vfs.CrashCloneCfg) *vfs.MemFS {
	m.town.mu.Lock()
	disk := m.fs.CrashClone(c)
	m.town.running = nil
	m.town.mu.Unlock()
	return disk
}

// end waits for the goroutines of a machine without power.
func (m *machine) end(t *testing.T) {
	t.Helper()
	close(m.off)
	err := errors.Join(m.ingress.Close(), m.publish.Close())
	m.work.Wait()
	if err := errors.Join(err, m.db.Close()); err != nil {
		t.Error(err)
	}
}

// offer sends messages of two streams and several groups, some of them twice, beginning at number
// from, until the machine loses its power. It returns the next number.
func (m *machine) offer(t *testing.T, rng *rand.Rand, from, count int) int {
	t.Helper()
	for ; count > 0; count-- {
		for range 1 + rng.IntN(5)/4 {
			x := message(from)
			if err := sent(m.ingress.Send(t.Context(), []queue.Message{{Body: encode(x)}})); err != nil {
				t.Fatal(err)
			}
			m.town.as(m, func() { m.town.accepted[x.Identity()] = x.GroupKey() })
		}
		from++
	}
	return from
}

// message returns the message of a number: by key, or numbered within its group.
func message(n int) record.Message {
	m := record.Message{Stream: "key", ID: fmt.Sprint("k", n), Group: fmt.Sprint("g", n%7), Body: make([]byte, n%50)}
	if n%2 == 1 {
		group := n / 2 % 3
		m.Stream, m.ID, m.Group, m.Source, m.Sequence = "seq", "", fmt.Sprint("g", group), fmt.Sprint("s", group), uint64(n/2/3)+1
	}
	return m
}

// drain waits until the queues are empty.
func (m *machine) drain(t *testing.T) {
	t.Helper()
	for limit := time.After(time.Minute); m.ingress.Len()+m.publish.Len() > 0; runtime.Gosched() {
		select {
		case <-limit:
			t.Fatalf("%d and %d messages are left", m.ingress.Len(), m.publish.Len())
		default:
		}
	}
}

// check compares the acknowledgements with the state of the system, and with the arrived effects.
func (m *machine) check(t *testing.T) {
	t.Helper()
	w := m.town
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.wrong {
		t.Error(x)
	}
	for id, key := range w.accepted {
		groups, _, err := m.store.Load(t.Context(), []record.GroupKey{key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := count(groups[0].State, id); n != 1 {
			t.Errorf("%s is %d times in the state of %v", id, n, key)
		}
		if g := groups[0]; len(g.Pending) > 0 || g.HasHeld() {
			t.Errorf("pending in the group of %s: %d, held %v", id, len(g.Pending), g.HasHeld())
		}
	}
	w.checkArrived(t)
}

// checkArrived expects one effect of each accepted message by key, as the handler sends it, and no
// others.
func (w *town) checkArrived(t *testing.T) {
	t.Helper()
	copies, want := map[string]int{}, map[string]int{}
	for _, id := range w.arrived {
		copies[id]++
	}
	for id, key := range w.accepted {
		if key.Stream == "key" {
			want[id] = 1
		}
	}
	if diff := cmp.Diff(want, copies); diff != "" {
		t.Errorf("the identities under which the effect of each message arrived (-want +got):\n%s", diff)
	}
	if len(want) == 0 || len(want) == len(w.accepted) {
		t.Errorf("%d of %d accepted messages send something", len(want), len(w.accepted))
	}
}
