package otlp

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/provided"
)

// A meter reports metrics to a collector: counts as sums, ages as gauges with the maximum since the
// last report. It may be used concurrently.
//
// It reports when it is called, without a timer of its own, because a function is frozen between
// two invocations, and a report in flight would fail.
type meter struct {
	client *client
	about  *resource.Resource
	now    func() time.Time
	delta  bool // sums are those since the last report, in place of those since the start

	mu     sync.Mutex
	counts telemetry.Counts // by the value of the metric's dimension
	since  time.Time        // when the sums began
	dirty  bool             // something was counted since the last report that arrived
}

// newMeter returns a meter configured by OTEL_EXPORTER_OTLP_…. It makes no call.
func newMeter(about *resource.Resource, o telemetry.Options) (*meter, error) {
	c, err := newClient("METRICS", o)
	if err != nil {
		return nil, err
	}
	m := &meter{client: c, about: about, now: o.Now, counts: telemetry.Counts{}, since: o.Now()}
	const name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
	switch v := os.Getenv(name); strings.ToLower(v) {
	case "", "cumulative":
	case "delta", "lowmemory": // low memory is delta for the only kind of sums that is here
		m.delta = true
	default:
		return nil, fmt.Errorf("read environment: %s is %q, not cumulative, delta or lowmemory", name, v)
	}
	return m, nil
}

func (m *meter) observe(e *record.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range telemetry.MetricsOf(e) {
		m.counts.Add(telemetry.DimensionValue(e, name), name, telemetry.Value(e, name))
		m.dirty = true
	}
}

// export sends a report, if there are new counts. If it fails, its counts are in the next report,
// and its ages are lost: an old age is not reported as a new one.
func (m *meter) export(ctx context.Context) error {
	counts, since := m.take()
	if counts == nil {
		return nil
	}
	if err := m.client.post(ctx, report(m.about, m.metrics(counts, since))); err != nil {
		m.giveBack(counts, since)
		return fmt.Errorf("export metrics: %w", err)
	}
	return nil
}

// take returns the points of a report, and when its sums began: nil if nothing is new.
func (m *meter) take() (telemetry.Counts, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirty {
		return nil, time.Time{}
	}
	taken, since := m.counts, m.since
	m.counts, m.dirty = telemetry.Counts{}, false
	if m.delta {
		m.since = m.now()
	} else {
		addSums(m.counts, taken)
	}
	return taken, since
}

// giveBack puts the sums of a report that failed into the next one.
func (m *meter) giveBack(taken telemetry.Counts, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirty = true
	if m.delta {
		m.since = since
		addSums(m.counts, taken)
	}
}

// addSums adds all counts that are not ages.
func addSums(to, from telemetry.Counts) {
	for value, of := range from {
		for name, v := range of {
			if telemetry.Unit(name) != telemetry.UnitSeconds {
				to.Add(value, name, v)
			}
		}
	}
}

// metrics returns a ScopeMetrics.
func (m *meter) metrics(counts telemetry.Counts, since time.Time) message {
	const delta, cumulative = 1, 2
	temporality := uint64(cumulative)
	if m.delta {
		temporality = delta
	}
	all := scoped(instrumentation.Scope{Name: provided.Scope})
	for _, name := range telemetry.Metrics() {
		points := m.points(counts, name, since)
		if len(points) == 0 {
			continue
		}
		metric := message(nil).text(1, telemetry.OTelName(name)).text(3, telemetry.OTelUnit(name))
		if telemetry.Unit(name) == telemetry.UnitSeconds {
			metric = metric.bytes(5, points)
		} else {
			metric = metric.bytes(7, points.number(2, temporality).number(3, 1)) // monotonic
		}
		all = all.bytes(2, metric)
	}
	return all
}

// points returns a Gauge or Sum with a NumberDataPoint for each value of the dimension.
func (m *meter) points(counts telemetry.Counts, name string, since time.Time) (points message) {
	now := m.now()
	for _, value := range slices.Sorted(maps.Keys(counts)) {
		if v, ok := counts[value][name]; ok {
			dimension := []attribute.KeyValue{attribute.String(telemetry.DimensionOf(name), value)}
			points = points.bytes(1, message(nil).time(2, since).time(3, now).double(4, v).attributes(7, dimension))
		}
	}
	return points
}
