package provided_test

import (
	"context"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry/provided"
)

func TestAnAgeIsReportedToEveryReaderForAMinuteOrTwo(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	readers := []sdkmetric.Reader{sdkmetric.NewManualReader(), sdkmetric.NewManualReader()}
	c, err := provided.New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(readers[0]), sdkmetric.WithReader(readers[1])), nil, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	gap := func(age time.Duration) {
		c.Observe(&record.Event{Name: record.EventGap, Stream: "orders", Count: 1, Age: age})
	}
	check := func(want float64) {
		t.Helper()
		for i, r := range readers {
			var found metricdata.ResourceMetrics
			if err := r.Collect(context.Background(), &found); err != nil {
				t.Fatal(err)
			}
			got := 0.0
			for _, scope := range found.ScopeMetrics {
				for _, m := range scope.Metrics {
					if g, ok := m.Data.(metricdata.Gauge[float64]); ok && m.Name == "once.gap_age" {
						got = g.DataPoints[0].Value
					}
				}
			}
			if got != want {
				t.Errorf("reader %d: the age is %v, want %v", i, got, want)
			}
		}
	}
	gap(5 * time.Second)
	gap(3 * time.Second)
	check(5)
	check(5)
	now = now.Add(61 * time.Second)
	gap(2 * time.Second)
	check(5)
	now = now.Add(61 * time.Second)
	check(2)
	now = now.Add(3 * time.Minute)
	check(0)
	if c.Tracer() != nil {
		t.Error("there is a tracer without a provider")
	}
}

func TestWithoutAProviderOfMetersNothingIsCounted(t *testing.T) {
	c, err := provided.New(nil, nil, time.Now)
	if err != nil || c.Observe(&record.Event{Name: record.EventProcessed, Count: 1}) {
		t.Errorf("an event is counted, %v", err)
	}
}
