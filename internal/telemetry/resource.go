package telemetry

import (
	"context"
	"fmt"
	"os"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// describe tells a collector who reports. The instance keeps apart the sums of functions that run at once. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES count more.
func describe(ctx context.Context, service string) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{semconv.ServiceName(service), semconv.ServiceInstanceID(uuid.NewString())}
	if name := os.Getenv(envFunction); name != "" {
		attributes = append(attributes, semconv.FaaSName(name), semconv.CloudProviderAWS, semconv.CloudRegion(os.Getenv("AWS_REGION")),
			semconv.FaaSInstance(os.Getenv("AWS_LAMBDA_LOG_STREAM_NAME")))
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attributes...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe service: %w", err)
	}
	return about, nil
}
