package telemetry

import (
	"context"
	"maps"
	"strings"

	"go.opentelemetry.io/otel/propagation"
)

// The headers of W3C trace context in messages.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
)

// headers is a carrier of trace context on the headers of a message or an effect. Names are
// compared without regard to case, because HTTP and queues differ in it.
type headers map[string]string

var _ propagation.TextMapCarrier = headers{}

// Get returns the value of a name in any case.
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

// Set sets the value of a name, replacing that name in any other case.
func (h headers) Set(name, value string) {
	h.drop(name)
	h[name] = value
}

// Keys returns the names.
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

// spelled converts the names of trace headers to lower case, which receivers expect: attributes of
// queues are case-sensitive.
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

// extract returns a context with the trace in headers.
func extract(ctx context.Context, h map[string]string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, headers(h))
}

// injected returns a copy of headers with the trace of a context. It does not change h, which a
// caller may keep.
func injected(ctx context.Context, h map[string]string) map[string]string {
	out := make(headers, len(h)+2)
	maps.Copy(out, h)
	fresh := headers{}
	propagation.TraceContext{}.Inject(ctx, fresh)
	out.drop(tracestate) // it belongs to the old parent
	for name, value := range fresh {
		out.Set(name, value)
	}
	return out
}

// inherited returns the headers of an effect, with the trace of its message unless they have one.
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
