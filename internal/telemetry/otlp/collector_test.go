package otlp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/otlp"
)

// A collector takes OTLP over HTTP.
type collector struct {
	url string

	mu       sync.Mutex
	requests int
	raw      strings.Builder // all that was sent, as text
	points   map[string]float64
	resource map[string]string
	spans    []*trace.Span
	answer   func(*http.Request) int // the status; 0 means 200
}

// collecting starts a collector, and sets its address in the environment.
func collecting(t *testing.T) *collector {
	t.Helper()
	c := &collector{answer: func(*http.Request) int { return 0 }}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	status := c.answer(r)
	switch {
	case status != 0:
	case err != nil || r.Header.Get("Content-Type") != "application/x-protobuf":
		status = http.StatusBadRequest
	default:
		status = c.read(r.URL.Path, body)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(status)
}

func (c *collector) read(path string, body []byte) int {
	switch path {
	case "/v1/metrics":
		var m collectormetrics.ExportMetricsServiceRequest
		if proto.Unmarshal(body, &m) != nil {
			return http.StatusBadRequest
		}
		fmt.Fprint(&c.raw, m.String())
		c.points = map[string]float64{}
		for _, of := range m.ResourceMetrics {
			c.resource = attributes(of.Resource.Attributes)
			for _, in := range of.ScopeMetrics {
				c.note(in.Metrics)
			}
		}
	case "/v1/traces":
		var m collectortrace.ExportTraceServiceRequest
		if proto.Unmarshal(body, &m) != nil {
			return http.StatusBadRequest
		}
		fmt.Fprint(&c.raw, m.String())
		for _, of := range m.ResourceSpans {
			for _, in := range of.ScopeSpans {
				c.spans = append(c.spans, in.Spans...)
			}
		}
	default:
		return http.StatusNotFound
	}
	return http.StatusOK
}

// note keeps the points of the last report by name, unit and stream; the points of sums have a
// plus.
func (c *collector) note(list []*metrics.Metric) {
	for _, m := range list {
		points, sign := m.GetGauge().GetDataPoints(), ""
		if sum := m.GetSum(); sum != nil {
			points = sum.DataPoints
			if sum.IsMonotonic && sum.AggregationTemporality == metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
				sign = "+"
			}
		}
		for _, p := range points {
			c.points[m.Name+" "+m.Unit+" "+attributes(p.Attributes)["stream"]+sign] = p.GetAsDouble()
		}
	}
}

func attributes(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.Key] = a.Value.GetStringValue()
		if n := a.Value.GetIntValue(); n != 0 {
			out[a.Key] = fmt.Sprint(n)
		}
	}
	return out
}

// span returns the only span with a name.
func (c *collector) span(t *testing.T, name string) *trace.Span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*trace.Span
	var names []string
	for _, s := range c.spans {
		if names = append(names, s.Name); s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans are called %q: %q", len(found), name, names)
	}
	return found[0]
}

// exporting opens a telemetry that reports to the collector of the environment.
func exporting(t *testing.T, o telemetry.Options) *telemetry.Telemetry {
	t.Helper()
	o.Collector = otlp.New
	tm, err := telemetry.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

// opened is exporting, with an output for metrics that go to no collector.
func opened(t *testing.T, o telemetry.Options) (*telemetry.Telemetry, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	o.Output = &out
	return exporting(t, o), &out
}
