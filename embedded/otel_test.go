package embedded_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/embedded"
)

// sums returns the values of counters by their names and streams, and the names of all metrics.
func sums(t *testing.T, reader sdkmetric.Reader) (values map[string]float64, names []string) {
	t.Helper()
	var found metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &found); err != nil {
		t.Fatal(err)
	}
	values = map[string]float64{}
	for _, scope := range found.ScopeMetrics {
		for _, m := range scope.Metrics {
			names = append(names, m.Name)
			sum, _ := m.Data.(metricdata.Sum[float64])
			for _, p := range sum.DataPoints {
				stream, _ := p.Attributes.Value("stream")
				values[m.Name+" "+stream.AsString()] = p.Value
			}
		}
	}
	return values, names
}

func TestMetricsAndSpansGoToTheProvidersOfTheProgram(t *testing.T) {
	reader, other := sdkmetric.NewManualReader(), sdkmetric.NewManualReader()
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	webhooks := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { webhooks <- r.Header.Get("Traceparent") }))
	defer hook.Close()
	ready := make(chan bool, 1)
	sys, err := embedded.Open(t.TempDir(), embedded.Options{
		Config: "streams: {visits: {destinations: [hook]}}\ndestinations: {hook: {webhook: " + hook.URL + "}}\n", Ready: func(string) { ready <- true },
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithReader(other)), TracerProvider: tracers,
	})
	if err != nil {
		t.Fatal(err)
	}
	inside := make(chan trace.SpanContext, 1)
	once.Handle(sys, "visits", func(ctx context.Context, a *once.Attempt[int], _ once.Message) error {
		inside <- trace.SpanContextFromContext(ctx)
		a.State++
		a.Send("hook", once.JSON(a.State))
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	<-ready

	// as a handler around that of once
	outer, span := tracers.Tracer("program").Start(t.Context(), "outer")
	r := httptest.NewRequestWithContext(outer, http.MethodPost, "/v1/streams/visits/messages", strings.NewReader("1"))
	r.Header.Set("Idempotency-Key", "v-1")
	w := httptest.NewRecorder()
	handler, err := sys.Handler()
	if err != nil {
		t.Fatal(err)
	}
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusAccepted && w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	span.End()
	parent := <-webhooks
	handled := <-inside
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := sys.Close(); err != nil {
		t.Fatal(err)
	}

	all := map[string]tracetest.SpanStub{}
	for _, s := range spans.GetSpans() {
		all[s.Name] = s
	}
	child := all["outer"]
	for _, name := range []string{"POST /v1/streams/{stream}/messages", "process visits", "publish hook"} {
		s, ok := all[name]
		if !ok || s.Parent.SpanID() != child.SpanContext.SpanID() || s.SpanContext.TraceID() != span.SpanContext().TraceID() {
			t.Errorf("span %q is %+v, want a child of %q", name, s.Parent, child.Name)
		}
		child = s
	}
	if !strings.Contains(parent, child.SpanContext.SpanID().String()) {
		t.Errorf("the webhook got the traceparent %q, want that of the span %q", parent, child.Name)
	}
	if handled.SpanID() != all["process visits"].SpanContext.SpanID() {
		t.Errorf("the handler has the span %v in its context", handled)
	}
	for _, from := range []sdkmetric.Reader{reader, other} { // each of them has everything
		values, names := sums(t, from)
		for _, want := range []string{"once.accepted visits", "once.processed visits", "once.published visits"} {
			if values[want] != 1 {
				t.Errorf("%s is %v, want 1: %v", want, values[want], values)
			}
		}
		for _, want := range []string{"once.accept_time", "once.pending_age"} {
			if !slices.Contains(names, want) {
				t.Errorf("there is no %s in %v", want, names)
			}
		}
	}
}

// TestAProgramWithoutProvidersReportsNothing names a collector in the environment, which only once
// dev reads.
func TestAProgramWithoutProvidersReportsNothing(t *testing.T) {
	called := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sys, err := embedded.Open(t.TempDir(), embedded.Options{Listen: "127.0.0.1:0", Ready: func(string) { stop() }})
	if err != nil {
		t.Fatal(err)
	}
	once.Handle(sys, "visits", func(context.Context, *once.Attempt[int], once.Message) error { return nil })
	if err := sys.Run(ctx); err != nil { // an exporter would report what it has before Run returns
		t.Fatal(err)
	}
	if err := sys.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case path := <-called:
		t.Errorf("%s was called", path)
	default:
	}
}
