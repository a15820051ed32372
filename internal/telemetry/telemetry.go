package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once/internal/record"
)

// Options configure a Telemetry. Zero fields take the defaults in their comments.
type Options struct {
	// Service names the reporting service, unless OTEL_SERVICE_NAME does. Defaults to "once".
	Service string
	// Output receives metrics in CloudWatch's embedded metric format, if no collector is
	// configured. If it is nil, none are written.
	Output io.Writer
	// Known reports whether a stream is configured. Events of other streams, whose names senders
	// choose, count under [OtherStreams], because each name would be a separate metric, which is
	// billed. By default all streams are known.
	Known func(stream string) bool
	// Collector makes the collector that the environment names, for metrics, traces or both. By
	// default such an environment is an error.
	Collector func(ctx context.Context, o Options, metrics, traces bool) (Collector, error)
	// Also gets each event too, under the stream under which it counts. Defaults to none.
	Also func(*record.Event)
	// Ran gets the time that each run of a handler took. Defaults to none.
	Ran func(stream string, took time.Duration)
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

// OtherStreams stands for the streams that are not configured. It is no valid name of a stream.
const OtherStreams = "~other"

// The variables that this package reads itself; the exporters read the rest of OTEL_… as
// OpenTelemetry specifies.
const (
	envDisabled = "OTEL_SDK_DISABLED"
	envLogLevel = "AWS_LAMBDA_LOG_LEVEL"
)

// EnvFunction is the variable in which Lambda names the function.
const EnvFunction = "AWS_LAMBDA_FUNCTION_NAME"

// A Telemetry counts, traces and reports. It may be used concurrently.
type Telemetry struct {
	options Options
	tally   tally
	emf     EMF
	// remote is nil without a collector.
	remote Collector
	tracer trace.Tracer // nil without a collector for traces
	// Unix milliseconds until which a failed collector is not called
	quiet atomic.Int64
}

// Open reads OTEL_EXPORTER_OTLP_ENDPOINT and related variables. It makes no call. It returns an
// error if the environment requests an unsupported setting.
//
// If a collector is configured, OpenTelemetry's own errors in this process are logged.
func Open(ctx context.Context, options Options) (*Telemetry, error) {
	t := Local(options)
	metrics, err := collects("METRICS")
	if err != nil {
		return nil, err
	}
	traces, err := collects("TRACES")
	if err != nil || !metrics && !traces {
		return t, err
	}
	if t.options.Collector == nil {
		return nil, errors.New("read environment: a collector is set by OTEL_EXPORTER_OTLP_…, and this program is built without OTLP")
	}
	if t.remote, err = t.options.Collector(ctx, t.options, metrics, traces); err != nil {
		return nil, err
	}
	t.tracer = t.remote.Tracer()
	return t, nil
}

// Local returns a Telemetry that reports to no collector, whatever the environment names.
func Local(options Options) *Telemetry {
	t := &Telemetry{options: options.withDefaults()}
	t.emf = EMF{Output: t.options.Output, Namespace: os.Getenv(EnvNamespace), Level: os.Getenv(envLogLevel), Now: t.options.Now}
	return t
}

// With returns a Telemetry that reports to a collector, whatever the environment names.
func With(options Options, c Collector) *Telemetry {
	t := Local(options)
	t.remote, t.tracer = c, c.Tracer()
	return t
}

// A Collector receives metrics, spans or both.
type Collector interface {
	// Observe counts an event. It returns false if the collector receives no metrics.
	Observe(e *record.Event) bool
	// Export reports all news.
	Export(ctx context.Context) error
	// Tracer makes spans; it is nil if the collector receives none.
	Tracer() trace.Tracer
}

func (o Options) withDefaults() Options {
	o.Service = cmp.Or(o.Service, "once")
	if o.Known == nil {
		o.Known = func(string) bool { return true }
	}
	if o.Ran == nil {
		o.Ran = func(string, time.Duration) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// collects reports whether the environment configures a collector for metrics or traces.
func collects(signal string) (bool, error) {
	own := "OTEL_EXPORTER_OTLP_" + signal + "_"
	name := own + "ENDPOINT"
	if os.Getenv(name) == "" {
		name = "OTEL_EXPORTER_OTLP_ENDPOINT"
	}
	endpoint := os.Getenv(name)
	if endpoint == "" || os.Getenv(envDisabled) == "true" || os.Getenv("OTEL_"+signal+"_EXPORTER") == "none" {
		return false, nil
	}
	if p := cmp.Or(os.Getenv(own+"PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); p != "http/protobuf" {
		return false, fmt.Errorf("read environment: OTEL_EXPORTER_OTLP_PROTOCOL is %q; only http/protobuf is supported", p)
	}
	// With such an address the exporters would use that of a collector on this machine.
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false, fmt.Errorf("read environment: %s is not a URL such as http://collector:4318", name)
	}
	return true, nil
}

// Observe counts an event. It never waits for a report.
func (t *Telemetry) Observe(e record.Event) {
	if t.remote != nil || t.options.Output != nil || t.options.Also != nil {
		t.count(e)
	}
}

// count is separate from Observe, so that an event is not allocated if nothing is counted.
func (t *Telemetry) count(e record.Event) {
	if e.Stream == "" || !t.options.Known(e.Stream) {
		e.Stream = OtherStreams
	}
	if t.options.Also != nil {
		t.options.Also(&e)
	}
	if (t.remote == nil || !t.remote.Observe(&e)) && t.options.Output != nil {
		t.tally.observe(&e)
	}
}

const (
	// flushTime is the timeout of a report to a collector.
	flushTime = time.Second
	// flushMargin is reserved before the end of an invocation: if a function is killed while it
	// reports, its whole batch is redelivered.
	flushMargin = 250 * time.Millisecond
	// quietTime is how long a failed collector is not called, because each try makes callers wait.
	quietTime = 15 * time.Second
)

// Flush reports all counts and spans since the last call, within a second and before the deadline
// of ctx. attributes are added to lines of the log. Errors are logged.
func (t *Telemetry) Flush(ctx context.Context, attributes map[string]string) {
	if err := t.emf.Write(t.tally.take(), attributes); err != nil {
		t.options.Log.ErrorContext(ctx, "metrics are lost", "error", err)
	}
	now := t.options.Now()
	if t.remote == nil || now.UnixMilli() < t.quiet.Load() {
		return
	}
	limit := flushTime
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)-flushMargin)
	}
	if limit <= 0 {
		return // the next report includes it
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := t.remote.Export(limited); err != nil {
		t.quiet.Store(now.Add(quietTime).UnixMilli())
		t.options.Log.WarnContext(ctx, "telemetry does not reach its collector", "error", err)
	}
}

// Run reports at intervals until the context ends, and then once more, for long-running processes.
// 0 means every ten seconds.
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
