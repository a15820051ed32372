package otlp

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A spanExporter sends spans to a collector. It is an [sdktrace.SpanExporter].
type spanExporter struct{ client *client }

// ExportSpans implements [sdktrace.SpanExporter]. All spans have the resource of their provider;
// handlers may have made some in scopes of their own.
func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	var scopes []message
	index := map[instrumentation.Scope]int{}
	for _, s := range spans {
		i, known := index[s.InstrumentationScope()]
		if !known {
			i = len(scopes)
			index[s.InstrumentationScope()] = i
			scopes = append(scopes, scoped(s.InstrumentationScope()))
		}
		scopes[i] = scopes[i].bytes(2, encodeSpan(s))
	}
	if err := e.client.post(ctx, report(spans[0].Resource(), scopes...)); err != nil {
		return fmt.Errorf("export traces: %w", err)
	}
	return nil
}

// Shutdown implements [sdktrace.SpanExporter].
func (spanExporter) Shutdown(context.Context) error { return nil }

// encodeSpan returns a Span.
func encodeSpan(s sdktrace.ReadOnlySpan) message {
	m := ids(nil, s.SpanContext())
	if parent := s.Parent().SpanID(); parent.IsValid() {
		m = m.bytes(4, parent[:])
	}
	kind := uint64(s.SpanKind()) //nolint:gosec // the numbers of OTLP
	m = m.text(5, s.Name()).number(6, kind).time(7, s.StartTime()).time(8, s.EndTime())
	m = m.attributes(9, s.Attributes()).count(10, s.DroppedAttributes())
	for _, e := range s.Events() {
		m = m.bytes(11, message(nil).time(1, e.Time).text(2, e.Name).attributes(3, e.Attributes).count(4, e.DroppedAttributeCount))
	}
	m = m.count(12, s.DroppedEvents())
	for _, l := range s.Links() {
		m = m.bytes(13, ids(nil, l.SpanContext).attributes(4, l.Attributes).count(5, l.DroppedAttributeCount).flags(6, flagsOf(l.SpanContext, l.SpanContext)))
	}
	m = m.count(14, s.DroppedLinks())
	return m.bytes(15, status(s.Status())).flags(16, flagsOf(s.SpanContext(), s.Parent()))
}

// ids appends the fields that a Span and a Link have in common.
func ids(m message, c trace.SpanContext) message {
	traceID, spanID := c.TraceID(), c.SpanID()
	return m.bytes(1, traceID[:]).bytes(2, spanID[:]).text(3, c.TraceState().String())
}

// flagsOf returns the W3C flags of a span, and whether its parent is in another process.
func flagsOf(of, parent trace.SpanContext) uint32 {
	const known, remote = 0x100, 0x200
	flags := uint32(of.TraceFlags()) | known
	if parent.IsRemote() {
		flags |= remote
	}
	return flags
}

// status returns a Status.
func status(s sdktrace.Status) message {
	const ok, failed = 1, 2
	m := message(nil).text(2, s.Description)
	switch s.Code {
	case codes.Ok:
		return m.number(3, ok)
	case codes.Error:
		return m.number(3, failed)
	default:
		return m
	}
}
