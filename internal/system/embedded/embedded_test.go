package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/eventually"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

func TestAnAcceptedMessageIsProcessedAfterARestart(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	for round := range 3 {
		r := p.start()
		for i := range 20 {
			for range 2 { // each message twice, and those of earlier rounds again
				r.send(t, client.Message{Stream: "orders", Key: fmt.Sprint(i), Group: fmt.Sprint(i % 3), Body: []byte(`1`)})
			}
		}
		if round == 2 {
			r.idle(t)
		}
		r.stop()
	}
	numbers := map[string]uint64{}
	lines := p.lines()
	for _, l := range lines {
		if l.Number != numbers[l.Group]+1 {
			t.Errorf("group %s: number %d after %d", l.Group, l.Number, numbers[l.Group])
		}
		numbers[l.Group] = l.Number
	}
	if len(lines) != 20 {
		t.Errorf("%d lines, want 20", len(lines))
	}
}

func TestAPoisonMessageEndsAsADeadLetterWithItsReasonAndComesBackByRedrive(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	var healed atomic.Bool
	handler := func(_ context.Context, a *record.Attempt, m record.Message) error {
		if string(m.Body) == `"poison"` && !healed.Load() {
			panic("poison")
		}
		a.Send(record.Effect{To: []string{"ledger"}, ID: m.ID, ContentType: m.ContentType, Body: m.Body})
		return nil
	}
	retry := record.RetryPolicy{First: 20 * time.Millisecond, Max: 100 * time.Millisecond, For: 300 * time.Millisecond}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler, Retry: retry}})
	defer r.stop()
	r.send(t, client.Message{Stream: "orders", Key: "bad", Group: "a", ContentType: "application/json", Body: []byte(`"poison"`)})
	r.send(t, client.Message{Stream: "orders", Key: "good", Group: "b", ContentType: "application/json", Body: []byte(`1`)})
	stats := r.idle(t)
	if stats.DeadLetters != 1 {
		t.Fatalf("dead letters: %d, want 1", stats.DeadLetters)
	}
	letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{})
	if err != nil || letters[0].Reason != "attempts" || letters[0].ID != "bad" || !strings.Contains(letters[0].Detail, "poison") {
		t.Fatalf("dead letters %+v, %v", letters, err)
	}
	if info, err := r.Message(t.Context(), "orders", "bad"); err != nil || info.Status != "accepted" || info.Reason != "attempts" {
		t.Errorf("the message is %+v, %v", info, err)
	}
	healed.Store(true)
	if info, err := r.Redrive(t.Context(), admin.RedriveOptions{}); err != nil || info.Redriven != 1 {
		t.Fatalf("redrive: %+v, %v", info, err)
	}
	r.idle(t)
	var ids []string
	for _, l := range p.lines() {
		ids = append(ids, l.ID)
	}
	if d := cmp.Diff([]string{"good", "bad"}, ids); d != "" {
		t.Error(d)
	}
}

func TestAStreamFeedsAnotherOnceAndInOrder(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: `
streams:
  orders: {destinations: [next]}
  payments: {admission: sequence, destinations: [ledger]}
destinations:
  next: {stream: payments}
  ledger: {file: DIR/ledger.jsonl}
`}
	r := p.start()
	for i := range 30 {
		r.send(t, client.Message{Stream: "orders", Key: fmt.Sprint(i), Group: "g", ContentType: "application/json", Body: fmt.Append(nil, i)})
	}
	r.idle(t)
	r.stop()
	lines := p.lines()
	for i, l := range lines {
		if l.Body != float64(i) || l.Sequence != uint64(i+1) || l.Source != "orders/g" || l.Group != "g" {
			t.Errorf("line %d is %+v", i, l)
		}
	}
	if len(lines) != 30 {
		t.Errorf("%d lines, want 30", len(lines))
	}
}

func TestAGapIsSkippedInTimeAndTheDestinationIsInformed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: `
streams:
  chat: {admission: sequence, gap: {policy: skip, after: 1s}, destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
`}
		r := p.start()
		defer r.stop()
		for _, n := range []uint64{1, 4} {
			r.send(t, client.Message{Stream: "chat", Source: "ann", Sequence: n, ContentType: "application/json", Body: fmt.Append(nil, n)})
		}
		r.idle(t)
		r.send(t, client.Message{Stream: "chat", Source: "ann", Sequence: 2, ContentType: "application/json", Body: []byte(`2`)})
		eventually.Succeeds(t, func() error { // when the gap's second is over
			if r.idle(t).DeadLetters == 0 {
				return errors.New("the message of a skipped number is not in the dead-letter queue")
			}
			return nil
		})
		letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{})
		if err != nil || letters[0].Reason != "skipped" || letters[0].Sequence != 2 {
			t.Errorf("dead letters %+v, %v", letters, err)
		}
		var bodies []any
		for _, l := range p.lines() {
			bodies = append(bodies, l.Body)
		}
		gap := map[string]any{"source": "ann", "epoch": 0.0, "first": 2.0, "last": 3.0}
		if d := cmp.Diff([]any{1.0, gap, 4.0}, bodies); d != "" {
			t.Error(d)
		}
	})
}

func TestAWebhookThatRecoversGetsEachEffectInOrder(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var got []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) <= 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		// one group: one request at a time
		if id := r.Header.Get("webhook-id"); !slices.Contains(got, id) {
			got = append(got, id)
		}
	}))
	defer receiver.Close()
	p := &place{t: t, dir: t.TempDir(), config: "streams: {orders: {destinations: [shop]}}\ndestinations: {shop: {webhook: '" + receiver.URL + "'}}\n"}
	r := p.start()
	for i := range 5 {
		r.send(t, client.Message{Stream: "orders", Key: fmt.Sprint(i), Group: "g", Body: []byte(`1`)})
	}
	r.idle(t)
	r.stop()
	if d := cmp.Diff([]string{"orders/g/1", "orders/g/2", "orders/g/3", "orders/g/4", "orders/g/5"}, got); d != "" {
		t.Error(d)
	}
}

func TestASweepOfAStoppedFolderPublishesWhatIsPending(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", p.dir)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: p.data()})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := s.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Process(t.Context(), []record.Message{{Stream: "orders", ID: "a", Group: "g", Body: []byte("x")}})[0]
	if o.Kind != record.Processed {
		t.Fatalf("outcome %+v", o)
	}
	if info, err := s.Sweep(t.Context()); err != nil || info.Finished != 1 {
		t.Errorf("sweep: %+v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if lines := p.lines(); len(lines) != 1 {
		t.Errorf("lines: %+v", lines)
	}
}
