package otlp_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/otlp"
)

func TestMetricsGoToTheCollectorInPlaceOfTheLog(t *testing.T) {
	c := collecting(t)
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "fn")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	tm, out := opened(t, telemetry.Options{Service: "once-process"})
	function := telemetry.Invoke(tm, func(_ context.Context, gap time.Duration) (int, error) {
		tm.Observe(record.Event{Name: record.EventProcessed, Stream: "orders", Count: 2})
		tm.Observe(record.Event{Name: record.EventRejected, Stream: "orders", Count: 1, Reason: record.ReasonKeyReuse})
		if gap > 0 {
			tm.Observe(record.Event{Name: record.EventGap, Stream: "orders", Age: gap})
			tm.Observe(record.Event{Name: record.EventGap, Stream: "orders", Age: gap / 2})
		}
		return 0, nil
	})
	want := map[string]float64{"once.processed {message} orders+": 2, "once.rejected {message} orders+": 1, "once.key_reuse {message} orders+": 1, "once.gap_age s orders": 90}
	if _, err := function(t.Context(), 90*time.Second); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, c.points); diff != "" {
		t.Errorf("first report (-want +got):\n%s", diff)
	}
	// the gap is over
	want = map[string]float64{"once.processed {message} orders+": 4, "once.rejected {message} orders+": 2, "once.key_reuse {message} orders+": 2}
	if _, err := function(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, c.points); diff != "" {
		t.Errorf("second report (-want +got):\n%s", diff)
	}
	if out.Len() > 0 {
		t.Errorf("written: %s", out)
	}
	r := c.resource
	if r["service.name"] != "once-process" || r["faas.name"] != "fn" || r["deployment.environment.name"] != "test" || r["service.instance.id"] == "" {
		t.Errorf("resource %v", r)
	}
	before := c.requests
	tm.Flush(t.Context(), nil)
	if c.requests != before {
		t.Error("reported although nothing happened")
	}
}

func TestTheEnvironmentChoosesTheExporters(t *testing.T) {
	for name, c := range map[string]struct {
		env           map[string]string
		written, sent bool
		broken        bool
	}{
		"nothing":           {nil, true, false, false},
		"metrics":           {map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "URL/v1/metrics"}, false, true, false},
		"traces only":       {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/v1/traces"}, true, false, false},
		"disabled":          {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_SDK_DISABLED": "true"}, true, false, false},
		"no metrics wanted": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_METRICS_EXPORTER": "none"}, true, false, false},
		"gRPC":              {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			collected := collecting(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
			for variable, value := range c.env {
				t.Setenv(variable, strings.ReplaceAll(value, "URL", collected.url))
			}
			var out bytes.Buffer
			tm, err := telemetry.Open(t.Context(), telemetry.Options{Collector: otlp.New, Output: &out})
			if (err != nil) != c.broken {
				t.Fatal(err)
			}
			if c.broken {
				return
			}
			tm.Observe(record.Event{Name: record.EventProcessed, Stream: "s", Count: 1})
			tm.Flush(t.Context(), nil)
			if written, sent := out.Len() > 0, len(collected.points) > 0; written != c.written || sent != c.sent {
				t.Errorf("written %t, sent %t", written, sent)
			}
		})
	}
}

func TestAFailingCollectorIsLoggedAndNotCalledForAWhile(t *testing.T) {
	c := collecting(t)
	c.answer = func(*http.Request) int { return http.StatusServiceUnavailable }
	now := time.UnixMilli(1700000000123).UTC()
	var log bytes.Buffer
	tm := exporting(t, telemetry.Options{Now: func() time.Time { return now }, Log: telemetry.NewLog(&log, "", "")})
	function := telemetry.Invoke(tm, func(_ context.Context, n int) (string, error) {
		if n == 0 {
			tm.Observe(record.Event{Name: record.EventProcessed, Stream: "s", Count: 3})
		}
		return "fine", nil
	})
	for n := range 3 {
		if answer, err := function(t.Context(), n); answer != "fine" || err != nil {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	if c.requests != 1 || strings.Count(log.String(), `"WARN"`) != 1 {
		t.Errorf("%d requests, log %s", c.requests, &log)
	}
	c.answer, now = func(*http.Request) int { return 0 }, now.Add(time.Minute)
	tm.Flush(t.Context(), nil)
	if got := c.points["once.processed {message} s+"]; got != 3 {
		t.Errorf("%v were reported in the end", got)
	}
}

// Package telemetry tests how long that is.
func TestAReportToACollectorThatHangsEnds(t *testing.T) {
	c := collecting(t)
	hang, arrived := make(chan struct{}), make(chan struct{}, 10)
	defer close(hang)
	c.answer = func(*http.Request) int {
		arrived <- struct{}{}
		<-hang
		return 0
	}
	tm := exporting(t, telemetry.Options{})
	tm.Observe(record.Event{Name: record.EventProcessed, Stream: "s", Count: 1})
	tm.Flush(t.Context(), nil)
	<-arrived
}

func TestALongRunningProcessReportsPeriodicallyAndAtItsEnd(t *testing.T) {
	c := collecting(t)
	reported := make(chan struct{}, 100)
	c.answer = func(*http.Request) int { reported <- struct{}{}; return 0 }
	tm := exporting(t, telemetry.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { tm.Run(ctx, 10*time.Millisecond); close(done) }()
	tm.Observe(record.Event{Name: record.EventProcessed, Stream: "s", Count: 1})
	<-reported
	tm.Observe(record.Event{Name: record.EventProcessed, Stream: "s", Count: 1})
	cancel()
	<-done
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.points["once.processed {message} s+"]; got != 2 {
		t.Errorf("%v were reported in the end", got)
	}
}
