package otlp

import (
	"context"
	"fmt"
	"os"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/effectively-once/once/internal/telemetry"
)

// describe returns the resource that reports to a collector. The instance id keeps the sums of
// concurrent functions apart. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
func describe(ctx context.Context, service string) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{semconv.ServiceName(service), semconv.ServiceInstanceID(uuid.NewString())}
	if name := os.Getenv(telemetry.EnvFunction); name != "" {
		attributes = append(attributes, semconv.FaaSName(name), semconv.CloudProviderAWS, semconv.CloudRegion(os.Getenv("AWS_REGION")),
			semconv.FaaSInstance(os.Getenv("AWS_LAMBDA_LOG_STREAM_NAME")))
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attributes...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe service: %w", err)
	}
	return about, nil
}
