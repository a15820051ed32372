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

// inFlight counts the messages of the ingress queues.
func (r *running) queued(t *testing.T) (n int) {
	t.Helper()
	stats, err := r.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range stats.Queues {
		if strings.HasPrefix(q.Queue, "ingress") && !q.DeadLetter {
			n += q.Visible + q.InFlight + q.Delayed
		}
	}
	return n
}

func TestAMessageOfAnIdleGroupIsDoneInItsReceipt(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]client.Message{
		"without a group": {Stream: "orders", Key: "1", Body: []byte("a")},
		"with a group":    {Stream: "orders", Key: "1", Group: "g", Body: []byte("a")},
		"by token":        {Stream: "payments", Key: "1", Body: []byte("a")},
		"with a number":   {Stream: "chat", Source: "s", Sequence: 1, Body: []byte("a")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &place{t: t, dir: t.TempDir(), config: `
streams:
  orders: {destinations: [ledger]}
  payments: {destinations: [ledger], admission: token}
  chat: {destinations: [ledger], admission: sequence}
destinations:
  ledger: {file: DIR/ledger.jsonl}
`}
			r := p.start()
			defer r.stop()
			if receipt := r.send(t, m); receipt.Status != "done" || receipt.Replayed {
				t.Errorf("%+v", receipt)
			}
			if lines := p.lines(); len(lines) != 1 {
				t.Fatalf("%d lines when the receipt is there", len(lines))
			}
			if receipt := r.send(t, m); receipt.Status != "done" || receipt.Replayed != (m.Source == "") {
				t.Errorf("the repetition: %+v", receipt)
			}
			m.Body = []byte("b")
			_, err := r.client.Send(t.Context(), m)
			if m.Source == "" && !errors.Is(err, client.KeyReuse) {
				t.Errorf("other content under the same key: %v", err)
			}
			if n := len(p.lines()); n != 1 {
				t.Errorf("%d lines", n)
			}
		})
	}
}

func TestMessagesGoThroughTheQueueIfTheStreamSaysSo(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: strings.ReplaceAll(forwarding, "{destinations", "{direct: false, destinations")}
	r := p.start()
	defer r.stop()
	if receipt := r.send(t, client.Message{Stream: "orders", Key: "1"}); receipt.Status != "accepted" {
		t.Errorf("%+v", receipt)
	}
	r.idle(t)
	if n := len(p.lines()); n != 1 {
		t.Errorf("%d lines", n)
	}
}

// Many callers send to few groups, so that some messages are processed directly and some from the
// queue.
func TestDirectAndQueuedMessagesKeepTheOrderOfTheirGroup(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	defer r.stop()
	const groups, each, ahead = 4, 60, 3
	var wg sync.WaitGroup
	var direct atomic.Int64
	for g := range groups {
		wg.Go(func() {
			send := func(i int) {
				receipt, err := r.client.Send(t.Context(), client.Message{Stream: "orders", Key: fmt.Sprintf("%d-%03d", g, i), Group: fmt.Sprint(g)})
				if err != nil {
					t.Error(err)
				}
				if receipt.Status == "done" {
					direct.Add(1)
				}
			}
			send(0) // nothing of the group is queued yet
			// the next message is sent when the one before is acknowledged; other callers of the
			// group keep its queue busy
			for range ahead {
				wg.Go(func() {
					for i := range each / ahead {
						_, _ = r.client.Send(t.Context(), client.Message{Stream: "orders", Key: fmt.Sprintf("noise-%d-%p-%d", g, &i, i), Group: fmt.Sprint(g)})
					}
				})
			}
			for i := 1; i < each; i++ {
				send(i)
			}
		})
	}
	wg.Wait()
	r.idle(t)
	last := map[string]string{}
	n := 0
	for _, l := range p.lines() {
		if strings.HasPrefix(l.ID, "noise") {
			continue
		}
		n++
		if l.ID <= last[l.Group] {
			t.Errorf("%s after %s", l.ID, last[l.Group])
		}
		last[l.Group] = l.ID
	}
	if n != groups*each || direct.Load() == 0 || direct.Load() == groups*each {
		t.Errorf("%d lines, %d of the messages direct", n, direct.Load())
	}
}

func TestAFailedDirectTryIsRepeatedFromTheQueueAfterThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var tries []int
		var times []time.Time
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {orders: {retry: {first: 1m}}}\n"}
		r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: func(_ context.Context, _ *record.Attempt, m record.Message) error {
			mu.Lock()
			defer mu.Unlock()
			tries, times = append(tries, m.Try), append(times, time.Now())
			if len(tries) == 1 {
				panic("not yet")
			}
			return nil
		}}})
		defer r.stop()
		if receipt := r.send(t, client.Message{Stream: "orders", Key: "1"}); receipt.Status != "accepted" {
			t.Errorf("%+v", receipt)
		}
		if n := r.queued(t); n != 1 {
			t.Errorf("%d messages on the queue when the receipt is there", n)
		}
		r.idle(t)
		mu.Lock()
		defer mu.Unlock()
		if len(tries) != 2 || tries[0] != 1 || tries[1] != 2 || times[1].Sub(times[0]) < 30*time.Second || times[1].Sub(times[0]) > 2*time.Minute {
			t.Errorf("tries %v at %v", tries, times)
		}
	})
}

// runs counts the attempts of messages, and how many of them ran concurrently.
type runs struct {
	begun, running, most atomic.Int64
}

// begin counts an attempt until end.
func (r *runs) begin() (end func()) {
	r.begun.Add(1)
	r.most.Store(max(r.most.Load(), r.running.Add(1)))
	return func() { r.running.Add(-1) }
}

// A caller is answered after two seconds. The attempt goes on, and its message is on the queue: if
// the process died, it would be redelivered.
func TestAHandlerThatTakesLongerThanItsCallerWaitsRunsOnce(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]string{
		"key": "", "unordered": "order: none, ", "token": "admission: token, ", "number": "admission: sequence, ",
	} {
		for what, takes := range map[string]time.Duration{"longer-than-its-caller": 3 * time.Second, "nearly-its-time": 27 * time.Second, "longer-than-its-time": 50 * time.Second} {
			t.Run(name+"-"+what, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var count runs
					p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {orders: {" + stream + "destinations: [ledger]}}\ndestinations: {ledger: {file: DIR/ledger.jsonl}}\n"}
					r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: func(_ context.Context, a *record.Attempt, _ record.Message) error {
						defer count.begin()()
						time.Sleep(takes)
						a.Send(record.Effect{To: []string{"ledger"}, Body: []byte("sent")})
						return nil
					}}})
					defer r.stop()
					m := client.Message{Stream: "orders", Key: "1"}
					if strings.Contains(stream, "sequence") {
						m = client.Message{Stream: "orders", Source: "s", Sequence: 1}
					}
					begun := time.Now()
					if receipt := r.send(t, m); receipt.Status != "accepted" || time.Since(begun) > 3*time.Second {
						t.Errorf("%+v after %v", receipt, time.Since(begun))
					}
					if n := r.queued(t); n != 1 {
						t.Errorf("%d messages on the queue when the receipt is there", n)
					}
					r.send(t, m) // a copy, while the first one runs
					want := 1
					if m.Source != "" { // its sender goes on
						want, m.Sequence = 2, 2
						r.send(t, m)
					}
					r.idle(t)
					if n, lines := int(count.begun.Load()), p.lines(); n != want || len(lines) != want || count.most.Load() != 1 {
						t.Errorf("%d attempts, %+v", n, lines)
					}
				})
			})
		}
	}
}

// The messages of a batch go on the queue, too.
func TestABatchWhoseHandlerTakesLongRunsEachMessageOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var count runs
		p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {orders: {}}\n"}
		r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: func(context.Context, *record.Attempt, record.Message) error {
			defer count.begin()()
			time.Sleep(5 * time.Second)
			return nil
		}}})
		defer r.stop()
		var messages []client.Message
		for i := range 6 {
			messages = append(messages, client.Message{Stream: "orders", Key: fmt.Sprint(i), Group: fmt.Sprint(i % 3)})
		}
		for _, result := range r.client.SendBatch(t.Context(), messages) {
			if result.Err != nil {
				t.Error(result.Err)
			}
		}
		r.idle(t)
		if n := count.begun.Load(); n != 6 {
			t.Errorf("%d attempts of 6 messages", n)
		}
	})
}

// A handler that ignores the end of its context is not run a second time beside itself.
func TestNoSecondAttemptBeginsBesideAHandlerThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]string{"ordered": "", "unordered": ", order: none"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var count runs
				p := &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: "streams: {orders: {direct: false" + order + "}}\n"}
				r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: func(context.Context, *record.Attempt, record.Message) error {
					defer count.begin()()
					time.Sleep(80 * time.Second)
					return nil
				}}})
				defer r.stop()
				for range 2 {
					r.send(t, client.Message{Stream: "orders", Key: "1"})
					time.Sleep(time.Minute)
				}
				r.idle(t)
				if begun, most := count.begun.Load(), count.most.Load(); most != 1 || begun > 2 {
					t.Errorf("%d attempts, %d at a time", begun, most)
				}
				if status, err := r.client.Status(t.Context(), "orders", "1"); err != nil || status.Status != "done" {
					t.Errorf("%+v, %v", status, err)
				}
			})
		})
	}
}

func TestARejectedDirectMessageIsADeadLetterAndItsCallerIsTold(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: "streams: {orders: {}}\n"}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: func(context.Context, *record.Attempt, record.Message) error {
		return &record.RejectError{Detail: "no money"}
	}}})
	defer r.stop()
	_, err := r.client.Send(t.Context(), client.Message{Stream: "orders", Key: "1", Wait: 10 * time.Second})
	if problem, _ := errors.AsType[*client.Problem](err); problem == nil || problem.Type != client.Rejected || problem.Detail != "no money" {
		t.Errorf("a waiting caller: %v", err)
	}
	if receipt := r.send(t, client.Message{Stream: "orders", Key: "2"}); receipt.Status != "accepted" {
		t.Errorf("a caller who does not wait: %+v", receipt)
	}
	for _, key := range []string{"1", "2"} {
		if status, err := r.client.Status(t.Context(), "orders", key); err != nil || status.Status != "rejected" || status.Detail != "no money" {
			t.Errorf("%s: %+v, %v", key, status, err)
		}
	}
	stats, err := r.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range stats.Queues {
		if q.Queue == "ingress-dead" && q.Visible != 2 || q.Queue != "ingress-dead" && q.Visible+q.InFlight > 0 {
			t.Errorf("%+v", q)
		}
	}
}

func TestADirectReplyIsTheAnswerAndIsReplayed(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	p := &place{t: t, dir: t.TempDir(), config: "streams: {orders: {}, chat: {admission: sequence}}\n"}
	handler := func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.Reply(record.Reply{Status: 201, Body: fmt.Append(nil, "run ", runs.Add(1))})
		a.State = []byte("state")
		return nil
	}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}}, system.Stream{Stream: record.Stream{Name: "chat", Handler: handler}})
	defer r.stop()
	for i, m := range []client.Message{{Stream: "orders", Key: "1"}, {Stream: "chat", Source: "s", Sequence: 1}} {
		m.Wait = 10 * time.Second
		for range 2 {
			receipt := r.send(t, m)
			if receipt.Reply == nil || receipt.Reply.Status != 201 || string(receipt.Reply.Body) != fmt.Sprint("run ", i+1) {
				t.Errorf("%+v", receipt)
			}
		}
	}
}

func TestAMessageAheadOfItsNumbersIsHeldAndDrained(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: "streams: {chat: {destinations: [ledger], admission: sequence}}\ndestinations: {ledger: {file: DIR/ledger.jsonl}}\n"}
	r := p.start()
	defer r.stop()
	for _, n := range []uint64{3, 2} {
		if receipt := r.send(t, client.Message{Stream: "chat", Source: "s", Sequence: n}); receipt.Status != "accepted" {
			t.Errorf("%+v", receipt)
		}
	}
	if receipt := r.send(t, client.Message{Stream: "chat", Source: "s", Sequence: 1}); receipt.Status != "done" {
		t.Errorf("%+v", receipt)
	}
	lines := p.lines()
	for i, l := range lines {
		if l.Sequence != uint64(i+1) {
			t.Errorf("%+v", lines)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines", len(lines))
	}
}
