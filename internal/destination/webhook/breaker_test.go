package webhook

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

// A host hangs until it recovers. It counts the requests and how many of them hang concurrently.
type host struct {
	mu         sync.Mutex
	well       bool
	posts, now int
	most       int
}

func (h *host) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.posts++
	if h.well {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	}
	h.now++
	h.most = max(h.most, h.now)
	h.mu.Unlock()
	<-r.Context().Done()
	h.mu.Lock()
	h.now--
	return nil, r.Context().Err()
}

// recover ends the hanging, and returns the number of requests so far.
func (h *host) recover() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.well = true
	return h.posts
}

// hang runs a test with a destination that hangs and is known to be failing, in a bubble of its own
// time.
func hang(t *testing.T, options Options, then func(t *testing.T, s *Sender, h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		options.Transport = h
		s := newSender(t, "http://shop.example", options)
		if err := send(t, s, single("first")); err == nil || !s.breaker.failing() {
			t.Fatalf("not failing after %v", err)
		}
		h.most = 0
		then(t, s, h)
	})
}

func send(t *testing.T, s *Sender, d record.Delivery) error {
	t.Helper()
	return s.Send(t.Context(), []record.Delivery{d})[0]
}

func TestADestinationThatHangsBlocksAtMostOneSend(t *testing.T) {
	for _, concurrency := range []int{1, 16} {
		hang(t, Options{Concurrency: concurrency}, func(t *testing.T, s *Sender, h *host) {
			pass(time.Second)
			start, atOnce := time.Now(), 0
			var mu sync.Mutex
			var senders sync.WaitGroup
			for range 4 {
				senders.Go(func() {
					err := s.Send(t.Context(), []record.Delivery{numbered("a", 1), numbered("b", 1), single("x")})[0]
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						t.Error("settled")
					}
					if since(start) == 0 {
						atOnce++
					}
				})
			}
			senders.Wait()
			if atOnce != 3 || h.most != 1 || since(start) != 10*time.Second {
				t.Errorf("concurrency %d: %d Sends returned at once, %d requests hung, %v in all", concurrency, atOnce, h.most, since(start))
			}
		})
	}
}

func TestASendWaitingForASlotFailsWhenTheDestinationBeginsToFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, start := &host{}, time.Now()
		s := newSender(t, "http://shop.example", Options{Transport: h, Concurrency: 1})
		for _, err := range s.Send(t.Context(), []record.Delivery{single("x"), single("y"), single("z")}) {
			if err == nil {
				t.Error("settled")
			}
		}
		// a second one may begin between the end of the first and the moment when that is noted
		if h.posts > 2 || since(start) != time.Duration(h.posts)*10*time.Second {
			t.Errorf("%d requests in %v", h.posts, since(start))
		}
	})
}

func TestProbesAreSpacedByGrowingPauses(t *testing.T) {
	play(t, Options{Budget: time.Nanosecond}, []step{{code: 503}}, func(t *testing.T, s *Sender, transport *script) {
		for since(transport.start) < 5*time.Minute {
			if err := send(t, s, single("x")); err == nil {
				t.Fatal("settled")
			}
			pass(10 * time.Millisecond)
		}
		want := 500 * time.Millisecond
		for i, at := range transport.at[1:] {
			pause := at - transport.at[i]
			if pause < want/2 || pause > want*3/2+20*time.Millisecond {
				t.Errorf("pause %d is %v, want about %v", i+1, pause, want)
			}
			want = min(2*want, 30*time.Second)
		}
		if len(transport.at) < 10 {
			t.Errorf("probes at %v", transport.at)
		}
	})
}

func TestTheFirstSuccessEndsTheFailing(t *testing.T) {
	hang(t, Options{}, func(t *testing.T, s *Sender, h *host) {
		before := h.recover()
		if err := send(t, s, single("x")); !errors.Is(err, errPausing) || h.posts != before {
			t.Errorf("in the pause: %v, %d requests", err, h.posts-before)
		}
		pass(time.Second)
		for range 5 {
			if err := send(t, s, single("x")); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAProbeIsNotTriedAgainWithinItsSend(t *testing.T) {
	play(t, Options{Budget: 3 * time.Second}, []step{{code: 500}}, func(t *testing.T, s *Sender, transport *script) {
		_ = send(t, s, single("x"))
		pass(time.Second)
		before, start := len(transport.at), time.Now()
		err := send(t, s, single("x"))
		if err == nil || len(transport.at) != before+1 || since(start) != 0 {
			t.Errorf("%v after %d requests and %v", err, len(transport.at)-before, since(start))
		}
	})
}

func TestAProbeWaitsForWhatRetryAfterNames(t *testing.T) {
	play(t, Options{}, []step{{503, "60"}, {503, "100"}, {code: 200}}, func(t *testing.T, s *Sender, transport *script) {
		for range 170 {
			_ = send(t, s, single("x"))
			pass(time.Second)
		}
		want := []time.Duration{0, 60 * time.Second, 160 * time.Second}
		if diff := cmp.Diff(want, transport.at[:min(3, len(transport.at))]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestADeliveryThatFailsWhileOthersSucceedDoesNotMarkTheDestinationAsFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, "http://shop.example", Options{Transport: oneBad{}, Budget: 500 * time.Millisecond})
		errs := s.Send(t.Context(), []record.Delivery{single("bad"), single("good")})
		if errs[0] == nil || errs[1] != nil || s.breaker.failing() {
			t.Errorf("got %v; failing: %v", errs, s.breaker.failing())
		}
	})
}

// oneBad refuses the delivery "bad" each time, and takes all others a moment after its first try.
type oneBad struct{}

func (oneBad) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("webhook-id") == "orders/bad" {
		return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}, nil
	}
	pass(time.Millisecond)
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

func TestAPermanentErrorDoesNotMarkTheDestinationAsFailing(t *testing.T) {
	play(t, Options{}, []step{{code: 404}}, func(t *testing.T, s *Sender, transport *script) {
		for range 3 {
			_ = send(t, s, single("x"))
		}
		if len(transport.at) != 3 {
			t.Errorf("requests at %v", transport.at)
		}
	})
}

// A slowHost answers after three seconds, and asks to be left alone for two.
type slowHost struct{}

func (slowHost) RoundTrip(*http.Request) (*http.Response, error) {
	pass(3 * time.Second)
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"2"}}, Body: http.NoBody}, nil
}

// TestAProbeThatWaitedForASlotIsNotSentAfterARetryAfter holds the only slot by a request that began
// before the destination was failing.
func TestAProbeThatWaitedForASlotIsNotSentAfterARetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, s := time.Now(), newSender(t, "http://shop.example", Options{Transport: slowHost{}, Concurrency: 1, Budget: 5 * time.Second})
		var slow sync.WaitGroup
		slow.Go(func() { _ = s.Send(t.Context(), []record.Delivery{single("slow")}) })
		pass(time.Second)
		s.breaker.failed(time.Now())
		pass(time.Second)
		if err := send(t, s, single("probe")); !errors.Is(err, errPausing) || since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, since(start))
		}
		slow.Wait()
	})
}
