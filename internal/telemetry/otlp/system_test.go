package otlp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/telemetry/otlp"
)

const tracedConfig = `
streams:
  orders:   {destinations: [payments]}
  payments: {admission: sequence, destinations: [bank]}
destinations:
  payments: {stream: payments}
  bank:     {webhook: %q}
`

// TestATraceGoesThroughTheWholeSystem sends a message over HTTP, from stream to stream, to a
// webhook.
func TestATraceGoesThroughTheWholeSystem(t *testing.T) {
	for name, exports := range map[string]bool{"without a collector": false, "with a collector": true} {
		t.Run(name, func(t *testing.T) {
			webhooks := make(chan http.Header, 10)
			hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { webhooks <- r.Header }))
			defer hook.Close()
			var c *collector
			if exports {
				c = collecting(t)
			}
			handler, stop := startEmbedded(t, fmt.Sprintf(tracedConfig, hook.URL))
			r := httptest.NewRequest(http.MethodPost, "/v1/streams/orders/messages", strings.NewReader("body"))
			for name, value := range map[string]string{"Idempotency-Key": `"k"`, "Once-Group": "g", "Traceparent": parent, "Tracestate": "v=1"} {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != http.StatusAccepted {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			got := <-webhooks
			stop()
			if parts := strings.Split(got.Get("Traceparent"), "-"); len(parts) != 4 || parts[1] != traceID || got.Get("Tracestate") != "v=1" {
				t.Fatalf("the webhook has the headers %v", got)
			}
			if !exports {
				return
			}
			child := "b7ad6b7169203331"
			for _, name := range []string{"POST /v1/streams/{stream}/messages", "process orders", "publish payments", "process payments", "publish bank"} {
				span := c.span(t, name)
				if id(span.TraceId) != traceID || id(span.ParentSpanId) != child {
					t.Errorf("span %v; want a child of %s", span, child)
				}
				child = id(span.SpanId)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, want := range []string{"once.processed {message} orders+", "once.published {message} payments+"} {
				if c.points[want] != 1 {
					t.Errorf("%s is %v", want, c.points[want])
				}
			}
			if age, ok := c.points["once.pending_age s payments"]; !ok || age < 0 || age > 60 {
				t.Errorf("pending age %v", age)
			}
			if !strings.Contains(got.Get("Traceparent"), child) {
				t.Errorf("the webhook is no child of the last span %s: %v", child, got)
			}
		})
	}
}

// startEmbedded starts an embedded system that is watched. stop ends it.
func startEmbedded(t *testing.T, text string) (handler http.Handler, stop func()) {
	t.Helper()
	parsed, err := config.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Open(embedded.Options{Config: parsed, DataDir: t.TempDir(), Collector: otlp.New})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(nil); err != nil {
		t.Fatal(errors.Join(err, s.Close()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s.Handler(), func() {
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	}
}
