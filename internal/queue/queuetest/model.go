package queuetest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/effectively-once/once/internal/queue"
)

// Model makes a random history of calls, one after the other, on each kind of queue and on a small
// model in memory, and compares the results. The queue has to be Exact: its clock is moved, and
// both return the same messages in the same call.
func Model(t *testing.T, h Harness) {
	t.Helper()
	if h.Unit == 0 {
		h.Unit = time.Minute
	}
	for _, fifo := range []bool{false, true} {
		t.Run(map[bool]string{false: "standard", true: "fifo"}[fifo], func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				dead := h.New(t, Options{FIFO: fifo})
				m := &machine{
					t: t, harness: h, queue: h.New(t, Options{FIFO: fifo, DeadLetter: dead, MaxReceives: maxReceives}), dead: dead, model: model{fifo: fifo},
				}
				rt.Repeat(map[string]func(*rapid.T){
					"send": m.send, "receive": m.receive, "delete": m.delete, "change visibility": m.change, "time passes": m.pass, "": func(*rapid.T) {},
				})
				m.drain(rt)
			})
		})
	}
}

const maxReceives = 3

// A model is a queue in memory; its time is counted in units.
type model struct {
	fifo     bool
	now      int
	messages []*kept
}

type kept struct {
	body, group string
	until       int // when it becomes visible
	receives    int
}

func (m *model) free(k *kept) bool {
	return k.until <= m.now && !(m.fifo && slices.ContainsFunc(m.messages, func(o *kept) bool { return o.group == k.group && o.until > m.now }))
}

// receivable returns the messages that a receive may return: the visible ones, and of each group
// without a hidden message only the first ones.
func (m *model) receivable() map[string]*kept {
	out := map[string]*kept{}
	for _, k := range m.messages {
		if m.free(k) {
			out[k.body] = k
		}
	}
	return out
}

// A delivered is a message and its receipt, for its n-th delivery.
type delivered struct {
	*kept
	receipt string
	n       int
}

func (m *model) current(d delivered) bool {
	return slices.Contains(m.messages, d.kept) && d.until > m.now && d.receives == d.n
}

type machine struct {
	t       *testing.T
	harness Harness
	queue   queue.Queue
	dead    queue.Queue
	model   model
	sent    int
	mine    []delivered
}

func (m *machine) send(rt *rapid.T) {
	m.sent++
	x := queue.Message{Body: strconv.Itoa(m.sent)}
	k := &kept{body: x.Body}
	if m.model.fifo {
		k.group = rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "group")
		x.Group, x.DedupID = k.group, x.Body
	} else {
		units := rapid.IntRange(0, 2).Draw(rt, "delay")
		k.until, x.Delay = m.model.now+units, time.Duration(units)*m.harness.Unit
	}
	if r := m.queue.Send(m.t.Context(), []queue.Message{x}); r[0].Err != nil {
		rt.Fatal(r[0].Err)
	}
	m.model.messages = append(m.model.messages, k)
}

func (m *machine) receive(rt *rapid.T) {
	limit, units := rapid.IntRange(1, 4).Draw(rt, "max"), rapid.IntRange(1, 3).Draw(rt, "visibility")
	m.take(rt, limit, units)
}

// take receives, and compares. Messages that were received too often are moved meanwhile, in any
// order.
func (m *machine) take(rt *rapid.T, limit, units int) {
	got, err := m.queue.Receive(m.t.Context(), limit, time.Duration(units)*m.harness.Unit, 0)
	if err != nil {
		rt.Fatal(err)
	}
	expected := m.model.receivable()
	for _, d := range got {
		k := expected[d.Body]
		if k == nil || k.receives >= maxReceives || d.Receives != k.receives+1 || m.model.fifo && !m.first(k) {
			rt.Fatalf("received %s for the %d. time, not one of %v", d.Body, d.Receives, expected)
		}
		k.until, k.receives = m.model.now+units, k.receives+1
		m.mine = append(m.mine, delivered{k, d.Receipt, k.receives})
	}
	if len(got) == 0 && len(expected) > 0 && !slices.ContainsFunc(m.model.messages, func(k *kept) bool { return k.receives >= maxReceives }) {
		rt.Fatalf("nothing was received of %v", expected)
	}
}

// first reports whether all earlier messages of a group were received in this call, or are to be
// moved.
func (m *machine) first(k *kept) bool {
	for _, o := range m.model.messages {
		if o == k {
			return true
		}
		if o.group == k.group && o.until <= m.model.now && o.receives < maxReceives {
			return false
		}
	}
	return false
}

// some returns one of the deliveries, perhaps an old one.
func (m *machine) some(rt *rapid.T) delivered {
	if len(m.mine) == 0 {
		rt.Skip("nothing was received")
	}
	return m.mine[rapid.IntRange(max(0, len(m.mine)-6), len(m.mine)-1).Draw(rt, "delivery")]
}

func (m *machine) delete(rt *rapid.T) {
	d := m.some(rt)
	if d.receives >= maxReceives && !m.model.current(d) {
		rt.Skip("nobody knows whether it has been moved yet")
	}
	_ = m.queue.Delete(m.t.Context(), []string{d.receipt})
	if !m.model.fifo || m.model.current(d) { // a standard queue accepts old receipts too
		m.model.messages = slices.DeleteFunc(m.model.messages, func(k *kept) bool { return k == d.kept })
	}
}

func (m *machine) change(rt *rapid.T) {
	d := m.some(rt)
	units := rapid.IntRange(0, 2).Draw(rt, "visibility")
	err := m.queue.ChangeVisibility(m.t.Context(), d.receipt, time.Duration(units)*m.harness.Unit)
	if current := m.model.current(d); current != (err == nil) {
		rt.Fatalf("changed the visibility of %s: %v, current %v", d.body, err, current)
	} else if current {
		d.until = m.model.now + units
	}
}

func (m *machine) pass(rt *rapid.T) {
	units := rapid.IntRange(1, 3).Draw(rt, "units")
	m.harness.Advance(m.t, time.Duration(units)*m.harness.Unit)
	m.model.now += units
}

// drain receives the remaining messages until they are in the dead-letter queue, and compares these
// with the messages that were sent and not deleted.
func (m *machine) drain(rt *rapid.T) {
	want := map[string]bool{}
	for _, k := range m.model.messages {
		want[k.body] = true
	}
	for range (maxReceives + 1) * (len(want) + 1) {
		m.harness.Advance(m.t, 4*m.harness.Unit)
		m.model.now += 4
		m.take(rt, 10, 1)
	}
	got := map[string]bool{}
	for {
		ds, err := m.dead.Receive(m.t.Context(), 10, time.Hour, 0)
		if err != nil {
			rt.Fatal(err)
		}
		if len(ds) == 0 {
			break
		}
		for _, d := range ds {
			got[d.Body] = true
			// so that the next one of its group can be received
			m.dead.Delete(m.t.Context(), []string{d.Receipt})
		}
	}
	for body := range got {
		if k := slices.IndexFunc(m.model.messages, func(k *kept) bool { return k.body == body }); k < 0 || m.model.messages[k].receives < maxReceives {
			rt.Fatalf("%s is a dead letter", body)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		rt.Fatalf("dead letters %v, want %v", got, want)
	}
}
