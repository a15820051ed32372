// Package scrape keeps the metrics of one machine for Prometheus, which asks for them.
package scrape

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
)

// Metrics are the metrics since the start: counts as counters, ages as gauges with the maximum of
// the last minute or two, and the time to accept as a histogram. They may be used concurrently.
type Metrics struct {
	registry *prometheus.Registry
	counters map[string]*prometheus.CounterVec
	accept   *prometheus.HistogramVec
	now      func() time.Time
	ages     *telemetry.Ages
	ageDescs map[string]*prometheus.Desc
}

// New returns metrics that are all zero, with the depths of queues, which are asked for at each
// scrape.
func New(now func() time.Time, queues func() []Depth) *Metrics {
	s := &Metrics{registry: prometheus.NewRegistry(), counters: map[string]*prometheus.CounterVec{}, now: now, ages: telemetry.NewAges(now), ageDescs: map[string]*prometheus.Desc{}}
	for _, name := range telemetry.Metrics() {
		switch {
		case name == telemetry.MetricAcceptTime:
			s.accept = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: Name(name), Help: help(name), Buckets: prometheus.DefBuckets}, []string{telemetry.Dimension})
			s.registry.MustRegister(s.accept)
		case telemetry.Unit(name) == telemetry.UnitSeconds:
			s.ageDescs[name] = prometheus.NewDesc(Name(name), help(name), []string{telemetry.Dimension}, nil)
		default:
			s.counters[name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: Name(name), Help: help(name)}, []string{telemetry.DimensionOf(name)})
			s.registry.MustRegister(s.counters[name])
		}
	}
	//nolint:staticcheck // package collectors links database/sql, and has the same two
	s.registry.MustRegister(s, depths(queues), prometheus.NewGoCollector(), prometheus.NewProcessCollector(prometheus.ProcessCollectorOpts{}))
	return s
}

func help(name string) string {
	return "See docs/observability.md#metrics, " + name + "."
}

// Observe counts an event.
func (s *Metrics) Observe(e *record.Event) {
	for _, name := range telemetry.MetricsOf(e) {
		switch counter := s.counters[name]; {
		case counter != nil:
			counter.WithLabelValues(telemetry.DimensionValue(e, name)).Add(telemetry.Value(e, name))
		case name == telemetry.MetricAcceptTime:
			s.accept.WithLabelValues(e.Stream).Observe(max(0, e.Age.Seconds()))
		default:
			s.ages.Add(e.Stream, name, telemetry.Value(e, name))
		}
	}
}

// Describe implements [prometheus.Collector] for the ages.
func (s *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range s.ageDescs {
		to <- d
	}
}

// Collect implements [prometheus.Collector] for the ages.
func (s *Metrics) Collect(to chan<- prometheus.Metric) {
	for name, desc := range s.ageDescs {
		s.ages.Each(name, func(stream string, age float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, age, stream)
		})
	}
}

// Handler serves the metrics in the format that the reader asks for, compressed if it accepts gzip.
// The parameters name[] of the query select some of them. Pebble links the registry and the formats anyway, and not package promhttp.
func (s *Metrics) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, err := s.registry.Gather()
		if err != nil {
			http.Error(w, "gather metrics: "+err.Error(), http.StatusInternalServerError)
			return
		}
		format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultAcceptedFormats()...)
		w.Header().Set("Content-Type", string(format))
		w.Header().Set("Vary", "Accept, Accept-Encoding")
		var out io.Writer = w
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			out = z
		}
		encoder, wanted := expfmt.NewEncoder(out, format), r.URL.Query()["name[]"]
		for _, family := range found {
			if len(wanted) > 0 && !slices.Contains(wanted, family.GetName()) {
				continue
			}
			if encoder.Encode(family) != nil {
				return // the reader has disconnected
			}
		}
		if c, ok := encoder.(expfmt.Closer); ok {
			_ = c.Close() // the reader may have disconnected
		}
	})
}

// A Depth is how many messages are in a queue.
type Depth struct {
	Queue                    string
	Ready, InFlight, Delayed int
}

// depths reports how many messages are in queues.
type depths func() []Depth

func depthDesc() *prometheus.Desc {
	return prometheus.NewDesc("once_queue_messages", "Messages in a queue: ready, in_flight or delayed.", []string{"queue", "state"}, nil)
}

// Describe implements [prometheus.Collector].
func (depths) Describe(to chan<- *prometheus.Desc) { to <- depthDesc() }

// Collect implements [prometheus.Collector].
func (d depths) Collect(to chan<- prometheus.Metric) {
	desc := depthDesc()
	for _, q := range d() {
		for state, n := range map[string]int{"ready": q.Ready, "in_flight": q.InFlight, "delayed": q.Delayed} {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), q.Queue, state)
		}
	}
}

// Name returns the name of a metric for Prometheus: once_key_reuse_total for KeyReuse,
// once_gap_age_seconds for GapAge.
func Name(metric string) string {
	suffix := "_total"
	if telemetry.Unit(metric) == telemetry.UnitSeconds {
		suffix = "_seconds"
	}
	return strings.ReplaceAll(telemetry.OTelName(metric), ".", "_") + suffix
}
