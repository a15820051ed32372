package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/testkit/memdelay"
)

func (w *world) delayed(store delay.Store, horizon time.Duration) *Queues {
	ports := w.ports()
	ports.Delays = Delays{Store: store, Horizon: horizon}
	return w.ways().Over(ports)
}

func delayedBy(w *world, after time.Duration, body string) record.Message {
	m := message("orders", "g", body)
	m.ID, m.Accepted, m.NotBefore = "id of "+body, w.now, w.now.Add(after)
	return m
}

func mustEnqueue(t *testing.T, q *Queues, messages ...record.Message) {
	t.Helper()
	for i, err := range q.EnqueueAll(t.Context(), messages) {
		if err != nil {
			t.Fatalf("message %d: got %v, want no error", i, err)
		}
	}
}

func TestADelayedMessageIsOnItsQueueWhenItIsDueAndNotBefore(t *testing.T) {
	w, store := newWorld(t), memdelay.New()
	q := w.delayed(store, 0)
	keeper := delay.NewKeeper(store, q.Move, delay.Options{Now: w.clock})
	mustEnqueue(t, q, message("orders", "g", "now"), delayedBy(w, time.Hour, "later"), message("orders", "g", "also now"))
	if err := q.Enqueue(t.Context(), delayedBy(w, time.Minute, "sooner")); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Minute - 1)
	if _, err := keeper.MoveDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.want(map[string][]string{"ingress.fifo": {"now", "also now"}})
	due := w.now.Add(1)
	w.now = w.now.Add(time.Hour)
	if _, err := keeper.MoveDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.want(map[string][]string{"ingress.fifo": {"now", "also now", "sooner", "later"}})
	d := w.peek("ingress.fifo")[2]
	m, _, err := wire.FromQueue(&d, trusting())
	if err != nil || !m.NotBefore.Equal(due) || !m.Accepted.Equal(due) || m.ID != "id of sooner" {
		t.Errorf("got %+v (%v), want id of sooner, which is accepted when it is due, at %v", m, err, due)
	}
}

func TestAMessageWhoseTimeIsOverIsNotDelayed(t *testing.T) {
	w := newWorld(t)
	mustEnqueue(t, w.delayed(memdelay.New(), 0), delayedBy(w, 0, "due"), delayedBy(w, -time.Hour, "overdue"))
	w.want(map[string][]string{"ingress.fifo": {"due", "overdue"}})
}

func TestCopiesOfADelayedMessageAreOneItemIfTheirTimesAreTheSame(t *testing.T) {
	w, store := newWorld(t), memdelay.New()
	q := w.delayed(store, 0)
	mustEnqueue(t, q, delayedBy(w, time.Hour, "a"), delayedBy(w, time.Hour, "a"), delayedBy(w, 2*time.Hour, "a"), delayedBy(w, time.Hour, "b"))
	if got, _ := store.Stats(t.Context()); got.Waiting != 3 {
		t.Errorf("%d items wait, want 3: a, a at its other time, and b", got.Waiting)
	}
}

func TestAQueueThatDelaysKeepsMessagesUpToItsHorizonInTheStandardQueue(t *testing.T) {
	w, store := newWorld(t), memdelay.New()
	q := w.delayed(store, 15*time.Minute)
	mustEnqueue(t, q, delayedBy(w, 1500*time.Millisecond, "soon"), delayedBy(w, 15*time.Minute, "horizon"), delayedBy(w, 15*time.Minute+1, "beyond"))
	w.want(map[string][]string{"ingress": {"soon", "horizon"}})
	items, err := store.Due(t.Context(), delay.Key{}, w.now.Add(time.Hour), 10)
	if err != nil || len(items) != 1 || items[0].Queue != "ingress" || items[0].Message.Body != "beyond" || items[0].Message.Group != "" {
		t.Errorf("got %+v (%v), want the message beyond, for the standard queue", items, err)
	}
	w.now = w.now.Add(1500 * time.Millisecond)
	if got := w.ready("ingress"); len(got) != 0 {
		t.Errorf("%q is ready half a second early, want nothing: delays are rounded up", bodies(got))
	}
	w.now = w.now.Add(500 * time.Millisecond)
	if got := w.ready("ingress"); fmt.Sprint(bodies(got)) != "[soon]" {
		t.Errorf("%q is ready after two seconds, want soon", bodies(got))
	}
}

// small is a store that takes small items only.
type small struct{ *memdelay.Store }

func (s small) Put(ctx context.Context, items []delay.Item) error {
	for _, item := range items {
		if item.Message.Size() > 1000 {
			return fmt.Errorf("put: %w", delay.ErrTooLarge)
		}
	}
	return s.Store.Put(ctx, items)
}

func (s small) Fits(item *delay.Item) error {
	if item.Message.Size() > 100_000 {
		return fmt.Errorf("put: %w", delay.ErrTooLarge)
	}
	return nil
}

// If they were committed, each would become a dead letter, and the record would keep the timer.
func TestAHandlerThatDelaysTooMuchFails(t *testing.T) {
	for name, run := range map[string]func(a *record.Attempt, after time.Duration, body []byte) error{
		"timer": func(a *record.Attempt, after time.Duration, body []byte) error {
			return a.SetTimer("later", after, record.Effect{Body: body})
		},
		"effect": func(a *record.Attempt, after time.Duration, body []byte) error {
			return a.SendAfter(record.Effect{To: []string{"shop"}, Body: body}, after)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ports := w.ports()
			ports.Delays = Delays{Store: small{memdelay.New()}, Horizon: 15 * time.Minute}
			orders := system.Stream{Stream: record.Stream{Name: "orders", Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
				after := time.Hour
				if strings.HasPrefix(m.ID, "soon") {
					after = time.Minute
				}
				return run(a, after, m.Body)
			}}}
			p, err := New(Config{
				Config: parsed(t, "streams: {orders: {}}\ndestinations: {shop: {file: shop.jsonl}}"), Declared: []system.Stream{orders}, Store: memstore.New(w.clock), Ports: ports,
				Open: opener(&ledger{}), Now: w.clock,
			})
			if err != nil {
				t.Fatal(err)
			}
			for id, size := range map[string]int{"fits": 60_000, "soon": 200_000, "too large": 100_000} {
				m := message("orders", id, id)
				m.Body = make([]byte, size)
				err := p.Engine.Process(t.Context(), []record.Message{m})[0].Err
				if failed := err != nil && strings.Contains(err.Error(), "too large to wait"); failed != (id == "too large") {
					t.Errorf("%s: got %v, want an error only if it is too large", id, err)
				}
			}
		})
	}
}

func TestAMessageThatIsTooLargeToWaitFailsAlone(t *testing.T) {
	w, store := newWorld(t), memdelay.New()
	huge, invalid := delayedBy(w, time.Hour, "huge"), delayedBy(w, time.Hour, "invalid")
	huge.Body, invalid.Body = make([]byte, 1000), make([]byte, queue.MaxLarge)
	errs := w.delayed(small{store}, 0).EnqueueAll(t.Context(), []record.Message{delayedBy(w, time.Hour, "a"), huge, delayedBy(w, time.Hour, "b"), invalid})
	if errs[0] != nil || !errors.Is(errs[1], delay.ErrTooLarge) || errs[2] != nil || errs[3] == nil {
		t.Errorf("got %v, want errors for the second message, which is too large for the store, and for the fourth, which is too large for its queue", errs)
	}
	if got, _ := store.Stats(t.Context()); got.Waiting != 2 {
		t.Errorf("%d items wait, want 2", got.Waiting)
	}
}

func TestEffectsAndTimersWaitInTheStoreAndThenReachTheirQueues(t *testing.T) {
	w, store := newWorld(t), memdelay.New()
	q := w.delayed(small{store}, 0)
	effect := func(number uint64, body string) record.Delayed {
		return record.Delayed{NotBefore: w.now.Add(24 * time.Hour), To: "shop", Delivery: &record.Delivery{
			Identity: fmt.Sprint("orders/g/", number), Stream: "orders", Group: "g", Number: number, Effect: record.Effect{To: []string{"shop"}, Body: []byte(body)},
		}}
	}
	timer := record.Delayed{NotBefore: w.now.Add(time.Hour), Message: message("orders", "g", "timer")}
	for range 2 { // a copy of each is the same item
		if err := q.Delay(t.Context(), []record.Delayed{effect(1, "{}"), timer, effect(2, "{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Delay(t.Context(), []record.Delayed{effect(3, strings.Repeat("x", 1000))}); err != nil {
		t.Fatal(err)
	}
	w.want(map[string][]string{"dead-publish": {"effect"}})
	w.now = w.now.Add(24 * time.Hour)
	if moved, err := delay.NewKeeper(store, q.Move, delay.Options{Now: w.clock}).MoveDue(t.Context()); err != nil || moved != 3 {
		t.Errorf("moved %d (%v), want the timer and two effects", moved, err)
	}
	w.want(map[string][]string{"ingress": {"timer"}, "publish": {"effect", "effect"}, "dead-publish": {"effect"}})
}

// An effect that is delayed for longer than its group is remembered may be due at the same time as
// one of the next group with that name, for example at the end of the year.
func TestEffectsOfTwoIncarnationsOfAGroupThatAreDueTogetherBothArrive(t *testing.T) {
	w, store := newWorld(t), memdelay.New()
	q := w.delayed(store, 0)
	for _, incarnation := range []uint64{1, 2, 1} {
		if err := q.Delay(t.Context(), []record.Delayed{{NotBefore: w.now.Add(time.Hour), To: "shop", Delivery: &record.Delivery{
			Identity: "orders/g/1", Stream: "orders", Group: "g", Number: 1, Incarnation: incarnation, Effect: record.Effect{To: []string{"shop"}},
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := store.Stats(t.Context()); err != nil || got.Waiting != 2 {
		t.Errorf("%d effects wait (%v), want one of each incarnation", got.Waiting, err)
	}
}

func TestASystemWithoutAStoreOfDelaysRefusesADelayedMessage(t *testing.T) {
	w := newWorld(t)
	if err := w.ways().Enqueue(t.Context(), delayedBy(w, time.Hour, "a")); err == nil {
		t.Error("got no error, want one")
	}
	if errs := w.ways().Move(t.Context(), "another", []queue.Message{{Body: "x"}}); len(errs) != 1 || errs[0] == nil {
		t.Errorf("an unknown queue: got %v, want one error", errs)
	}
	w.want(map[string][]string{})
}
