// Package otlp sends metrics and spans to an OpenTelemetry collector by OTLP over HTTP. It is apart
// from package telemetry, because the exporters are large: a function starts faster without them.
package otlp

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/provided"
)

// A collector receives metrics, spans or both.
type collector struct {
	meter *meter                   // nil without a collector for metrics
	spans *sdktrace.TracerProvider // nil without a collector for traces
}

// New returns a collector of metrics, traces or both, configured by OTEL_EXPORTER_OTLP_…. It makes
// no call. It is a [telemetry.Options.Collector].
func New(ctx context.Context, o telemetry.Options, metrics, traces bool) (telemetry.Collector, error) {
	about, err := describe(ctx, o.Service)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("telemetry is incomplete", "error", err) }))
	c := &collector{}
	if metrics {
		if c.meter, err = newMeter(ctx, about); err != nil {
			return nil, err
		}
	}
	if traces {
		if c.spans, err = newTracing(ctx, about); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Observe implements [telemetry.Collector].
func (c *collector) Observe(e *record.Event) bool {
	if c.meter == nil {
		return false
	}
	c.meter.observe(e)
	return true
}

// Tracer implements [telemetry.Collector].
func (c *collector) Tracer() trace.Tracer {
	if c.spans == nil {
		return nil
	}
	return c.spans.Tracer(provided.Scope)
}

// Export implements [telemetry.Collector]. It reports metrics and traces concurrently.
func (c *collector) Export(ctx context.Context) error {
	counted := make(chan error, 1)
	go func() {
		if c.meter == nil {
			counted <- nil
			return
		}
		counted <- c.meter.export(ctx)
	}()
	var traced error
	if c.spans != nil {
		traced = c.spans.ForceFlush(ctx)
	}
	return errors.Join(<-counted, traced)
}

// newTracing returns a provider of spans that are sent to a collector by OTLP over HTTP, configured
// by OTEL_EXPORTER_OTLP_… and OTEL_TRACES_SAMPLER. It makes no call.
func newTracing(ctx context.Context, about *resource.Resource) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err != nil {
		return nil, fmt.Errorf("make traces exporter: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), nil
}
