package function

import (
	"context"
	"log/slog"
	"os"
	"slices"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/otlp"
)

// NewLog returns the log of a function: JSON on standard output, at the level that the function is
// set to. See [telemetry.NewLog].
func NewLog() *slog.Logger {
	return telemetry.NewLog(os.Stdout, lambdacontext.FunctionName, os.Getenv("AWS_LAMBDA_LOG_LEVEL"))
}

// newWatch returns the telemetry of a system: it writes metrics to standard output, or sends them
// with traces to the collector that the environment names.
func newWatch(settings environment.Settings, declared []system.Stream, log *slog.Logger) (*telemetry.Telemetry, error) {
	known := func(name string) bool {
		_, configured := settings.Config.Streams[name]
		return configured || slices.ContainsFunc(declared, func(s system.Stream) bool { return s.Name == name })
	}
	return telemetry.Open(context.Background(), telemetry.Options{Collector: otlp.New, Service: lambdacontext.FunctionName, Output: os.Stdout, Known: known, Log: log})
}
