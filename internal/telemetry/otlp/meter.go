package otlp

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/provided"
)

// A meter reports metrics to a collector by OTLP over HTTP: counts as sums since its start, ages as
// gauges with the maximum since the last report.
//
// It reports when it is called, without a timer of its own, because a function is frozen between
// two invocations, and a report in flight would fail.
type meter struct {
	*provided.Instruments

	exporter *otlpmetrichttp.Exporter
	reader   *sdkmetric.ManualReader
	dirty    atomic.Bool // something was counted since the last report that arrived
}

// newMeter returns a meter configured by OTEL_EXPORTER_OTLP_…. It makes no call.
func newMeter(ctx context.Context, about *resource.Resource) (*meter, error) {
	// No retries: counts are in the next report too, and there is no time to wait.
	exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
	if err != nil {
		return nil, fmt.Errorf("make metrics exporter: %w", err)
	}
	m := &meter{
		exporter: exporter,
		reader:   sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(exporter.Temporality), sdkmetric.WithAggregationSelector(exporter.Aggregation)),
	}
	instruments := sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.reader), sdkmetric.WithResource(about)).Meter(provided.Scope)
	m.Instruments, err = provided.NewInstruments(instruments, &reset{ages: telemetry.Counts{}})
	return m, err
}

func (m *meter) observe(e *record.Event) {
	m.Observe(e)
	m.dirty.Store(true)
}

// A reset reports the greatest ages and resets them, so that an old age is not reported forever.
type reset struct {
	mu   sync.Mutex
	ages telemetry.Counts
}

// Add implements [provided.Ages].
func (o *reset) Add(stream, metric string, age float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ages.Add(stream, metric, age)
}

// Tell implements [provided.Ages].
func (o *reset) Tell(metric string, tell func(stream string, age float64)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for stream, of := range o.ages {
		if age, ok := of[metric]; ok {
			tell(stream, age)
			delete(of, metric)
		}
	}
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
