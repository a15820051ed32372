//go:build nootlp

package telemetry

import (
	"context"
	"errors"
)

// newCollector returns an error: a program that is built with the tag nootlp starts faster, because
// it does not link OpenTelemetry's exporters.
func newCollector(context.Context, Options, bool, bool) (collector, error) {
	return nil, errors.New("read environment: a collector is set by OTEL_EXPORTER_OTLP_…, and this program is built without OTLP (tag nootlp)")
}
