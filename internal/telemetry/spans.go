package telemetry

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once/internal/record"
)

// The system's own attributes of spans. Groups and tokens are hashed.
const (
	attrStream  = attribute.Key("once.stream")
	attrGroup   = attribute.Key("once.group")
	attrToken   = attribute.Key("once.token")
	attrReason  = attribute.Key("once.reason")
	attrAttempt = attribute.Key("once.attempt")
)

// Handler counts the runs of a handler that fail. It makes a span for each run, as a child of the
// span in the message's headers, and adds the trace to the message's effects. The handler sees the
// span in the message's headers and in its context.
func (t *Telemetry) Handler(inner record.Handler) record.Handler {
	inner = t.failures(inner)
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

// Batch is Handler for a handler of batches: it counts and measures each call, and makes a span for
// each message of it. The handler sees the span in the message's headers.
func (t *Telemetry) Batch(inner record.BatchHandler) record.BatchHandler {
	return func(ctx context.Context, b *record.Batch) error {
		original := b.Messages
		defer func() { b.Messages = original }()
		b.Messages = slices.Clone(original)
		err := errPanic
		for i := range b.Messages {
			m := &b.Messages[i]
			if m.Headers = spelled(m.Headers); t.tracer == nil {
				continue
			}
			traced, span := t.startProcess(extract(ctx, m.Headers), &record.Attempt{ID: b.ID}, m)
			defer func() { end(span, err) }()
			m.Headers = injected(traced, m.Headers)
		}
		began := t.options.Now()
		defer func() {
			t.options.Ran(b.Group.Stream, t.options.Now().Sub(began))
			if err != nil {
				t.Observe(record.Event{Name: record.EventHandlerFailed, Stream: b.Group.Stream, Count: 1})
			}
		}()
		err = inner(ctx, b)
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

// inherit runs a handler, and adds the message's trace to its effects.
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

// handOver copies the results of a handler to the attempt that is to be committed, and adds the
// message's trace to its effects.
func handOver(own, to *record.Attempt, message map[string]string) {
	to.State = own.State
	var bodies [][]byte
	for _, body := range own.Staged() {
		bodies = append(bodies, body)
	}
	for _, f := range own.Effects() { // the blobs are last, in the order of their bodies
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

// Sender makes a span for each delivery to a destination, as a child of the span that made the
// effect, and sends its context to the receiver. kind is the kind of the destination: webhook,
// stream, sqs and so on.
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

// Send does not change the deliveries in its argument, because other goroutines may send them too.
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

// errPanic is the error of a call that panicked.
var errPanic = errors.New("no answer")

// end ends a span, with an error status if there is an error. It does not record the text, because
// a handler's error may contain anything. For the same reason no span is ended by a deferred End,
// which would record the value of a panic.
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
