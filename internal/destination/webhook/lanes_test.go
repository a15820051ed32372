package webhook

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// slowly answers each request after a second.
type slowly struct{}

func (slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Second): // virtual time: only called in a bubble
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func TestOnlyNumberedDeliveriesOfAGroupWaitForOneAnother(t *testing.T) {
	unnumbered := func() record.Delivery { return numbered("a", 0) }
	for name, c := range map[string]struct {
		deliveries []record.Delivery
		takes      time.Duration
	}{
		"three numbers of a group":    {[]record.Delivery{numbered("a", 1), numbered("a", 2), numbered("a", 3)}, 3 * time.Second},
		"three without a number":      {[]record.Delivery{unnumbered(), unnumbered(), unnumbered()}, time.Second},
		"one without, between two":    {[]record.Delivery{numbered("a", 1), unnumbered(), numbered("a", 2)}, 2 * time.Second},
		"one without, among three":    {[]record.Delivery{numbered("a", 1), numbered("a", 2), unnumbered(), numbered("a", 3)}, 3 * time.Second},
		"one of each of three groups": {[]record.Delivery{numbered("a", 1), numbered("b", 1), numbered("c", 1)}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, start := newSender(t, "http://shop.example", Options{Transport: slowly{}}), time.Now()
				if err := errors.Join(s.Send(t.Context(), c.deliveries)...); err != nil || time.Since(start) != c.takes {
					t.Errorf("%v after %v, want %v", err, time.Since(start), c.takes)
				}
			})
		})
	}
}

func TestARefusedDeliveryDoesNotFailTheLaterOnesOfItsGroup(t *testing.T) {
	play(t, Options{}, []step{{code: 410}, {code: 200}}, func(t *testing.T, s *Sender, _ *script) {
		errs := s.Send(t.Context(), []record.Delivery{numbered("a", 1), numbered("a", 2)})
		if !errors.As(errs[0], new(*record.RefusedError)) {
			t.Errorf("the first: %v, want a refusal", errs[0])
		}
		if errs[1] != nil && strings.Contains(errs[1].Error(), "earlier") {
			t.Errorf("the second: %v, though nothing that it has to wait for failed", errs[1])
		}
	})
}

// A round lets requests continue when a number of them is in flight.
type round struct {
	mu      sync.Mutex
	missing int
	all     chan struct{}
}

func newRound(n int) *round { return &round{missing: n, all: make(chan struct{})} }

func (r *round) join(end <-chan struct{}) {
	r.mu.Lock()
	if r.missing--; r.missing == 0 {
		close(r.all)
	}
	r.mu.Unlock()
	select {
	case <-r.all:
	case <-end:
	}
}

func TestConnectionsAreReusedUpToTheConcurrency(t *testing.T) {
	// net/http gives up a connection if a request is reported as written 50 ms late: here no time passes
	synctest.Test(t, func(t *testing.T) {
		const concurrency = 8
		var opened atomic.Int64
		var now atomic.Pointer[round]
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			now.Load().join(r.Context().Done())
		}))
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		}
		server.Start()
		defer server.Close()
		s := newSender(t, server.URL, Options{Concurrency: concurrency})
		deliveries := make([]record.Delivery, concurrency)
		idle := make(chan error, concurrency)
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(err error) { idle <- err }})
		for range 3 {
			now.Store(newRound(concurrency))
			if err := errors.Join(s.Send(ctx, deliveries)...); err != nil {
				t.Fatal(err)
			}
			for range concurrency { // a connection is idle a moment after its answer was read
				if err := <-idle; err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := opened.Load(); n != concurrency {
			t.Errorf("%d connections for 3 times %d requests at once, want %d", n, concurrency, concurrency)
		}
	})
}

func TestOnlyHeadersThatAReceiverMayGetAreForwarded(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Event": true, "Traceparent": true, "Authorization": true,
		"Proxy-Authorization": false, "proxy_connection": false, "Webhook-Id": false, "Once-Group": false, "Content-Length": false, "Host": false, "a b": false,
	} {
		if got := forwards(name); got != want {
			t.Errorf("%s is forwarded: %v, want %v", name, got, want)
		}
	}
}
