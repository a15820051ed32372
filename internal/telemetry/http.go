package telemetry

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// ownHeader is the prefix of headers that belong to the message; they take precedence over those of
// the request.
const ownHeader = "Once-Header-"

// HTTP makes a span for each request to the HTTP API, and adds it to the headers of the request,
// from which the message inherits it. A request without a trace begins one.
//
// The span has the route, but neither the path nor the query, because they contain keys.
func (t *Telemetry) HTTP(inner http.Handler) http.Handler {
	if t.tracer == nil {
		return inner
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			inner.ServeHTTP(w, r)
			return
		}
		ctx, span := t.tracer.Start(fromHTTP(r), r.Method, trace.WithSpanKind(trace.SpanKindServer))
		traced := r.Clone(ctx)
		toHTTP(ctx, traced.Header)
		noted := &notedWriter{ResponseWriter: w}
		defer func() { t.answered(span, traced, noted) }()
		inner.ServeHTTP(noted, traced)
	})
}

// answered ends a span with the route and the status.
func (t *Telemetry) answered(span trace.Span, r *http.Request, w *notedWriter) {
	if r.Pattern != "" {
		_, route, _ := strings.Cut(r.Pattern, " ")
		span.SetName(r.Pattern)
		span.SetAttributes(semconv.HTTPRoute(route))
	}
	if stream := r.PathValue("stream"); stream != "" && t.options.Known(stream) {
		span.SetAttributes(attrStream.String(stream))
	}
	status := w.status
	if status == 0 {
		status = http.StatusOK
	}
	span.SetAttributes(semconv.HTTPRequestMethodKey.String(r.Method), semconv.HTTPResponseStatusCode(status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
	span.End()
}

// fromHTTP returns the request's context, with the trace that the message names. Without one, it
// has the span of a handler in this process around this one, or else the trace of the request.
func fromHTTP(r *http.Request) context.Context {
	own := http.Header{}
	for _, name := range []string{traceparent, tracestate} {
		if values := r.Header.Values(ownHeader + name); len(values) > 0 {
			own[http.CanonicalHeaderKey(name)] = values
		}
	}
	if len(own) == 0 {
		if outer := trace.SpanContextFromContext(r.Context()); outer.IsValid() {
			return r.Context()
		}
		own = r.Header
	}
	return propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(own))
}

func toHTTP(ctx context.Context, h http.Header) {
	for _, name := range []string{traceparent, tracestate} {
		h.Del(name)
		h.Del(ownHeader + name)
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// A notedWriter records the status.
type notedWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the first final status.
func (w *notedWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is used by http.ResponseController.
func (w *notedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
