// Package otlp sends metrics and spans to an OpenTelemetry collector by OTLP over HTTP. It is apart
// from package telemetry, because OpenTelemetry's SDK is large: a program that embeds once does not link it.
//
// OpenTelemetry's own exporters are not used, because they link gRPC for any protocol.
package otlp

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
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
		if c.meter, err = newMeter(about, o); err != nil {
			return nil, err
		}
	}
	if traces {
		spans, err := newClient("TRACES", o)
		if err != nil {
			return nil, err
		}
		// OTEL_TRACES_SAMPLER is read by the provider.
		c.spans = sdktrace.NewTracerProvider(sdktrace.WithBatcher(spanExporter{spans}), sdktrace.WithResource(about))
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
