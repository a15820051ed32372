package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A picky destination takes deliveries in order, up to one that it answers with 400.
type picky struct {
	ledger
	bad   string // a body
	every bool   // is bad
}

func (p *picky) Send(ctx context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	for i, d := range deliveries {
		switch {
		case i > 0 && errs[i-1] != nil:
			errs[i] = errs[i-1]
		case p.every || string(d.Effect.Body) == p.bad:
			errs[i] = &record.AnswerError{Status: 400, Text: "400 Bad Request", Body: "field x missing"}
		default:
			p.ledger.Send(ctx, deliveries[i:i+1])
		}
	}
	return errs
}

const picking = `
streams:
  orders: {destinations: [shop]}
destinations:
  shop: {file: shop.jsonl, retry: {first: 1s, max: 4s, for: 1m}}
`

// publishing is a pipeline with pending effects, and the publish queue's consumer.
type publishing struct {
	*world
	*Pipeline
	shop    *picky
	waiting *system.Waiting
	log     *bytes.Buffer
}

// newPublishing commits messages 1 to n of group g; the destination does not take message 1.
func newPublishing(t *testing.T, n int) *publishing {
	t.Helper()
	x := &publishing{world: newWorld(t), shop: &picky{bad: "1"}, waiting: system.NewWaiting(), log: &bytes.Buffer{}}
	p, err := New(Config{
		Config: parsed(t, picking), Store: memstore.New(x.clock), Ports: x.ports(), Open: opener(x.shop), Trusted: []string{wire.Sender},
		Waiting: x.waiting, Now: x.clock, Log: slog.New(slog.NewTextHandler(x.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	x.Pipeline = p
	for i := range n {
		m := message("orders", "g", strconv.Itoa(i+1))
		m.Headers = map[string]string{"kind": "test"}
		if out := p.Engine.Process(t.Context(), []record.Message{m}); out[0].Kind != record.Processed {
			t.Fatal(out)
		}
	}
	return x
}

// publish receives once, as an event source mapping does, and returns how many triggers are left.
func (x *publishing) publish() int {
	x.t.Helper()
	return x.receive("publish.fifo", x.Publish().Handle)
}

// receive receives once, as an event source mapping does, and returns how many messages are left.
func (x *world) receive(name string, handle queue.Handler) int {
	x.t.Helper()
	q := x.queues[name]
	batch, err := q.Receive(x.t.Context(), 100, time.Minute, 0)
	if err != nil {
		x.t.Fatal(err)
	}
	for i, d := range handle(x.t.Context(), batch) {
		if d.Retry {
			err = q.ChangeVisibility(x.t.Context(), batch[i].Receipt, d.Pause)
		} else {
			err = q.Delete(x.t.Context(), []string{batch[i].Receipt})[0]
		}
		if err != nil {
			x.t.Fatal(err)
		}
	}
	return len(x.peek(name))
}

func TestAFailingEffectIsRegisteredAndLoggedOnceATryHoweverManyWaitBehindIt(t *testing.T) {
	x := newPublishing(t, 200)
	for range 30 { // a receive each half second
		x.publish()
		x.now = x.now.Add(500 * time.Millisecond)
	}
	tries := 0
	for line := range strings.Lines(x.log.String()) {
		tries++
		for _, part := range []string{"stream=orders", "group=orders#", "number=1 ", "destination=shop", "status=400", "field x missing", fmt.Sprintf("try=%d ", tries), "next="} {
			if !strings.Contains(line, part) {
				t.Errorf("no %s in %.300s", part, line)
			}
		}
		if len(line) > 400 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if tries < 4 || tries > 13 {
		t.Errorf("%d lines in 15 seconds, with pauses of 0.5 to 4 seconds", tries)
	}
	waits := x.waiting.All()
	if len(waits) != 1 {
		t.Fatalf("%d failures are registered", len(waits))
	}
	want := system.Wait{
		Group: record.GroupKey{Stream: "orders", Group: "g"}, ID: "orders/g/1", Destination: "shop", Number: 1, Try: tries, Status: 400,
		Error: "the answer is 400 Bad Request: field x missing", Last: waits[0].Last, Next: waits[0].Next,
	}
	if d := cmp.Diff(want, waits[0]); d != "" || !waits[0].Next.After(waits[0].Last) {
		t.Errorf("registered (-want +got):\n%s", d)
	}
	x.shop.bad = ""
	for range 20 {
		x.publish()
		x.now = x.now.Add(500 * time.Millisecond)
	}
	if waits := x.waiting.All(); len(x.shop.lines) != 200 || len(waits) > 0 {
		t.Errorf("recovered: %d effects are sent, and registered: %v", len(x.shop.lines), waits)
	}
}

func TestAnEffectThatFailsForTheTimeOfItsPolicyIsADeadLetterAndItsGroupGoesOn(t *testing.T) {
	x := newPublishing(t, 3)
	for x.publish() > 0 {
		x.now = x.now.Add(500 * time.Millisecond)
	}
	if age := x.now.Sub(noon); age < time.Minute || age > 70*time.Second {
		t.Errorf("it is a dead letter after %v", age)
	}
	if d := cmp.Diff([]string{"orders/g/2 2", "orders/g/3 3"}, x.shop.lines); d != "" {
		t.Errorf("sent (-want +got):\n%s", d)
	}
	letters := x.peek("dead-publish")
	if len(letters) != 1 {
		t.Fatalf("%d dead letters", len(letters))
	}
	r, err := wire.FromDeadLetter(&letters[0], trusting())
	if err != nil || r.Reason != record.ReasonUndeliverable || r.Detail != "400 Bad Request: field x missing" || r.To != "shop" {
		t.Errorf("the dead letter is %+v, %v", r, err)
	}
	if d := r.Delivery; d == nil || d.Identity != "orders/g/1" || string(d.Effect.Body) != "1" || d.Effect.Headers["kind"] != "test" {
		t.Errorf("its effect is %+v", d)
	}
	if waits := x.waiting.All(); len(waits) > 0 {
		t.Errorf("registered as failing: %v", waits)
	}
	if !strings.Contains(x.log.String(), "becomes a dead letter") {
		t.Errorf("the log does not say so: %s", x.log)
	}
	x.redrivenEffectsHaveTheTimeOfThePolicyAgain(r)
}

// redrivenEffectsHaveTheTimeOfThePolicyAgain redrives a dead letter that the destination still does
// not take.
func (x *publishing) redrivenEffectsHaveTheTimeOfThePolicyAgain(r record.Refused) {
	x.t.Helper()
	if err := x.Queues.Redrive(x.t.Context(), r); err != nil {
		x.t.Fatal(err)
	}
	from := x.now
	for x.publish() > 0 {
		x.now = x.now.Add(500 * time.Millisecond)
	}
	if age := x.now.Sub(from); age < time.Minute || len(x.peek("dead-publish")) != 2 {
		x.t.Errorf("after %v there are %d dead letters", age, len(x.peek("dead-publish")))
	}
}

func TestTheEffectsBehindASkippedOneDoNotWaitForTheNextTryOfTheOldTrigger(t *testing.T) {
	x := newPublishing(t, 3)
	for range 10 { // so that the pause is long
		x.publish()
		x.now = x.now.Add(4 * time.Second)
	}
	x.publish()
	info, err := x.Skip(t.Context(), admin.SkipOptions{Stream: "orders", Group: "g", Number: 1})
	if err != nil || len(info.Destinations) != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if waits := x.waiting.All(); len(waits) > 0 {
		t.Errorf("registered as failing: %v", waits)
	}
	x.now = x.now.Add(time.Second)
	if left := x.receive("publish", x.Publish().Handle); left > 0 || len(x.shop.lines) != 2 || len(x.peek("dead-publish")) != 1 {
		t.Errorf("%d triggers are left, sent: %v, %d dead letters", left, x.shop.lines, len(x.peek("dead-publish")))
	}
	x.now = x.now.Add(time.Minute)
	if left := x.publish(); left > 0 || len(x.shop.lines) != 2 {
		t.Errorf("the old trigger: %d are left, sent: %v", left, x.shop.lines)
	}
}

const outage = `
streams:
  orders: {destinations: [shop]}
destinations:
  shop: {file: shop.jsonl}
`

func TestAnOutageOfFiveMinutesOfADependencyOrADestinationMakesNoDeadLetter(t *testing.T) {
	w, shop := newWorld(t), &picky{}
	end := noon.Add(5 * time.Minute)
	handler := func(_ context.Context, a *record.Attempt, m record.Message) error {
		if w.now.Before(end) {
			return errors.New("the database is away")
		}
		a.Send(record.Effect{To: []string{"shop"}, Body: m.Body})
		return nil
	}
	p, err := New(Config{
		Config: parsed(t, outage), Declared: []system.Stream{{Stream: record.Stream{Name: "orders", Handler: handler}}},
		Store: memstore.New(w.clock), Ports: w.ports(), Open: opener(shop), Trusted: []string{wire.Sender}, Now: w.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 30 { // in three groups
		body := strconv.Itoa(i)
		want = append(want, body)
		if err := p.Queues.Enqueue(t.Context(), message("orders", "g"+strconv.Itoa(i%3), body)); err != nil {
			t.Fatal(err)
		}
	}
	for left := 1; left > 0 && w.now.Sub(noon) < time.Hour; w.now = w.now.Add(time.Second) {
		if w.now.Equal(end) { // when the handlers work again, the destination fails for as long
			shop.every = true
		}
		if w.now.Equal(end.Add(5 * time.Minute)) {
			shop.every = false
		}
		left = w.receive("ingress.fifo", p.Process().Handle) + w.receive("publish.fifo", p.Publish().Handle)
	}
	var got []string
	for _, line := range shop.lines {
		_, body, _ := strings.Cut(line, " ")
		got = append(got, body)
	}
	last := map[int]int{} // by group
	for _, body := range got {
		n, err := strconv.Atoi(body)
		if err != nil || n < last[n%3] {
			t.Errorf("%d was sent after %d: %v", n, last[n%3], err)
		}
		last[n%3] = n
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(w.peek("dead"))+len(w.peek("dead-publish")) > 0 {
		t.Errorf("sent %v; %d dead messages, %d dead effects", got, len(w.peek("dead")), len(w.peek("dead-publish")))
	}
	if took := w.now.Sub(noon); took < 10*time.Minute || took > 25*time.Minute {
		t.Errorf("it took %v", took)
	}
}

// TestAnEffectToADestinationThatIsGoneIsTriedByThePoliciesOfItsStream asks for the pauses of an
// effect that was redriven after its destination left the configuration.
func TestAnEffectToADestinationThatIsGoneIsTriedByThePoliciesOfItsStream(t *testing.T) {
	w := newWorld(t)
	p, err := New(Config{
		Config: parsed(t, `
streams:
  orders: {destinations: [shop, slow]}
  alone: {}
destinations:
  shop: {file: shop.jsonl, retry: {first: 1s, max: 4s, for: 1m}}
  slow: {file: slow.jsonl, retry: {first: 2s, max: 3s, for: 2m}}
`), Store: memstore.New(w.clock), Ports: w.ports(), Open: opener(&picky{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string]record.RetryPolicy{
		"orders": {First: time.Second, Max: 3 * time.Second, For: 2 * time.Minute}, "alone": record.EffectRetry(), "gone": record.EffectRetry(),
	} {
		if got := p.effectRetry(stream, "gone"); got != want {
			t.Errorf("%s: got %+v, want %+v", stream, got, want)
		}
	}
}

const unordered = `
streams:
  orders: {order: none, destinations: [shop]}
destinations:
  shop: {file: shop.jsonl, retry: {first: 1s, max: 4s, for: 1m}}
`

func TestAnEffectOfAMessageWithoutAGroupRecordIsADeadLetterAfterTheTimeOfItsDestination(t *testing.T) {
	w, shop, waiting, log := newWorld(t), &picky{bad: "1"}, system.NewWaiting(), &bytes.Buffer{}
	p, err := New(Config{
		Config: parsed(t, unordered), Store: memstore.New(w.clock), Ports: w.ports(), Open: opener(shop), Trusted: []string{wire.Sender},
		Waiting: waiting, Now: w.clock, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"1", "2"} {
		if err := p.Queues.Enqueue(t.Context(), message("orders", "", body)); err != nil {
			t.Fatal(err)
		}
	}
	for w.receive("ingress.fifo", p.Process().Handle) > 0 && w.now.Sub(noon) < time.Hour {
		w.now = w.now.Add(500 * time.Millisecond)
	}
	if age := w.now.Sub(noon); age < time.Minute || age > 70*time.Second {
		t.Errorf("it is a dead letter after %v", age)
	}
	if d := cmp.Diff([]string{"orders/2 2"}, shop.lines); d != "" {
		t.Errorf("sent (-want +got):\n%s", d)
	}
	letters := w.peek("dead-publish")
	if len(letters) != 1 || len(w.peek("dead")) > 0 {
		t.Fatalf("%d dead effects, %d dead messages", len(letters), len(w.peek("dead")))
	}
	r, err := wire.FromDeadLetter(&letters[0], trusting())
	if err != nil || r.Reason != record.ReasonUndeliverable || r.Delivery == nil || r.Delivery.Identity != "orders/1" {
		t.Errorf("the dead letter is %+v, %v", r, err)
	}
	if tries := strings.Count(log.String(), "effect to be sent again"); tries < 12 || tries > 60 || strings.Contains(log.String(), "message to be retried") {
		t.Errorf("%d lines in a minute, with pauses of 0.5 to 4 seconds:\n%s", tries, log)
	}
	if waits := waiting.All(); len(waits) > 0 {
		t.Errorf("registered as failing: %v", waits)
	}
}

func TestAMessageWithTwoFailingDestinationsIsOneDeadLetterForEach(t *testing.T) {
	w, sender := newWorld(t), &picky{bad: "1"}
	p, err := New(Config{
		Config: parsed(t, `
streams:
  orders: {order: none, destinations: [shop, slow]}
destinations:
  shop: {file: shop.jsonl, retry: {first: 1s, max: 4s, for: 1m}}
  slow: {file: slow.jsonl, retry: {first: 1s, max: 4s, for: 10m}}
`), Store: memstore.New(w.clock), Ports: w.ports(), Open: opener(sender), Trusted: []string{wire.Sender}, Now: w.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Queues.Enqueue(t.Context(), message("orders", "", "1")); err != nil {
		t.Fatal(err)
	}
	for w.receive("ingress.fifo", p.Process().Handle) > 0 && w.now.Sub(noon) < time.Hour {
		w.now = w.now.Add(500 * time.Millisecond)
	}
	var to []string
	for _, letter := range w.peek("dead-publish") {
		r, err := wire.FromDeadLetter(&letter, trusting())
		if err != nil {
			t.Error(err)
		}
		to = append(to, r.To)
	}
	slices.Sort(to)
	if age := w.now.Sub(noon); !slices.Equal(to, []string{"shop", "slow"}) || age > 11*time.Minute {
		t.Errorf("after %v there are dead letters for %v", age, to)
	}
}
