package dedup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
)

// A world is everything around the engine: queues that deliver at least once, destinations, and a store whose answers get lost.
type world struct {
	mu       sync.Mutex
	rnd      *rand.Rand
	store    *memstore.Store
	ingress  []dedup.Message
	dead     []dedup.Refused
	triggers []dedup.GroupKey
	sent     map[string]dedup.Delivery
	order    map[string][]uint64 // first copies, by stream/group
	repeats  int
	faults   float64
	now      time.Time
}

// A worker is one process: its ports stop answering when it dies.
type simWorker struct {
	*world
	dead bool
}

// fault decides what happens at a port call: the call is made or not, and its answer arrives or not.
func (w *simWorker) fault() (apply, answer bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return false, false
	}
	switch f := w.rnd.Float64(); {
	case f < w.faults*0.2:
		w.dead = true
		return w.rnd.IntN(2) == 0, false
	case f < w.faults*0.6:
		return true, false
	case f < w.faults:
		return false, false
	}
	return true, true
}

func (w *simWorker) call(do func() error) error {
	apply, answer := w.fault()
	var err error
	if apply {
		err = do()
	}
	if !answer {
		return errInjected
	}
	return err
}

type faultyStore struct{ w *simWorker }

func (s faultyStore) Load(ctx context.Context, g []dedup.GroupKey, t []dedup.TokenKey) (groups []dedup.Group, tokens []dedup.Token, err error) {
	err = s.w.call(func() error { groups, tokens, err = s.w.store.Load(ctx, g, t); return err })
	return groups, tokens, err
}

func (s faultyStore) Commit(ctx context.Context, c dedup.Commit) error {
	return s.w.call(func() error { return s.w.store.Commit(ctx, c) })
}

func (s faultyStore) Clear(ctx context.Context, c dedup.Clear) error {
	return s.w.call(func() error { return s.w.store.Clear(ctx, c) })
}

func (s faultyStore) Held(ctx context.Context, k dedup.HeldKey, n int) (held []dedup.Held, err error) {
	err = s.w.call(func() error { held, err = s.w.store.Held(ctx, k, n); return err })
	return held, err
}

func (s faultyStore) SwapToken(ctx context.Context, old, next dedup.Token) (t dedup.Token, err error) {
	err = s.w.call(func() error { t, err = s.w.store.SwapToken(ctx, old, next); return err })
	return t, err
}

func (s faultyStore) MarkDone(ctx context.Context, tokens []dedup.Token) error {
	return s.w.call(func() error { return s.w.store.MarkDone(ctx, tokens) })
}

func (w *simWorker) locked(do func()) error {
	return w.call(func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
		return nil
	})
}

func (w *simWorker) Trigger(_ context.Context, keys []dedup.GroupKey, _ time.Duration) error {
	return w.locked(func() { w.triggers = append(w.triggers, keys...) })
}

func (w *simWorker) Return(_ context.Context, ms []dedup.Message) error {
	return w.locked(func() { w.ingress = append(w.ingress, ms...) })
}

func (w *simWorker) DeadLetter(_ context.Context, refused []dedup.Refused) error {
	return w.locked(func() { w.world.dead = append(w.world.dead, refused...) })
}

func (w *simWorker) Send(_ context.Context, ds []dedup.Delivery) []error {
	errs := make([]error, len(ds))
	blocked := map[string]error{}
	for i, d := range ds {
		if errs[i] = blocked[d.Group]; errs[i] == nil {
			errs[i] = w.locked(func() { w.receive(d) })
			blocked[d.Group] = errs[i]
		}
	}
	return errs
}

func (w *world) receive(d dedup.Delivery) {
	if before, twice := w.sent[d.Identity]; twice {
		if string(before.Effect.Body) != string(d.Effect.Body) {
			panic("one identity, two contents: " + d.Identity)
		}
		w.repeats++
		return
	}
	w.sent[d.Identity] = d
	key := d.Stream + "/" + d.Group
	w.order[key] = append(w.order[key], d.Number)
}

// list is the handler's state: what was applied, in order.
type list struct{ IDs []string }

// record notes the message in the state and sends one effect, none, or two.
func record(_ context.Context, a *dedup.Attempt, m dedup.Message) error {
	var l list
	if len(a.State) > 0 {
		if err := json.Unmarshal(a.State, &l); err != nil {
			return err
		}
	}
	l.IDs = append(l.IDs, m.Identity())
	a.State, _ = json.Marshal(l)
	for range len(m.Body) % 3 {
		a.Send(dedup.Effect{To: []string{"out"}, Body: []byte(m.Identity())})
	}
	return nil
}

func (w *world) worker(t *testing.T, streams []dedup.Stream) (*simWorker, *dedup.Engine) {
	t.Helper()
	wk := &simWorker{world: w}
	e, err := dedup.New(dedup.Config{
		Streams: streams, Store: faultyStore{wk}, Queues: wk, Senders: map[string]dedup.Sender{"out": wk},
		Now: func() time.Time { return w.now }, Pause: func(context.Context, int) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return wk, e
}

// take removes up to n messages at random places, as a standard queue would deliver them; sometimes it delivers one again.
func (w *world) take(n int) []dedup.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []dedup.Message
	for len(out) < n && len(w.ingress) > 0 {
		i := w.rnd.IntN(len(w.ingress))
		out = append(out, w.ingress[i])
		if w.rnd.Float64() > w.faults {
			w.ingress = slices.Delete(w.ingress, i, i+1)
		}
	}
	return out
}

func (w *world) process(t *testing.T, streams []dedup.Stream) {
	ctx := t.Context()
	for range 4000 {
		batch := w.take(1 + w.pick(5))
		if len(batch) == 0 {
			return
		}
		wk, e := w.worker(t, streams)
		outcomes := e.Process(ctx, batch)
		w.mu.Lock()
		for i, o := range outcomes {
			switch {
			case wk.dead || !o.Settled():
				w.ingress = append(w.ingress, batch[i])
			case o.Kind == dedup.Rejected:
				w.dead = append(w.dead, dedup.Refused{Message: batch[i], Reason: o.Reason})
			}
		}
		w.mu.Unlock()
	}
}

func (w *world) pick(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

func (w *world) publish(t *testing.T, streams []dedup.Stream) {
	for range 4000 {
		w.mu.Lock()
		if len(w.triggers) == 0 {
			w.mu.Unlock()
			return
		}
		key := w.triggers[0]
		w.triggers = w.triggers[1:]
		w.mu.Unlock()
		wk, e := w.worker(t, streams)
		err := e.Publish(t.Context(), []dedup.GroupKey{key})[0]
		w.mu.Lock()
		if err != nil || wk.dead {
			w.triggers = append(w.triggers, key)
		}
		w.mu.Unlock()
	}
}

// drained runs workers until the queues are empty, under faults and then without.
func (w *world) drained(t *testing.T, streams []dedup.Stream) {
	for _, faults := range []float64{w.faults, w.faults, 0} {
		w.faults = faults
		for range 20 {
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { w.process(t, streams) })
				wg.Go(func() { w.publish(t, streams) })
			}
			wg.Wait()
		}
	}
	if len(w.ingress)+len(w.triggers) > 0 {
		t.Fatalf("queues are not empty: %d messages, %d triggers", len(w.ingress), len(w.triggers))
	}
}

func newWorld(seed uint64, faults float64) *world {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, 1)), sent: map[string]dedup.Delivery{}, order: map[string][]uint64{}, faults: faults,
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	w.store = memstore.New(func() time.Time { return w.now })
	return w
}

func TestUnderFaultsEachMessageIsAppliedOnceAndEachEffectSentUnderOneIdentity(t *testing.T) {
	for _, admission := range []dedup.Admission{dedup.ByKey, dedup.ByToken, dedup.BySequence} {
		for seed := range uint64(25) {
			t.Run(fmt.Sprintf("%s/%d", admission, seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(seed, 0.15)
				streams := []dedup.Stream{{Name: "s", Admission: admission, Handler: record}}
				const groups, each = 3, 12
				effects := 0
				for g := range groups {
					for n := uint64(1); n <= each; n++ {
						m := dedup.Message{Stream: "s", Group: fmt.Sprintf("g%d", g), Body: make([]byte, n)}
						if admission == dedup.BySequence {
							m.Source, m.Sequence = "src", n
						} else {
							m.ID = fmt.Sprintf("g%d-%d", g, n)
						}
						if admission == dedup.ByToken {
							w.issue(t, m)
						}
						effects += int(n % 3)
						w.ingress = append(w.ingress, m, m)
					}
				}
				w.drained(t, streams)
				w.check(t, groups, each, effects, admission == dedup.BySequence)
			})
		}
	}
}

func (w *world) issue(t *testing.T, m dedup.Message) {
	t.Helper()
	faults := w.faults
	w.faults = 0
	_, e := w.worker(t, []dedup.Stream{{Name: "s", Admission: dedup.ByToken, Handler: record}})
	if _, fresh, err := e.Issue(t.Context(), m); err != nil || !fresh {
		t.Fatalf("issue: fresh %v, %v", fresh, err)
	}
	w.faults = faults
}

func (w *world) check(t *testing.T, groups, each, effects int, ordered bool) {
	t.Helper()
	if len(w.sent) != effects {
		t.Errorf("sent %d effects, want %d", len(w.sent), effects)
	}
	if len(w.dead) > 0 {
		t.Errorf("dead letters: %v", w.dead)
	}
	for key, numbers := range w.order {
		if !slices.IsSorted(numbers) {
			t.Errorf("first copies of %s out of order: %v", key, numbers)
		}
	}
	for g := range groups {
		found, _, err := w.store.Load(t.Context(), []dedup.GroupKey{{Stream: "s", Group: fmt.Sprintf("g%d", g)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if found[0].HasEffects() || found[0].HasHeld() {
			t.Errorf("something is left: %+v", found[0])
		}
		var l list
		if err := json.Unmarshal(found[0].State, &l); err != nil {
			t.Fatal(err)
		}
		sorted := slices.Sorted(slices.Values(l.IDs))
		if len(l.IDs) != each || len(slices.Compact(sorted)) != each {
			t.Errorf("applied %v, want each of %d messages once", l.IDs, each)
		}
		for i, id := range l.IDs {
			if want := fmt.Sprintf("src/0/%d", i+1); ordered && id != want {
				t.Errorf("applied %s in place of %s", id, want)
			}
		}
	}
}
