package otlp

import (
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/encoding/protowire"
)

// A message is a message of OTLP in protobuf's wire format. The numbers of fields are those of
// https://github.com/open-telemetry/opentelemetry-proto, version 1, in which they never change. The
// generated code for these messages is not linked: its descriptors take longer to initialize than a
// function takes to start. The tests decode with it.
//
// Each method appends a field. Fields with the zero value are left out, as proto3 does.
type message []byte

// bytes appends a field of bytes, or a nested message. It is appended even if it is empty.
func (m message) bytes(field protowire.Number, v []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), v)
}

// text replaces bytes that are not UTF-8: a collector refuses a whole report for one of them.
func (m message) text(field protowire.Number, v string) message {
	if v == "" {
		return m
	}
	return m.bytes(field, []byte(strings.ToValidUTF8(v, "\uFFFD")))
}

func (m message) number(field protowire.Number, v uint64) message {
	if v == 0 {
		return m
	}
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

// count appends a number of dropped things.
func (m message) count(field protowire.Number, n int) message {
	return m.number(field, uint64(min(max(n, 0), math.MaxUint32)))
}

// double appends a number even if it is zero: it is a member of a oneof.
func (m message) double(field protowire.Number, v float64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), math.Float64bits(v))
}

func (m message) flags(field protowire.Number, v uint32) message {
	return protowire.AppendFixed32(protowire.AppendTag(m, field, protowire.Fixed32Type), v)
}

func (m message) time(field protowire.Number, t time.Time) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), uint64(max(0, t.UnixNano())))
}

// attributes appends a repeated KeyValue.
func (m message) attributes(field protowire.Number, list []attribute.KeyValue) message {
	for _, kv := range list {
		m = m.bytes(field, message(nil).text(1, string(kv.Key)).bytes(2, anyValue(kv.Value)))
	}
	return m
}

// report returns an Export…ServiceRequest with one resource. Each of scopes is a Scope… message.
func report(about *resource.Resource, scopes ...message) message {
	of := message(nil).bytes(1, message(nil).attributes(1, about.Attributes()))
	for _, scope := range scopes {
		of = of.bytes(2, scope)
	}
	return message(nil).bytes(1, of.text(3, about.SchemaURL()))
}

// scoped returns a ScopeSpans or a ScopeMetrics without its spans or metrics.
func scoped(s instrumentation.Scope) message {
	return message(nil).bytes(1, message(nil).text(1, s.Name).text(2, s.Version).attributes(3, s.Attributes.ToSlice())).text(3, s.SchemaURL)
}

// anyValue returns an AnyValue. Its fields are a oneof, so they are appended even if they are zero.
func anyValue(v attribute.Value) (m message) {
	varint := func(field protowire.Number, n uint64) message {
		return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), n)
	}
	switch v.Type() {
	case attribute.STRING:
		return m.bytes(1, []byte(strings.ToValidUTF8(v.AsString(), "\uFFFD")))
	case attribute.BOOL:
		return varint(2, protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return varint(3, uint64(v.AsInt64())) //nolint:gosec // as protobuf encodes negative numbers
	case attribute.FLOAT64:
		return m.double(4, v.AsFloat64())
	case attribute.BOOLSLICE:
		return array(v.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		return array(v.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		return array(v.AsFloat64Slice(), attribute.Float64Value)
	case attribute.STRINGSLICE:
		return array(v.AsStringSlice(), attribute.StringValue)
	case attribute.SLICE:
		return array(v.AsSlice(), func(v attribute.Value) attribute.Value { return v })
	case attribute.MAP:
		return m.bytes(6, message(nil).attributes(1, v.AsMap()))
	case attribute.BYTESLICE:
		return m.bytes(7, v.AsByteSlice())
	default: // EMPTY
		return nil
	}
}

// array returns an AnyValue that holds an ArrayValue.
func array[T any](list []T, value func(T) attribute.Value) message {
	var values message
	for _, v := range list {
		values = values.bytes(1, anyValue(value(v)))
	}
	return message(nil).bytes(5, values)
}
