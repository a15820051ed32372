package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// handled is a stream with a handler in code.
func handled(name string, h record.Handler) system.Stream {
	return system.Stream{Stream: record.Stream{Name: name, Handler: h}}
}

// inVirtualTime starts a system in a bubble.
func inVirtualTime(t *testing.T, config string, test func(t *testing.T, p *place)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(t, &place{t: t, dir: t.TempDir(), net: &memnet.Network{}, config: config})
	})
}

func TestAHandlerInCodeHasTheTimeoutOfItsStream(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		code   time.Duration
		want   time.Duration
	}{
		"by default":       {"streams: {orders: {DIRECT}}\n", 0, 10 * time.Second},
		"in once.yaml":     {"streams: {orders: {DIRECT}}\nhandlers: {orders: {timeout: 60s}}\n", 0, time.Minute},
		"in code":          {"streams: {orders: {DIRECT}}\n", 15 * time.Minute, 15 * time.Minute},
		"in both, by code": {"streams: {orders: {DIRECT}}\nhandlers: {orders: {timeout: 60s}}\n", 5 * time.Second, 5 * time.Second},
	} {
		for way, direct := range map[string]string{"direct": "", "queued": "direct: false"} {
			t.Run(name+" "+way, func(t *testing.T) {
				inVirtualTime(t, strings.Replace(c.config, "DIRECT", direct, 1), func(t *testing.T, p *place) {
					var count runs
					var ended time.Duration
					orders := handled("orders", func(ctx context.Context, _ *record.Attempt, m record.Message) error {
						defer count.begin()()
						if m.Try > 1 {
							return nil
						}
						begun := time.Now()
						<-ctx.Done()
						ended = time.Since(begun)
						return ctx.Err()
					})
					orders.Timeout = c.code
					r := p.start(orders)
					defer r.stop()
					r.send(t, client.Message{Stream: "orders", Key: "1"})
					time.Sleep(c.want)
					r.idle(t)
					if begun, most := count.begun.Load(), count.most.Load(); begun != 2 || most != 1 || ended != c.want {
						t.Errorf("%d attempts, %d at a time, the first of %v; want 2, 1 and %v", begun, most, ended, c.want)
					}
				})
			})
		}
	}
}

// A queue's visibility, the context of a batch and the caller's patience are all shorter than this
// handler.
func TestAHandlerThatTakesAMinuteRunsOnce(t *testing.T) {
	for name, stream := range map[string]string{"direct": "", "queued": "direct: false, ", "unordered": "order: none, ", "number": "admission: sequence, "} {
		for what, takes := range map[string]time.Duration{"within its timeout": 59 * time.Second, "ignoring its context": 10 * time.Minute} {
			t.Run(name+" "+what, func(t *testing.T) {
				inVirtualTime(t, "streams: {orders: {"+stream+"destinations: [ledger]}}\ndestinations: {ledger: {file: DIR/ledger.jsonl}}\nhandlers: {orders: {timeout: 60s}}\n", func(t *testing.T, p *place) {
					var count runs
					r := p.start(handled("orders", func(_ context.Context, a *record.Attempt, _ record.Message) error {
						defer count.begin()()
						time.Sleep(takes)
						a.Send(record.Effect{To: []string{"ledger"}, Body: []byte("sent")})
						return nil
					}))
					defer r.stop()
					m := client.Message{Stream: "orders", Key: "1"}
					if strings.Contains(stream, "sequence") {
						m = client.Message{Stream: "orders", Source: "s", Sequence: 1}
					}
					for range 3 { // copies, while the first one runs
						if receipt := r.send(t, m); receipt.Status != "accepted" {
							t.Errorf("%+v", receipt)
						}
						time.Sleep(10 * time.Second)
					}
					time.Sleep(takes)
					r.idle(t)
					if begun, most, lines := count.begun.Load(), count.most.Load(), p.lines(); begun != 1 || most != 1 || len(lines) != 1 {
						t.Errorf("%d attempts, %d at a time, %+v", begun, most, lines)
					}
				})
			})
		}
	}
}

func TestALateFailureIsRetriedAfterThePauseOfItsPolicy(t *testing.T) {
	for name, order := range map[string]string{"ordered": "", "unordered": "order: none, ", "by number": "admission: sequence, "} {
		for size, batched := range map[string]bool{"message": false, "batch": true} {
			t.Run(name+" "+size, func(t *testing.T) {
				inVirtualTime(t, "streams: {orders: {"+order+"retry: {first: 2s, max: 2s}}}\n", func(t *testing.T, p *place) {
					var ended, again time.Time
					var tries atomic.Int64
					r := p.start(handled("orders", func(_ context.Context, _ *record.Attempt, m record.Message) error {
						if tries.Add(1) > 1 {
							if again = time.Now(); m.Try != 2 {
								t.Errorf("try %d", m.Try)
							}
							return nil
						}
						time.Sleep(8*time.Second + 500*time.Millisecond)
						ended = time.Now()
						return errors.New("not yet")
					}))
					defer r.stop()
					m := client.Message{Stream: "orders", Key: "1"}
					if strings.Contains(order, "sequence") {
						m = client.Message{Stream: "orders", Source: "s", Sequence: 1}
					}
					if batched {
						r.client.SendBatch(t.Context(), []client.Message{m})
					} else {
						r.send(t, m)
					}
					r.idle(t)
					if pause := again.Sub(ended); tries.Load() != 2 || pause < time.Second || pause > 2*time.Second {
						t.Errorf("%d attempts, the second one %v after the failure; want 1s to 2s", tries.Load(), pause)
					}
				})
			})
		}
	}
}

// A stream with as many slow messages as it has attempts stops neither other streams nor its own
// other groups.
func TestSlowHandlersStopNoOtherMessages(t *testing.T) {
	for name, stream := range map[string]string{"ordered": "direct: false", "unordered": "direct: false, admission: sequence"} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, "streams: {slow: {"+stream+"}, quick: {"+stream+"}}\nhandlers: {slow: {timeout: 15m, concurrency: 101}}\n", func(t *testing.T, p *place) {
				done, running := make(chan time.Time, 1000), atomic.Int64{}
				quick := func(ctx context.Context, _ *record.Attempt, _ record.Message) error {
					done <- time.Now()
					return ctx.Err()
				}
				r := p.start(handled("quick", quick), handled("slow", func(ctx context.Context, a *record.Attempt, m record.Message) error {
					if string(m.Body) != "slow" {
						return quick(ctx, a, m)
					}
					running.Add(1)
					time.Sleep(10 * time.Minute)
					return nil
				}))
				defer r.stop()
				number := map[string]uint64{}
				message := func(stream, group, body string) client.Message {
					m := client.Message{Stream: stream, Group: group, Key: fmt.Sprint(group, len(number), body), Body: []byte(body)}
					if strings.Contains(name, "un") {
						number[group]++
						m = client.Message{Stream: stream, Group: group, Source: group, Sequence: number[group], Body: []byte(body)}
					}
					return m
				}
				for i := range 100 {
					r.send(t, message("slow", fmt.Sprint(i), "slow"))
					if i < 50 { // each is a batch of its own
						time.Sleep(1500 * time.Millisecond)
					}
				}
				time.Sleep(20 * time.Second)
				if n := running.Load(); n != 100 {
					t.Errorf("%d slow handlers run, want 100", n)
				}
				for i := range 3 {
					for _, stream := range []string{"quick", "slow"} {
						begun := time.Now()
						r.send(t, message(stream, "another "+stream, fmt.Sprint(i)))
						if took := (<-done).Sub(begun); took > 3*time.Second {
							t.Errorf("%s: handled after %v", stream, took)
						}
					}
				}
				time.Sleep(10 * time.Minute)
				r.idle(t)
			})
		})
	}
}

func TestConcurrencyBoundsTheAttemptsOfAHandlerInCode(t *testing.T) {
	for way, direct := range map[string]string{"direct": "", "queued": "direct: false"} {
		t.Run(way, func(t *testing.T) {
			inVirtualTime(t, "streams: {orders: {"+direct+"}}\nhandlers: {orders: {concurrency: 3}}\n", func(t *testing.T, p *place) {
				var count runs
				r := p.start(handled("orders", func(_ context.Context, _ *record.Attempt, m record.Message) error {
					defer count.begin()()
					if m.Try != 1 {
						t.Errorf("try %d of a message that was not tried", m.Try)
					}
					time.Sleep(time.Second)
					return nil
				}))
				defer r.stop()
				var messages []client.Message
				for i := range 20 {
					messages = append(messages, client.Message{Stream: "orders", Key: fmt.Sprint(i)})
				}
				r.client.SendBatch(t.Context(), messages)
				r.idle(t)
				if begun, most := count.begun.Load(), count.most.Load(); begun != 20 || most != 3 {
					t.Errorf("%d attempts, %d at a time", begun, most)
				}
			})
		})
	}
}

// An end waits for a handler as long as a batch may take, and then ends its context.
func TestAnEndOfTheSystemEndsLongHandlers(t *testing.T) {
	for way, direct := range map[string]string{"direct": "", "queued": "direct: false"} {
		t.Run(way, func(t *testing.T) {
			inVirtualTime(t, "streams: {orders: {"+direct+"}}\nhandlers: {orders: {timeout: 15m}}\n", func(t *testing.T, p *place) {
				r := p.start(handled("orders", func(ctx context.Context, _ *record.Attempt, _ record.Message) error {
					<-ctx.Done()
					return ctx.Err()
				}))
				r.send(t, client.Message{Stream: "orders", Key: "1"})
				time.Sleep(time.Second)
				begun := time.Now()
				r.stop()
				if took := time.Since(begun); took < 20*time.Second || took > 40*time.Second {
					t.Errorf("the end took %v", took)
				}
				r = p.start(handled("orders", func(context.Context, *record.Attempt, record.Message) error { return nil }))
				defer r.stop()
				r.idle(t)
				if status, err := r.client.Status(t.Context(), "orders", "1"); err != nil || status.Status != "done" {
					t.Errorf("%+v, %v", status, err)
				}
			})
		})
	}
}

func TestSettingsOfAHandlerThatNobodyRegistersAreRefused(t *testing.T) {
	p := &place{t: t, dir: t.TempDir(), config: "streams: {orders: {}}\nhandlers: {orders: {timeout: 60s}}\n"}
	s, err := embedded.Open(embedded.Options{Config: p.parsed(), DataDir: p.data()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Start(nil); err == nil || !strings.Contains(err.Error(), "handlers.orders: is for a program that registers the handler in Go") {
		t.Errorf("%v", err)
	}
}
