// Package process is the function behind the ingress queues: it runs each batch through the engine and reports, message by message, what the queue has to
// deliver again.
//
//	process.go  the function
//	fate.go     what becomes of a delivery, and the order in which that is decided
package process

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/record"
)

// DeadlineMargin is how long before the function's deadline its handlers are cancelled, so that there is time left to dead-letter, to defer and to answer.
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
	// MaxReceives defaults to DefaultMaxReceives. A message that was delivered that often, and whose handler then fails as often again within one call of the
	// function, goes to the dead-letter queue with the reason "attempts".
	//
	// The queue counts deliveries, not failures: a message behind a poison one of its group is delivered with it each time and has used up its deliveries before its
	// handler has run at all. Nothing keeps a count of failures that would be right, so the tries that may be missing are made up for at once. Their price is paid
	// once by each message that ends in the dead-letter queue; a handler that takes all the time there is gets one.
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

// Handle processes one batch. The answer names the messages that the queue has to deliver again; a first-in-first-out group stops at its first one. The error is
// always nil.
func (h *Handler) Handle(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
	b := h.read(event)
	h.run(ctx, b)
	h.refuse(ctx, b)
	h.postpone(ctx, b)
	return h.report(b), nil
}

func (h *Handler) read(event events.SQSEvent) *batch {
	b := &batch{records: event.Records, all: make([]delivery, len(event.Records))}
	for i := range event.Records {
		d := &b.all[i]
		d.record, d.receives = &event.Records[i], receives(&event.Records[i])
		var err error
		if d.message, err = h.decode(event.Records[i]); err != nil {
			d.outcome = unreadable(err)
			continue
		}
		d.valid = true
	}
	return b
}

// run works on the messages, as long as there is time left to deal with what fails. Those that have used up their deliveries and fail are tried anew, see
// [Options.MaxReceives].
func (h *Handler) run(ctx context.Context, b *batch) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-DeadlineMargin))
		defer cancel()
	}
	var valid []*delivery
	for i := range b.all {
		if b.all[i].valid {
			valid = append(valid, &b.all[i])
		}
	}
	h.process(ctx, valid)
	h.decide(b)
	for n := 1; n < h.options.MaxReceives && ctx.Err() == nil; n++ {
		h.process(ctx, b.free(func(d *delivery) bool { return d.fate == refused && failure(d) != nil }))
		h.decide(b)
	}
}

func (h *Handler) process(ctx context.Context, list []*delivery) {
	if len(list) == 0 {
		return
	}
	messages := make([]record.Message, len(list))
	for i, d := range list {
		messages[i] = d.message
	}
	for i, o := range h.engine.Process(ctx, messages) {
		list[i].outcome = o
	}
}

// refuse sends what was rejected, and what its handler failed on too often, to the dead-letter queue. What does not get there stays with its queue.
func (h *Handler) refuse(ctx context.Context, b *batch) {
	list := b.free(func(d *delivery) bool { return d.fate == refused })
	if len(list) == 0 {
		return
	}
	letters := make([]record.Refused, len(list))
	for i, d := range list {
		reason, detail := h.reason(d)
		letters[i] = record.Refused{Message: d.message, Reason: reason, Detail: detail}
		h.options.Log.Warn("message refused", "stream", d.message.Stream, "reason", reason, "receives", d.receives, "message_id", d.record.MessageId)
	}
	err := h.engine.Refuse(ctx, letters)
	if err != nil {
		h.options.Log.Error("refused messages stay in the queue", "count", len(list), "error", err)
	}
	set(list, err)
}

// postpone moves messages that are too far ahead out of the way of those that they wait for.
func (h *Handler) postpone(ctx context.Context, b *batch) {
	list := b.free(func(d *delivery) bool { return d.fate == ahead })
	if len(list) == 0 {
		return
	}
	messages := make([]record.Message, len(list))
	for i, d := range list {
		messages[i] = d.message
	}
	err := h.deferal(ctx, messages)
	if err != nil {
		h.options.Log.Error("messages too far ahead stay in the queue", "count", len(list), "error", err)
	}
	set(list, err)
}

// report lists the failures, and in a first-in-first-out queue what is behind them. What has moved to another queue is left out even there: given back, it would be
// there twice.
func (h *Handler) report(b *batch) events.SQSEventResponse {
	response := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}} // an empty list, not null, is what is documented
	for i, behind := range b.behind() {
		d := &b.all[i]
		if d.fate == again {
			h.options.Log.Warn("message to be retried", "stream", d.message.Stream, "receives", d.receives, "message_id", d.record.MessageId, "error", d.outcome.Err)
		}
		if d.fate == again || behind && d.fate != moved {
			response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: d.record.MessageId})
		}
	}
	return response
}
