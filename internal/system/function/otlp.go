//go:build !nootlp

package function

import (
	"context"

	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/otlp"
)

// collector returns what makes the collector that the environment names.
func collector() func(ctx context.Context, o telemetry.Options, metrics, traces bool) (telemetry.Collector, error) {
	return otlp.New
}
