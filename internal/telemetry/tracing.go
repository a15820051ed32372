package telemetry

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// newTracing makes a source of spans that are sent to a collector by OTLP over HTTP, as OTEL_EXPORTER_OTLP_… and OTEL_TRACES_SAMPLER say. It does no call.
func newTracing(ctx context.Context, about *resource.Resource) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err != nil {
		return nil, fmt.Errorf("make traces exporter: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), nil
}

// The headers of W3C trace context, as messages carry them.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
)

// headers are a message's or an effect's as a carrier of trace context. Their names come as they were sent: HTTP writes them in other letters than queues.
type headers map[string]string

var _ propagation.TextMapCarrier = headers{}

// Get gives the value of a name in any letters.
func (h headers) Get(name string) string {
	if value, ok := h[name]; ok {
		return value
	}
	for other, value := range h {
		if strings.EqualFold(other, name) {
			return value
		}
	}
	return ""
}

// Set sets the value of a name, in place of that name in any other letters.
func (h headers) Set(name, value string) {
	h.drop(name)
	h[name] = value
}

// Keys lists the names.
func (h headers) Keys() []string {
	out := make([]string, 0, len(h))
	for name := range h {
		out = append(out, name)
	}
	return out
}

func (h headers) drop(name string) {
	maps.DeleteFunc(h, func(other, _ string) bool { return strings.EqualFold(other, name) })
}

func (h headers) traced() bool { return h.Get(traceparent) != "" }

// spelled gives the headers of a trace the names that standard and receivers spell small: attributes of queues are told apart by their letters.
func spelled(h map[string]string) map[string]string {
	var out headers
	for name, value := range h {
		small := strings.ToLower(name)
		if small == name || small != traceparent && small != tracestate {
			continue
		}
		if out == nil {
			out = maps.Clone(h)
		}
		out.Set(small, value)
	}
	if out == nil {
		return h
	}
	return out
}

// extract gives a context of the trace that headers are part of.
func extract(ctx context.Context, h map[string]string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, headers(h))
}

// injected gives a copy of headers that are part of the trace of a context. A sender may keep the headers that it was given.
func injected(ctx context.Context, h map[string]string) map[string]string {
	out := make(headers, len(h)+2)
	maps.Copy(out, h)
	fresh := headers{}
	propagation.TraceContext{}.Inject(ctx, fresh)
	if len(fresh) == 0 {
		return h
	}
	out.drop(tracestate) // it belongs to the old parent
	for name, value := range fresh {
		out.Set(name, value)
	}
	return out
}

// inherited gives the headers of an effect the trace of the message that made it, where they have none of their own.
func inherited(effect, message map[string]string) map[string]string {
	parent := headers(message).Get(traceparent)
	if parent == "" || headers(effect).traced() {
		return effect
	}
	out := make(headers, len(effect)+2)
	maps.Copy(out, effect)
	out.Set(traceparent, parent)
	if state := headers(message).Get(tracestate); state != "" {
		out.Set(tracestate, state)
	}
	return out
}
