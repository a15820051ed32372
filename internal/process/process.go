// Package process is the function behind the ingress queues: it runs each batch through the engine and reports, message by message, what the queue has to
// deliver again.
package process

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

// DeadlineMargin is how long before the function's deadline its work is cancelled, so that the answer still reaches the queue.
const DeadlineMargin = 2 * time.Second

// DefaultMaxReceives is how often a message is tried before it goes to the dead-letter queue, if its handler fails.
const DefaultMaxReceives = 5

// Engine is what the function asks of the engine.
type Engine interface {
	Process(ctx context.Context, messages []record.Message) []record.Outcome
	Refuse(ctx context.Context, refused []record.Refused) error
}

// Decode reads a message off the queue. With an error that is a [*record.InvalidError] it gives as much of the message as it could read.
type Decode func(events.SQSMessage) (record.Message, error)

// Defer puts a message back on a queue for later, under its identity and with its deliveries counted anew.
type Defer func(ctx context.Context, messages []record.Message) error

// Options are the function's settings. Zero fields take their defaults.
type Options struct {
	// MaxReceives defaults to DefaultMaxReceives. A message whose handler failed that often goes to the dead-letter queue with the reason "attempts".
	MaxReceives int
	// Log defaults to discarding.
	Log *slog.Logger
}

// A Handler serves the process function.
type Handler struct {
	engine  Engine
	decode  Decode
	deferal Defer
	options Options
}

// New makes the function's handler.
func New(engine Engine, decode Decode, deferal Defer, options Options) *Handler {
	if options.MaxReceives == 0 {
		options.MaxReceives = DefaultMaxReceives
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{engine: engine, decode: decode, deferal: deferal, options: options}
}

// delivery is one record of an event on its way through the function.
type delivery struct {
	record   *events.SQSMessage
	message  record.Message
	outcome  record.Outcome
	receives int
	failed   bool
}

// Handle processes one batch. The answer names the messages that the queue has to deliver again; a first-in-first-out group stops at its first one.
func (h *Handler) Handle(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-DeadlineMargin))
		defer cancel()
	}
	all := make([]delivery, len(event.Records))
	var valid []*delivery
	for i := range event.Records {
		d := &all[i]
		d.record, d.receives = &event.Records[i], receives(&event.Records[i])
		var err error
		if d.message, err = h.decode(event.Records[i]); err != nil {
			d.outcome = unreadable(err)
			continue
		}
		valid = append(valid, d)
	}
	messages := make([]record.Message, len(valid))
	for i, d := range valid {
		messages[i] = d.message
	}
	for i, o := range h.engine.Process(ctx, messages) {
		valid[i].outcome = o
	}
	h.refuse(ctx, all)
	h.postpone(ctx, all)
	return report(all), nil
}

// unreadable is the fate of a message that could not be decoded: the dead-letter queue when it is the message's fault.
func unreadable(err error) record.Outcome {
	var invalid *record.InvalidError
	if errors.As(err, &invalid) {
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonInvalid, Detail: invalid.Error()}
	}
	return record.Outcome{Kind: record.Retry, Err: err}
}

// refuse sends what was rejected, and what its handler failed on too often, to the dead-letter queue. What does not get there stays with its queue.
func (h *Handler) refuse(ctx context.Context, all []delivery) {
	var refused []record.Refused
	var whose []*delivery
	for i := range all {
		d := &all[i]
		reason, detail, ok := h.refusal(d)
		d.failed = !d.outcome.Settled() && !ok
		if !ok {
			continue
		}
		refused = append(refused, record.Refused{Message: d.message, Reason: reason, Detail: detail})
		whose = append(whose, d)
		h.options.Log.Warn("message refused", "stream", d.message.Stream, "reason", reason, "receives", d.receives, "message_id", d.record.MessageId)
	}
	if len(refused) == 0 {
		return
	}
	if err := h.engine.Refuse(ctx, refused); err != nil {
		h.options.Log.Error("refused messages stay in the queue", "count", len(refused), "error", err)
		for _, d := range whose {
			d.failed = true
		}
	}
}

func (h *Handler) refusal(d *delivery) (record.Reason, string, bool) {
	var failed *record.HandlerError
	switch {
	case d.outcome.Kind == record.Rejected:
		return d.outcome.Reason, d.outcome.Detail, true
	case errors.As(d.outcome.Err, &failed) && d.receives >= h.options.MaxReceives:
		return record.ReasonAttempts, failed.Error(), true
	}
	return "", "", false
}

// postpone moves messages that are too far ahead out of the way of those that they wait for.
func (h *Handler) postpone(ctx context.Context, all []delivery) {
	var ahead []record.Message
	var whose []*delivery
	for i := range all {
		d := &all[i]
		switch {
		case !d.failed:
		case errors.Is(d.outcome.Err, dedup.ErrBounds):
			ahead, whose = append(ahead, d.message), append(whose, d)
		default:
			h.options.Log.Warn("message to be retried", "stream", d.message.Stream, "receives", d.receives, "message_id", d.record.MessageId, "error", d.outcome.Err)
		}
	}
	if len(ahead) == 0 {
		return
	}
	if err := h.deferal(ctx, ahead); err != nil {
		h.options.Log.Error("messages too far ahead stay in the queue", "count", len(ahead), "error", err)
		return
	}
	for _, d := range whose {
		d.failed = false
	}
}

// report lists the failures. In a first-in-first-out queue whatever follows a failure in its message group fails too, or it would be delivered out of order.
func report(all []delivery) events.SQSEventResponse {
	var response events.SQSEventResponse
	stopped := map[string]bool{}
	for i := range all {
		d := &all[i]
		group := ""
		if strings.HasSuffix(d.record.EventSourceARN, ".fifo") { // elsewhere a group promises no order
			group = d.record.Attributes["MessageGroupId"]
		}
		if !d.failed && (group == "" || !stopped[group]) {
			continue
		}
		stopped[group] = true
		response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: d.record.MessageId})
	}
	return response
}
