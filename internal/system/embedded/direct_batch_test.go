package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// sendBatch sends messages and returns the keys of those that were replayed.
func (r *running) sendBatch(t *testing.T, messages []client.Message) (replayed []string) {
	t.Helper()
	for i, result := range r.client.SendBatch(t.Context(), messages) {
		if result.Err != nil {
			t.Errorf("%s: %v", messages[i].Key, result.Err)
		}
		if result.Receipt.Replayed {
			replayed = append(replayed, messages[i].Key)
		}
	}
	return replayed
}

func TestTheMessagesOfABatchAreInTheFileWhenItsResultsAreThere(t *testing.T) {
	t.Parallel()
	for name, admission := range map[string]string{"by key": "key", "by token": "token", "with numbers": "sequence"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &place{t: t, dir: t.TempDir(), config: strings.ReplaceAll(forwarding, "{destinations", "{admission: "+admission+", destinations")}
			r := p.start()
			defer r.stop()
			var batch []client.Message
			for i := range 30 { // of three groups, and of none
				m := client.Message{Stream: "orders", Key: fmt.Sprintf("%03d", i), Group: []string{"a", "b", "c", ""}[i%4]}
				if admission == "sequence" {
					m = client.Message{Stream: "orders", Source: "s", Sequence: uint64(i/3 + 1), Group: []string{"a", "b", "c"}[i%3]}
				}
				batch = append(batch, m)
			}
			if again := r.sendBatch(t, batch); len(again) > 0 {
				t.Errorf("replayed: %q", again)
			}
			last := map[string]string{}
			lines := p.lines()
			for _, l := range lines {
				order := fmt.Sprintf("%03d %s", l.Sequence, l.ID)
				if l.Group != "" && order <= last[l.Group] {
					t.Errorf("group %s: %s after %s", l.Group, order, last[l.Group])
				}
				last[l.Group] = order
			}
			if len(lines) != 30 || r.queued(t) != 0 {
				t.Errorf("%d lines, and %d messages queued, when the results are there", len(lines), r.queued(t))
			}
			if again := r.sendBatch(t, batch); admission != "sequence" && len(again) != 30 {
				t.Errorf("of the repetition were replayed: %q", again)
			}
			if n := len(p.lines()); n != 30 {
				t.Errorf("%d lines after the repetition", n)
			}
		})
	}
}

// Batches and single messages of the same groups, so that some are processed directly and some from
// the queue.
func TestDirectAndQueuedBatchesKeepTheOrderOfTheirGroups(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	defer r.stop()
	const senders, rounds, each = 3, 12, 20
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for round := range rounds {
				var batch []client.Message
				for i := range each {
					batch = append(batch, client.Message{Stream: "orders", Key: fmt.Sprintf("%d-%03d-%03d", sender, round, i), Group: fmt.Sprint(i % 4)})
				}
				r.sendBatch(t, batch)
				r.send(t, client.Message{Stream: "orders", Key: fmt.Sprintf("%d-%03d-999", sender, round), Group: fmt.Sprint(round % 4)})
			}
		})
	}
	wg.Wait()
	r.idle(t)
	last := map[string]string{}
	lines := p.lines()
	for _, l := range lines {
		from := l.Group + " " + l.ID[:1]
		if l.ID <= last[from] {
			t.Errorf("%s after %s", l.ID, last[from])
		}
		last[from] = l.ID
	}
	if len(lines) != senders*rounds*(each+1) {
		t.Errorf("%d lines", len(lines))
	}
}

// Of three messages of a group the second one fails at first.
func TestTheRestOfABatchIsQueuedInItsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Bool
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {orders: {destinations: [ledger]}}\ndestinations: {ledger: {file: DIR/ledger.jsonl}}\n"}
		r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
			if m.ID == "a2" && failed.CompareAndSwap(false, true) {
				return errors.New("not yet")
			}
			a.Send(record.Effect{To: []string{"ledger"}, Body: []byte(fmt.Sprint(m.ID, " try ", m.Try))})
			return nil
		}}})
		defer r.stop()
		var batch []client.Message
		for _, key := range []string{"a1", "b1", "a2", "a3", "b2"} {
			batch = append(batch, client.Message{Stream: "orders", Key: key, Group: key[:1]})
		}
		r.sendBatch(t, batch)
		if n, queued := len(p.lines()), r.queued(t); n != 3 || queued != 2 { // the retry has a pause
			t.Errorf("%d lines and %d messages queued when the results are there", n, queued)
		}
		r.sendBatch(t, []client.Message{{Stream: "orders", Key: "a4", Group: "a"}})
		r.idle(t)
		got := map[string][]string{}
		for _, l := range p.lines() {
			got[l.Group] = append(got[l.Group], fmt.Sprint(l.Body))
		}
		if a, b := strings.Join(got["a"], ", "), strings.Join(got["b"], ", "); a != "a1 try 1, a2 try 2, a3 try 1, a4 try 1" || b != "b1 try 1, b2 try 1" {
			t.Errorf("group a: %s; group b: %s", a, b)
		}
	})
}

// The handlers need 50 ms each, and the batch has time for forty.
func TestABatchThatTakesTooLongIsFinishedFromTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {orders: {destinations: [ledger]}}\ndestinations: {ledger: {file: DIR/ledger.jsonl}}\n"}
		r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: func(ctx context.Context, a *record.Attempt, m record.Message) error {
			a.Send(record.Effect{To: []string{"ledger"}, Body: []byte(m.ID)})
			select {
			case <-time.After(50 * time.Millisecond): // the time that a handler takes
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}})
		defer r.stop()
		var batch []client.Message
		for i := range 60 {
			batch = append(batch, client.Message{Stream: "orders", Key: fmt.Sprintf("%03d", i), Group: "g"})
		}
		r.sendBatch(t, batch)
		if n := len(p.lines()); n == 60 {
			t.Errorf("all %d lines when the results are there", n)
		}
		r.idle(t)
		last, n := "", 0
		for _, l := range p.lines() {
			if l.Group != "g" {
				continue
			}
			text := fmt.Sprint(l.Body)
			if n++; text <= last {
				t.Errorf("%s after %s", text, last)
			}
			last = text
		}
		if n != 60 {
			t.Errorf("%d lines", n)
		}
	})
}

func TestABatchWaitsForAnotherOneOfItsGroupsAndIsNotQueued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {orders: {destinations: [ledger]}}\ndestinations: {ledger: {file: DIR/ledger.jsonl}}\n"}
		runs, goOn := make(chan string, 2), make(chan struct{})
		r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
			runs <- m.ID
			<-goOn
			a.Send(record.Effect{To: []string{"ledger"}, Body: []byte(m.ID)})
			return nil
		}}})
		defer r.stop()
		answered := make(chan string, 2)
		send := func(key string) {
			r.sendBatch(t, []client.Message{{Stream: "orders", Key: key, Group: "g"}})
			answered <- key
		}
		go send("first")
		<-runs
		go send("second")
		select {
		case key := <-answered:
			t.Errorf("%s is answered while the first batch is processed", key)
		case <-time.After(50 * time.Millisecond):
		}
		close(goOn)
		if got := <-answered + ", " + <-answered; r.queued(t) != 0 || len(runs) != 1 {
			t.Errorf("%s are answered, %d messages are queued, and %d more have run", got, r.queued(t), len(runs))
		}
		if lines := p.lines(); len(lines) != 2 || fmt.Sprintf("%v %v", lines[0].Body, lines[1].Body) != "first second" {
			t.Errorf("%+v", lines)
		}
	})
}
