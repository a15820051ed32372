package otlp

import (
	"context"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/effectively-once/once/internal/telemetry"
)

// Export sends spans as the environment says.
func Export(ctx context.Context, o telemetry.Options, spans ...sdktrace.ReadOnlySpan) error {
	c, err := newClient("TRACES", o)
	if err != nil {
		return err
	}
	return spanExporter{c}.ExportSpans(ctx, spans)
}
