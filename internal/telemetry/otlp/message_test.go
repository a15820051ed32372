package otlp_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collectortrace "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resources "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	spans "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/otlp"
)

func value(v any) *common.AnyValue {
	switch v := v.(type) {
	case string:
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}
	case bool:
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: v}}
	case int:
		return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(v)}}
	case float64:
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: v}}
	case []byte:
		return &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: v}}
	case []*common.KeyValue:
		return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: v}}}
	case []any:
		list := &common.ArrayValue{}
		for _, each := range v {
			list.Values = append(list.Values, value(each))
		}
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: list}}
	default:
		return &common.AnyValue{}
	}
}

func pair(key string, v any) *common.KeyValue { return &common.KeyValue{Key: key, Value: value(v)} }

// TestEachFieldOfASpanArrives compares with the messages that OpenTelemetry generates.
func TestEachFieldOfASpanArrives(t *testing.T) {
	c := collecting(t)
	at := time.Unix(1700000000, 5)
	state, err := trace.ParseTraceState("a=1,b=2")
	if err != nil {
		t.Fatal(err)
	}
	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: state})
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{3}, Remote: true})
	about := resource.NewWithAttributes("https://schema/1", attribute.String("service.name", "s"))
	full := tracetest.SpanStub{
		Name: "full", SpanContext: own, Parent: remote, SpanKind: trace.SpanKindConsumer, StartTime: at, EndTime: at.Add(time.Second), Resource: about,
		Attributes: []attribute.KeyValue{
			attribute.String("empty", ""), attribute.String("broken", "a\xffb"), attribute.Bool("false", false), attribute.Int("zero", 0), attribute.Int("negative", -5), attribute.Float64("float", 0.5),
			attribute.BoolSlice("bools", []bool{true, false}), attribute.Int64Slice("ints", []int64{0, 7}), attribute.Float64Slice("floats", []float64{0, 1.5}), attribute.StringSlice("texts", []string{"x", ""}),
			{Key: "bytes", Value: attribute.ByteSliceValue([]byte{0, 255})},
			{Key: "list", Value: attribute.SliceValue(attribute.IntValue(1), attribute.StringValue("y"))},
			{Key: "map", Value: attribute.MapValue(attribute.Int("n", 3))},
			{Key: "nothing"},
		},
		Events:            []sdktrace.Event{{Name: "e", Time: at, Attributes: []attribute.KeyValue{attribute.Int("i", 1)}, DroppedAttributeCount: 4}},
		Links:             []sdktrace.Link{{SpanContext: remote, Attributes: []attribute.KeyValue{attribute.Int("l", 1)}, DroppedAttributeCount: 5}},
		Status:            sdktrace.Status{Code: codes.Error, Description: "bad"},
		DroppedAttributes: 1, DroppedEvents: 2, DroppedLinks: 3,
		InstrumentationScope: instrumentation.Scope{Name: "scope", Version: "v1", SchemaURL: "https://schema/2", Attributes: attribute.NewSet(attribute.Int("s", 1))},
	}
	small := tracetest.SpanStub{Name: "small", SpanContext: own, StartTime: at, EndTime: at, Resource: about, Status: sdktrace.Status{Code: codes.Ok}, InstrumentationScope: full.InstrumentationScope}
	other := tracetest.SpanStub{Name: "other", SpanContext: own, StartTime: at, EndTime: at, Resource: about, InstrumentationScope: instrumentation.Scope{Name: "handler"}}
	if err := otlp.Export(t.Context(), telemetry.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)}, full.Snapshot(), other.Snapshot(), small.Snapshot()); err != nil {
		t.Fatal(err)
	}
	first, second, third := [16]byte{1}, [8]byte{2}, [8]byte{3}
	begin, end := uint64(at.UnixNano()), uint64(at.Add(time.Second).UnixNano())
	want := &collectortrace.ExportTraceServiceRequest{ResourceSpans: []*spans.ResourceSpans{{
		Resource: &resources.Resource{Attributes: []*common.KeyValue{pair("service.name", "s")}}, SchemaUrl: "https://schema/1",
		ScopeSpans: []*spans.ScopeSpans{{
			Scope: &common.InstrumentationScope{Name: "scope", Version: "v1", Attributes: []*common.KeyValue{pair("s", 1)}}, SchemaUrl: "https://schema/2",
			Spans: []*spans.Span{{
				TraceId: first[:], SpanId: second[:], TraceState: "a=1,b=2", ParentSpanId: third[:], Name: "full", Kind: spans.Span_SPAN_KIND_CONSUMER, StartTimeUnixNano: begin, EndTimeUnixNano: end,
				Attributes: []*common.KeyValue{
					pair("empty", ""), pair("broken", "a\uFFFDb"), pair("false", false), pair("zero", 0), pair("negative", -5), pair("float", 0.5),
					pair("bools", []any{true, false}), pair("ints", []any{0, 7}), pair("floats", []any{0.0, 1.5}), pair("texts", []any{"x", ""}),
					pair("bytes", []byte{0, 255}), pair("list", []any{1, "y"}), pair("map", []*common.KeyValue{pair("n", 3)}), pair("nothing", nil),
				},
				Events:                 []*spans.Span_Event{{Name: "e", TimeUnixNano: begin, Attributes: []*common.KeyValue{pair("i", 1)}, DroppedAttributesCount: 4}},
				Links:                  []*spans.Span_Link{{TraceId: first[:], SpanId: third[:], Attributes: []*common.KeyValue{pair("l", 1)}, DroppedAttributesCount: 5, Flags: 0x300}},
				DroppedAttributesCount: 1, DroppedEventsCount: 2, DroppedLinksCount: 3, Status: &spans.Status{Code: spans.Status_STATUS_CODE_ERROR, Message: "bad"}, Flags: 0x301,
			}, {
				TraceId: first[:], SpanId: second[:], TraceState: "a=1,b=2", Name: "small", StartTimeUnixNano: begin, EndTimeUnixNano: begin,
				Status: &spans.Status{Code: spans.Status_STATUS_CODE_OK}, Flags: 0x101,
			}},
		}, {
			Scope: &common.InstrumentationScope{Name: "handler"},
			Spans: []*spans.Span{{TraceId: first[:], SpanId: second[:], TraceState: "a=1,b=2", Name: "other", StartTimeUnixNano: begin, EndTimeUnixNano: begin, Status: &spans.Status{}, Flags: 0x101}},
		}},
	}}}
	if diff := cmp.Diff(want, c.traces, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
