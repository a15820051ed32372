package once_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once"
)

// A slow world has a handler that takes ten seconds of the test's clock.
type slow struct {
	t    *testing.T
	h    http.Handler
	runs atomic.Int32
}

func slowly(t *testing.T, c once.MiddlewareConfig, test func(w *slow)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &slow{t: t}
		w.h = once.Middleware(once.NewMemory(), c)(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			w.runs.Add(1)
			time.Sleep(10 * time.Second)
			rw.WriteHeader(http.StatusCreated)
		}))
		test(w)
	})
}

// start begins a request and returns when its handler runs.
func (w *slow) start(ctx context.Context) <-chan *httptest.ResponseRecorder {
	answer := make(chan *httptest.ResponseRecorder, 1)
	go func() { answer <- serve(w.h, post("k", "").WithContext(ctx)) }()
	synctest.Wait()
	return answer
}

func (w *slow) post() *httptest.ResponseRecorder { return serve(w.h, post("k", "")) }

func TestTheSecondOfTwoConcurrentRequestsGetsRetryAfterOneSecond(t *testing.T) {
	slowly(t, once.MiddlewareConfig{Wait: -1}, func(w *slow) {
		first := w.start(w.t.Context())
		busy := w.post()
		if busy.Header().Get("Retry-After") != "1" {
			w.t.Errorf("Retry-After is %q", busy.Header().Get("Retry-After"))
		}
		wantProblem(w.t, busy, http.StatusConflict, "leased")
		if answer := <-first; answer.Code != http.StatusCreated || w.runs.Load() != 1 {
			w.t.Errorf("the first got %d", answer.Code)
		}
	})
}

func TestTheSecondOfTwoConcurrentRequestsMayWait(t *testing.T) {
	slowly(t, once.MiddlewareConfig{Wait: 15 * time.Second}, func(w *slow) {
		first := w.start(w.t.Context())
		start := time.Now()
		second := w.post()
		if second.Code != http.StatusCreated || second.Header().Get("Idempotent-Replayed") != "true" {
			w.t.Errorf("the second got %d %v", second.Code, second.Header())
		}
		if waited := time.Since(start); waited > 12*time.Second || w.runs.Load() != 1 {
			w.t.Errorf("it waited %v; %d ran", waited, w.runs.Load())
		}
		<-first
	})
}

func TestWaitingEnds(t *testing.T) {
	for name, c := range map[string]struct{ wait, client, want time.Duration }{
		"by the limit":             {3 * time.Second, time.Hour, 3 * time.Second},
		"by the default":           {0, time.Hour, 5 * time.Second},
		"when the client has gone": {time.Hour, 3 * time.Second, 3 * time.Second},
		"when nobody was to wait":  {-1, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			slowly(t, once.MiddlewareConfig{Wait: c.wait}, func(w *slow) {
				first := w.start(w.t.Context())
				ctx, cancel := context.WithTimeout(w.t.Context(), c.client)
				defer cancel()
				start := time.Now()
				wantProblem(w.t, serve(w.h, post("k", "").WithContext(ctx)), http.StatusConflict, "leased")
				if waited := time.Since(start); waited != c.want {
					w.t.Errorf("waited %v", waited)
				}
				<-first
			})
		})
	}
}

func TestAClientThatDisconnectsGetsTheAnswerLater(t *testing.T) {
	slowly(t, once.MiddlewareConfig{}, func(w *slow) {
		ctx, cancel := context.WithCancel(w.t.Context())
		gone := w.start(ctx)
		cancel()
		<-gone
		if answer := w.post(); answer.Code != http.StatusCreated || w.runs.Load() != 1 {
			w.t.Errorf("got %d; %d ran", answer.Code, w.runs.Load())
		}
	})
}

func TestAHandlerWhoseContextEndedHasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := once.Middleware(once.NewMemory(), once.MiddlewareConfig{})(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if runs++; runs > 1 {
				return
			}
			select {
			case <-r.Context().Done():
			case <-time.After(time.Minute):
				t.Error("the handler's context did not end with the request's, after one second")
			}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantProblem(t, serve(h, post("k", "").WithContext(ctx)), http.StatusServiceUnavailable, "unavailable")
		if answer := serve(h, post("k", "")); answer.Code != http.StatusOK || runs != 2 {
			t.Errorf("got %d; %d ran", answer.Code, runs)
		}
	})
}
