package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once/internal/record"
)

// Options are the settings. Zero fields take the defaults in their comments.
type Options struct {
	// Service names what reports, where OTEL_SERVICE_NAME does not. Defaults to "once".
	Service string
	// Output is where metrics are written in CloudWatch's embedded metric format, where no collector is set. Nil writes none.
	Output io.Writer
	// Known tells the streams of the system. What happens under other names, which senders make up, counts under [OtherStreams]: each name would be a metric of its own, and is paid for.
	// Defaults to knowing all.
	Known func(stream string) bool
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

// OtherStreams stands for the streams that are not the system's. No stream can have that name.
const OtherStreams = "~other"

// The environment that this package reads by itself; the exporters read the rest of OTEL_… as OpenTelemetry specifies.
const (
	envDisabled = "OTEL_SDK_DISABLED"
	envLogLevel = "AWS_LAMBDA_LOG_LEVEL"
	envFunction = "AWS_LAMBDA_FUNCTION_NAME"
)

// A Telemetry counts, traces and reports. It may be used concurrently.
type Telemetry struct {
	options Options
	tally   tally
	emf     EMF
	meter   *meter                   // nil without a collector for metrics
	spans   *sdktrace.TracerProvider // nil without a collector for traces
	tracer  trace.Tracer             // likewise
	quiet   atomic.Int64             // Unix milliseconds until which an absent collector is left alone
}

// Open reads OTEL_EXPORTER_OTLP_ENDPOINT and its like from the environment. It does no call. An error says that the environment asks for what can't be done.
//
// Where a collector is set, OpenTelemetry's own errors in this process go to the log.
func Open(ctx context.Context, options Options) (*Telemetry, error) {
	t := &Telemetry{options: options.withDefaults()}
	t.emf = EMF{Output: t.options.Output, Namespace: os.Getenv(EnvNamespace), Level: os.Getenv(envLogLevel), Now: t.options.Now}
	metrics, err := collects("METRICS")
	if err != nil {
		return nil, err
	}
	traces, err := collects("TRACES")
	if err != nil || !metrics && !traces {
		return t, err
	}
	about, err := describe(ctx, t.options.Service)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.options.Log.Warn("telemetry is incomplete", "error", err) }))
	if metrics {
		if t.meter, err = newMeter(ctx, about); err != nil {
			return nil, err
		}
	}
	if traces {
		if t.spans, err = newTracing(ctx, about); err != nil {
			return nil, err
		}
		t.tracer = t.spans.Tracer(scope)
	}
	return t, nil
}

func (o Options) withDefaults() Options {
	if o.Service == "" {
		o.Service = "once"
	}
	if o.Known == nil {
		o.Known = func(string) bool { return true }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// collects tells whether the environment names a collector for metrics or traces.
func collects(signal string) (bool, error) {
	own := "OTEL_EXPORTER_OTLP_" + signal + "_"
	endpoint := cmp.Or(os.Getenv(own+"ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if endpoint == "" || os.Getenv(envDisabled) == "true" || os.Getenv("OTEL_"+signal+"_EXPORTER") == "none" {
		return false, nil
	}
	if p := cmp.Or(os.Getenv(own+"PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); p != "http/protobuf" {
		return false, fmt.Errorf("read environment: OTEL_EXPORTER_OTLP_PROTOCOL is %q; only http/protobuf is spoken", p)
	}
	return true, nil
}

// Observe counts what happened. It never blocks on a report.
func (t *Telemetry) Observe(e record.Event) {
	if !t.options.Known(e.Stream) {
		e.Stream = OtherStreams
	}
	switch {
	case t.meter != nil:
		t.meter.observe(&e)
	case t.options.Output != nil:
		t.tally.observe(&e)
	}
}

const (
	// flushTime is how long a report to a collector may take.
	flushTime = time.Second
	// flushMargin is kept free before the end of an invocation: a function that is killed while it reports has its whole batch done again.
	flushMargin = 250 * time.Millisecond
	// quietTime is how long a collector that failed is left alone: each try makes callers wait.
	quietTime = 15 * time.Second
)

// Flush reports what was counted and traced since the last time, within a second and before the deadline of ctx. attributes are added to lines of the log. What fails is logged.
func (t *Telemetry) Flush(ctx context.Context, attributes map[string]string) {
	if err := t.emf.Write(t.tally.take(), attributes); err != nil {
		t.options.Log.ErrorContext(ctx, "metrics are lost", "error", err)
	}
	now := t.options.Now()
	if t.meter == nil && t.spans == nil || now.UnixMilli() < t.quiet.Load() {
		return
	}
	limit := flushTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)-flushMargin)
	}
	if limit <= 0 {
		return // the next report has it
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := t.export(limited); err != nil {
		t.quiet.Store(now.Add(quietTime).UnixMilli())
		t.options.Log.WarnContext(ctx, "telemetry does not reach its collector", "error", err)
	}
}

// export reports metrics and traces at once.
func (t *Telemetry) export(ctx context.Context) error {
	counted := make(chan error, 1)
	go func() {
		if t.meter == nil {
			counted <- nil
			return
		}
		counted <- t.meter.export(ctx)
	}()
	var traced error
	if t.spans != nil {
		traced = t.spans.ForceFlush(ctx)
	}
	return errors.Join(<-counted, traced)
}

// Run reports every so often, until the context ends, and then once more: for processes that live on. 0 means every ten seconds.
func (t *Telemetry) Run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(cmp.Or(every, 10*time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.Flush(ctx, nil)
		case <-ctx.Done():
			t.quiet.Store(0)
			t.Flush(context.WithoutCancel(ctx), nil)
			return
		}
	}
}
