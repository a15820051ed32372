package otlp

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
)

// A meter reports metrics to a collector by OTLP over HTTP: counts as sums since its start, ages as
// gauges with the maximum since the last report.
//
// It reports when it is called, without a timer of its own, because a function is frozen between
// two invocations, and a report in flight would fail.
type meter struct {
	exporter *otlpmetrichttp.Exporter
	reader   *sdkmetric.ManualReader
	counters map[string]metric.Float64Counter
	dirty    atomic.Bool // something was counted since the last report that arrived

	mu   sync.Mutex
	ages telemetry.Counts
}

// newMeter returns a meter configured by OTEL_EXPORTER_OTLP_…. It makes no call.
func newMeter(ctx context.Context, about *resource.Resource) (*meter, error) {
	// No retries: counts are in the next report too, and there is no time to wait.
	exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
	if err != nil {
		return nil, fmt.Errorf("make metrics exporter: %w", err)
	}
	m := &meter{
		exporter: exporter, counters: map[string]metric.Float64Counter{}, ages: telemetry.Counts{},
		reader: sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(exporter.Temporality), sdkmetric.WithAggregationSelector(exporter.Aggregation)),
	}
	instruments := sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.reader), sdkmetric.WithResource(about)).Meter(scope)
	for _, name := range telemetry.Metrics() {
		if err := m.instrument(instruments, name); err != nil {
			return nil, fmt.Errorf("make metric %s: %w", name, err)
		}
	}
	return m, nil
}

func (m *meter) instrument(of metric.Meter, name string) (err error) {
	if telemetry.Unit(name) == telemetry.UnitSeconds {
		_, err = of.Float64ObservableGauge(telemetry.OTelName(name), metric.WithUnit(telemetry.OTelUnit(name)), metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			m.tellAges(name, o)
			return nil
		}))
		return err
	}
	m.counters[name], err = of.Float64Counter(telemetry.OTelName(name), metric.WithUnit(telemetry.OTelUnit(name)))
	return err
}

func (m *meter) observe(e *record.Event) {
	for _, name := range telemetry.MetricsOf(e) {
		if counter := m.counters[name]; counter != nil {
			counter.Add(context.Background(), telemetry.Value(e, name), streamOption(e.Stream))
		} else {
			m.mu.Lock()
			m.ages.Add(e.Stream, name, telemetry.Value(e, name))
			m.mu.Unlock()
		}
		m.dirty.Store(true)
	}
}

// tellAges reports the greatest ages and resets them, so that an old age is not reported forever.
func (m *meter) tellAges(name string, o metric.Float64Observer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for stream, of := range m.ages {
		if age, ok := of[name]; ok {
			o.Observe(age, streamOption(stream))
			delete(of, name)
		}
	}
}

func streamOption(stream string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(telemetry.Dimension, stream)))
}

// export sends a report, if there are new counts.
func (m *meter) export(ctx context.Context) error {
	if !m.dirty.Swap(false) {
		return nil
	}
	var found metricdata.ResourceMetrics
	err := m.reader.Collect(ctx, &found)
	if err == nil {
		err = m.exporter.Export(ctx, &found)
	}
	if err != nil {
		m.dirty.Store(true)
		return fmt.Errorf("export metrics: %w", err)
	}
	return nil
}
