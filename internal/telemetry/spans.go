package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once/internal/record"
)

// The attributes of spans that are the system's own. Groups and tokens are hashes.
const (
	attrStream  = attribute.Key("once.stream")
	attrGroup   = attribute.Key("once.group")
	attrToken   = attribute.Key("once.token")
	attrReason  = attribute.Key("once.reason")
	attrAttempt = attribute.Key("once.attempt")
)

// Handler lets the effects of a message be part of its trace, and makes a span of each run: a child of what the message's headers name. The handler sees the span as the
// message's trace, and in its context.
func (t *Telemetry) Handler(inner record.Handler) record.Handler {
	return func(ctx context.Context, a *record.Attempt, m record.Message) error {
		if m.Headers = spelled(m.Headers); t.tracer == nil {
			return inherit(ctx, inner, a, m)
		}
		ctx, span := t.startProcess(extract(ctx, m.Headers), a, &m)
		err := errPanic
		defer func() { end(span, err) }()
		m.Headers = injected(ctx, m.Headers)
		err = inherit(ctx, inner, a, m)
		return err
	}
}

func (t *Telemetry) startProcess(ctx context.Context, a *record.Attempt, m *record.Message) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, "process "+m.Stream, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		semconv.MessagingSystemKey.String("once"), semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName("process"), semconv.MessagingDestinationName(m.Stream),
		attrStream.String(m.Stream), attrGroup.String(m.GroupKey().String()), attrToken.String(record.NewTokenKey(m.Principal, m.Stream, m.Identity()).String()),
		attrAttempt.String(a.ID),
	))
}

// inherit runs a handler, and puts its effects into the message's trace.
func inherit(ctx context.Context, inner record.Handler, a *record.Attempt, m record.Message) error {
	if !headers(m.Headers).traced() {
		return inner(ctx, a, m)
	}
	own := &record.Attempt{ID: a.ID, State: a.State}
	if err := inner(ctx, own, m); err != nil {
		return err
	}
	handOver(own, a, m.Headers)
	return nil
}

// handOver moves what a handler did to the attempt that is to be committed, and puts its effects into the message's trace.
func handOver(own, to *record.Attempt, message map[string]string) {
	to.State = own.State
	var bodies [][]byte
	for _, body := range own.Staged() {
		bodies = append(bodies, body)
	}
	for _, f := range own.Effects() { // the blobs come last, in the order of their bodies
		if f.Blob != nil {
			to.Blob(f.Blob.Key, bodies[0])
			bodies = bodies[1:]
			continue
		}
		f.Headers = inherited(f.Headers, message)
		to.Send(f)
	}
	if reply := own.Answer(); reply != nil {
		to.Reply(*reply)
	}
}

// Sender makes a span of each delivery to a destination, as a child of what made the effect, and sends it on as the parent of what the receiver does. kind is that of the
// destination: webhook, stream, sqs and so on.
func (t *Telemetry) Sender(name, kind string, inner record.Sender) record.Sender {
	if t.tracer == nil {
		return inner
	}
	return &tracedSender{inner: inner, telemetry: t, name: name, kind: kind}
}

type tracedSender struct {
	inner      record.Sender
	telemetry  *Telemetry
	name, kind string
}

// Send leaves the deliveries that it is given as they are: others may be sending them too.
func (s *tracedSender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	traced := make([]record.Delivery, len(deliveries))
	spans := make([]trace.Span, len(deliveries))
	for i, d := range deliveries {
		var parent context.Context
		parent, spans[i] = s.start(extract(ctx, d.Effect.Headers), &d)
		d.Effect.Headers = injected(parent, d.Effect.Headers)
		traced[i] = d
	}
	errs := make([]error, len(deliveries))
	for i := range errs {
		errs[i] = errPanic
	}
	defer func() {
		for i, span := range spans {
			end(span, errs[i])
		}
	}()
	answer := s.inner.Send(ctx, traced)
	if len(answer) == len(errs) {
		errs = answer
	}
	return answer
}

func (s *tracedSender) start(ctx context.Context, d *record.Delivery) (context.Context, trace.Span) {
	kind := trace.SpanKindProducer
	if s.kind == "webhook" {
		kind = trace.SpanKindClient
	}
	key := record.GroupKey{Stream: d.Stream, Group: d.Group}
	return s.telemetry.tracer.Start(ctx, "publish "+s.name, trace.WithSpanKind(kind), trace.WithAttributes(
		semconv.MessagingSystemKey.String(s.kind), semconv.MessagingOperationTypeSend, semconv.MessagingOperationName("publish"), semconv.MessagingDestinationName(s.name),
		attrStream.String(d.Stream), attrGroup.String(key.String()),
	))
}

// errPanic is the failure of whoever did not come back.
var errPanic = errors.New("no answer")

// end ends a span, failed where there is an error. The text of an error stays out: a handler's may hold anything. For the same reason no span is ended by a deferred call of its
// own End, which would tell the value of a panic.
func end(span trace.Span, err error) {
	if err != nil {
		kind := "failed"
		refused, isRefused := errors.AsType[*record.RefusedError](err)
		_, isRejected := errors.AsType[*record.RejectError](err)
		switch {
		case isRefused:
			kind = "refused"
			span.SetAttributes(attrReason.String(string(refused.Reason)))
		case isRejected:
			kind = "rejected"
		case errors.Is(err, errPanic):
			kind = "panic"
		case errors.Is(err, context.DeadlineExceeded):
			kind = "timeout"
		}
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		span.SetStatus(codes.Error, kind)
	}
	span.End()
}
