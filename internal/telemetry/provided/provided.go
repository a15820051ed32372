// Package provided reports metrics and spans to the OpenTelemetry providers of a program. It
// imports the interfaces of OpenTelemetry only, not its SDK.
package provided

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
)

// Scope is the instrumentation scope of metrics and spans.
const Scope = "github.com/effectively-once/once"

// A Collector reports to providers: counts as counters, ages as gauges. It is a
// [telemetry.Collector], and may be used concurrently.
type Collector struct {
	counters map[string]metric.Float64Counter // nil without a provider of meters
	ages     *telemetry.Ages
	tracer   trace.Tracer // nil without a provider of tracers
}

var _ telemetry.Collector = (*Collector)(nil)

// New returns a collector that reports to providers, either of which may be nil.
func New(meters metric.MeterProvider, tracers trace.TracerProvider, now func() time.Time) (*Collector, error) {
	c := &Collector{ages: telemetry.NewAges(now)}
	if meters != nil {
		c.counters = map[string]metric.Float64Counter{}
		for _, name := range telemetry.Metrics() {
			if err := c.add(meters.Meter(Scope), name); err != nil {
				return nil, fmt.Errorf("make metric %s: %w", name, err)
			}
		}
	}
	if tracers != nil {
		c.tracer = tracers.Tracer(Scope)
	}
	return c, nil
}

func (c *Collector) add(on metric.Meter, name string) (err error) {
	if telemetry.Unit(name) != telemetry.UnitSeconds {
		c.counters[name], err = on.Float64Counter(telemetry.OTelName(name), metric.WithUnit(telemetry.OTelUnit(name)))
		return err
	}
	_, err = on.Float64ObservableGauge(telemetry.OTelName(name), metric.WithUnit(telemetry.OTelUnit(name)), metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
		c.ages.Each(name, func(stream string, age float64) { o.Observe(age, option(telemetry.Dimension, stream)) })
		return nil
	}))
	return err
}

// Observe implements [telemetry.Collector].
func (c *Collector) Observe(e *record.Event) bool {
	if c.counters == nil {
		return false
	}
	for _, name := range telemetry.MetricsOf(e) {
		if counter := c.counters[name]; counter != nil {
			counter.Add(context.Background(), telemetry.Value(e, name), option(telemetry.DimensionOf(name), telemetry.DimensionValue(e, name)))
		} else {
			c.ages.Add(e.Stream, name, telemetry.Value(e, name))
		}
	}
	return true
}

// Export implements [telemetry.Collector]. It does nothing: the providers export.
func (c *Collector) Export(context.Context) error { return nil }

// Tracer implements [telemetry.Collector].
func (c *Collector) Tracer() trace.Tracer { return c.tracer }

func option(dimension, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(attribute.String(dimension, value)))
}
