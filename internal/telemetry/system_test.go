package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/forward"
	"github.com/effectively-once/once/internal/local"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/telemetry"
)

const tracedConfig = `
streams:
  orders:   {destinations: [payments]}
  payments: {admission: sequence, destinations: [bank]}
destinations:
  payments: {stream: payments}
  bank:     {webhook: %q}
`

// TestATraceGoesThroughTheWholeSystem sends a message over HTTP, from stream to stream, to a webhook.
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
			tm := exporting(t, telemetry.Options{})
			handler, stop := embedded(t, tm, fmt.Sprintf(tracedConfig, hook.URL))
			r := httptest.NewRequest(http.MethodPost, "/v1/streams/orders/messages", strings.NewReader("body"))
			for name, value := range map[string]string{"Idempotency-Key": `"k"`, "Once-Group": "g", "Traceparent": parent, "Tracestate": "v=1"} {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			tm.HTTP(handler).ServeHTTP(w, r)
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
			tm.Flush(t.Context(), nil)
			child := "b7ad6b7169203331"
			for _, name := range []string{"POST /v1/streams/{stream}/messages", "process orders", "process payments"} {
				span := c.span(t, name)
				if id(span.TraceId) != traceID || id(span.ParentSpanId) != child {
					t.Errorf("span %v; want a child of %s", span, child)
				}
				child = id(span.SpanId)
			}
			if !strings.Contains(got.Get("Traceparent"), child) {
				t.Errorf("the webhook is no child of the last span %s: %v", child, got)
			}
		})
	}
}

// embedded starts an embedded system whose handlers are traced. stop ends it.
func embedded(t *testing.T, tm *telemetry.Telemetry, text string) (handler http.Handler, stop func()) {
	t.Helper()
	parsed, err := config.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := local.Open(local.Options{Config: parsed, DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var streams []system.Stream
	for name, to := range map[string]string{"orders": "payments", "payments": "bank"} {
		streams = append(streams, system.Stream{Stream: record.Stream{Name: name, Handler: tm.Handler(forward.To([]string{to})), Stateless: true}})
	}
	if _, err := s.Start(streams); err != nil {
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
