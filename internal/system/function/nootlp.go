//go:build nootlp

package function

import (
	"context"

	"github.com/effectively-once/once/internal/telemetry"
)

// collector returns nil: a program that is built with the tag nootlp starts faster, because it does
// not link OpenTelemetry's exporters. An environment that names a collector is an error.
func collector() func(ctx context.Context, o telemetry.Options, metrics, traces bool) (telemetry.Collector, error) {
	return nil
}
