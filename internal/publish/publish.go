// Package publish is the function behind the publish queue: it publishes the groups that a batch of triggers names, sends effects
// that come back from the dead-letter queue, and reports, message by message, what the queue has to deliver again.
package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// DeadlineMargin is how long before the function's deadline its work is cancelled, so that what was sent can still be noted and the answer
// reaches the queue.
const DeadlineMargin = 2 * time.Second

// Engine is what the function asks of the engine.
type Engine interface {
	Publish(ctx context.Context, groups []record.GroupKey) []error
	Deliver(ctx context.Context, to string, d record.Delivery) error
}

// A Handler serves the publish function.
type Handler struct {
	engine  Engine
	trusted wire.Defaults
	log     *slog.Logger
}

// New makes the function's handler. It sends only effects that come from the trusted senders, see [wire.Defaults]: they go out under the identities that they name, and signed, so that
// one that somebody else made up would pass for the real one at every receiver, and the real one for its copy. Without any, it sends none; triggers are anybody's. A nil log discards.
func New(engine Engine, trusted []string, log *slog.Logger) *Handler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Handler{engine: engine, trusted: wire.Defaults{Trusted: trusted}, log: log}
}

var errForeign = &record.InvalidError{Field: "sender", Rule: "must be this system where an effect is to be sent"}

// work is one record of an event on its way through the function.
type work struct {
	record  *events.SQSMessage
	trigger wire.Trigger
	err     error
}

// Handle serves one batch. The answer names the messages that the queue has to deliver again: those whose group or effect failed, and those that are no
// triggers, which so end in the dead-letter queue. Triggers that follow a failure in a first-in-first-out group are named too. The error is always nil.
func (h *Handler) Handle(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-DeadlineMargin))
		defer cancel()
	}
	all := make([]work, len(event.Records))
	for i := range event.Records {
		w := &all[i]
		w.record = &event.Records[i]
		if w.trigger, w.err = wire.FromTrigger(event.Records[i]); w.trigger.Delivery != nil && !h.trusted.Trusts(w.record) {
			w.trigger, w.err = wire.Trigger{}, errForeign
		}
	}
	h.deliver(ctx, all)
	h.publish(ctx, all)
	return h.report(event.Records, all), nil
}

// deliver sends effects that were refused before. They are older than anything that is pending in their groups, so they go first, and in the order of their numbers. After
// one that fails the later ones of its group to its destination are not sent; those without a number have no order.
func (h *Handler) deliver(ctx context.Context, all []work) {
	type way struct {
		from record.GroupKey
		to   string
	}
	failed := map[way]error{}
	for _, w := range redriven(all) {
		d, way := w.trigger.Delivery, way{w.trigger.Group, w.trigger.To}
		if before := failed[way]; before != nil && d.Number > 0 {
			w.err = fmt.Errorf("an earlier effect of the group failed: %w", before)
			continue
		}
		if w.err = h.engine.Deliver(ctx, w.trigger.To, *d); w.err != nil && d.Number > 0 {
			failed[way] = w.err
		}
	}
}

// redriven lists the effects, those of each group by their numbers: a standard queue may have mixed them up.
func redriven(all []work) []*work {
	var out []*work
	for i := range all {
		if w := &all[i]; w.err == nil && w.trigger.Delivery != nil {
			out = append(out, w)
		}
	}
	slices.SortStableFunc(out, func(a, b *work) int {
		x, y := a.trigger.Delivery, b.trigger.Delivery
		return cmp.Or(cmp.Compare(x.Incarnation, y.Incarnation), cmp.Compare(x.Number, y.Number))
	})
	return out
}

// publish publishes each group once, however many triggers name it.
func (h *Handler) publish(ctx context.Context, all []work) {
	var groups []record.GroupKey
	place := map[record.GroupKey]int{}
	for i := range all {
		w := &all[i]
		if w.err != nil || w.trigger.Delivery != nil {
			continue
		}
		if _, ok := place[w.trigger.Group]; !ok {
			place[w.trigger.Group] = len(groups)
			groups = append(groups, w.trigger.Group)
		}
	}
	if len(groups) == 0 {
		return
	}
	errs := h.engine.Publish(ctx, groups)
	for i := range all {
		if w := &all[i]; w.err == nil && w.trigger.Delivery == nil {
			w.err = errs[place[w.trigger.Group]]
		}
	}
}

// report lists and logs the failures, and what is behind them. An effect that was sent is left out even there: given back, it would be sent again.
func (h *Handler) report(batch []events.SQSMessage, all []work) events.SQSEventResponse {
	response := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}} // an empty list, not null, is what is documented
	for i, behind := range wire.Behind(batch, func(i int) bool { return all[i].err != nil }) {
		if w := &all[i]; w.err != nil || behind && w.trigger.Delivery == nil {
			response.BatchItemFailures = append(response.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: w.record.MessageId})
			h.logFailure(w)
		}
	}
	return response
}

func (h *Handler) logFailure(w *work) {
	id := slog.String("message_id", w.record.MessageId)
	reason := slog.Any("error", w.err)
	stream := slog.String("stream", w.trigger.Group.Stream)
	var invalid *record.InvalidError
	switch {
	case w.err == nil: // only behind a failure, which was logged
	case errors.As(w.err, &invalid) && w.trigger == wire.Trigger{}:
		h.log.Error("message is not a trigger", id, reason)
	case w.trigger.Delivery != nil:
		h.log.Warn("effect to be sent again", id, stream, slog.String("destination", w.trigger.To), reason)
	default:
		h.log.Warn("group to be published again", id, stream, reason)
	}
}
