package otlp_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
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
	since    time.Time // when the points of sums begin
	resource map[string]string
	traces   *collectortrace.ExportTraceServiceRequest // the last one
	spans    []*trace.Span
	answer   func(*http.Request) int // the status; 0 means 200
	header   http.Header             // further headers of answers
	body     []byte                  // the body of answers
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
	var in io.Reader = r.Body
	var err error
	if r.Header.Get("Content-Encoding") == "gzip" {
		if in, err = gzip.NewReader(r.Body); err != nil {
			in = strings.NewReader("")
		}
	}
	body, readErr := io.ReadAll(in)
	err = errors.Join(err, readErr)
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
	maps.Copy(w.Header(), c.header)
	w.WriteHeader(status)
	_, _ = w.Write(c.body)
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
		c.traces = &m
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
			c.since = time.Unix(0, int64(points[0].StartTimeUnixNano))
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
