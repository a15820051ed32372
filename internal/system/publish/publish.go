// Package publish is the function behind the publish queues: it publishes the groups that a batch
// of triggers names, sends redriven effects, and returns for each delivery whether the queue
// deletes it or delivers it again.
package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/destination/retry"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// deadlineMargin is the time before the function's deadline at which its work is cancelled, so that
// sent effects can still be marked and the answer reaches the queue.
const deadlineMargin = 2 * time.Second

// Engine lists the methods of the engine that the function calls.
type Engine interface {
	Publish(ctx context.Context, groups []record.GroupKey) []error
	Deliver(ctx context.Context, to string, d record.Delivery) error
}

// Options are the function's settings. Zero fields take the defaults in their comments.
type Options struct {
	// Trusted lists the senders whose effects are sent, see [wire.Defaults]. An effect is sent
	// under the identity that it names, and signed. A forged one would pass for the real one at
	// every receiver, and the real one for its copy. Defaults to none. Every sender may trigger a
	// group.
	Trusted []string
	// Observe is called with the age of pending effects after each try to publish them. It must not
	// block. Defaults to nothing.
	Observe func(record.Event)
	// Retry returns the policy for effects of a stream to a destination; the destination is empty
	// for a group. It sets the pause after a failure that is not a [record.LaterError], which has
	// its own. Defaults to [record.EffectRetry].
	Retry func(stream, to string) record.RetryPolicy
	// Random returns a number in [0, n). Defaults to [rand.Int64N].
	Random func(n int64) int64
	// LogKeys writes the groups and identities of effects to the log, beside their hashes.
	LogKeys bool
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Observe == nil {
		o.Observe = func(record.Event) {}
	}
	if o.Retry == nil {
		o.Retry = func(string, string) record.RetryPolicy { return record.EffectRetry() }
	}
	if o.Random == nil {
		o.Random = rand.Int64N
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Handler serves the publish function.
type Handler struct {
	engine  Engine
	options Options
}

// New returns the function's handler.
func New(engine Engine, options Options) *Handler {
	return &Handler{engine: engine, options: options.withDefaults()}
}

var errForeign = &record.InvalidError{Field: "sender", Rule: "must be this system where an effect is to be sent"}

// work is one delivery of a batch, with its trigger and the error of its group or effect.
type work struct {
	received *queue.Delivery
	trigger  wire.Trigger
	err      error
}

// Handle serves one batch; it is a [queue.Handler]. A delivery is retried if its group or effect
// failed, or if it is no trigger: such a message ends in the dead-letter queue. Triggers behind a
// failure in a first-in-first-out group are retried too.
func (h *Handler) Handle(ctx context.Context, deliveries []queue.Delivery) []queue.Disposition {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-deadlineMargin))
		defer cancel()
	}
	trusted := wire.Defaults{Trusted: h.options.Trusted}
	all := make([]work, len(deliveries))
	for i := range deliveries {
		w := &all[i]
		w.received = &deliveries[i]
		if w.trigger, w.err = wire.FromTrigger(w.received); w.trigger.Delivery != nil && !trusted.Trusts(w.received) {
			w.trigger, w.err = wire.Trigger{}, errForeign
		}
	}
	h.deliver(ctx, all)
	h.publish(ctx, all)
	return h.report(deliveries, all)
}

// deliver sends redriven effects. They are older than all pending effects of their groups, so they
// go first, and in the order of their numbers. If one fails, the later ones of its group to its
// destination are not sent; effects without a number have no order.
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
		d.Committed = w.received.Sent
		if due := d.Effect.NotBefore; due.After(d.Committed) && !d.Committed.IsZero() { // the queue has delayed it
			d.Committed = due
		}
		ctx := retry.WithReceives(ctx, map[record.GroupKey]int{w.trigger.Group: w.received.Receives})
		if w.err = h.engine.Deliver(ctx, w.trigger.To, *d); w.err != nil && d.Number > 0 {
			failed[way] = w.err
		}
	}
}

// redriven lists the effects, and sorts the effects of each group by their numbers: a standard
// queue may have changed their order.
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

// publish publishes each group once, even if several triggers name it.
func (h *Handler) publish(ctx context.Context, all []work) {
	var groups []record.GroupKey
	place, receives := map[record.GroupKey]int{}, map[record.GroupKey]int{}
	for i := range all {
		w := &all[i]
		if w.err != nil || w.trigger.Delivery != nil {
			continue
		}
		if _, ok := place[w.trigger.Group]; !ok {
			place[w.trigger.Group] = len(groups)
			groups = append(groups, w.trigger.Group)
		}
		receives[w.trigger.Group] = max(receives[w.trigger.Group], w.received.Receives)
	}
	if len(groups) == 0 {
		return
	}
	errs := h.engine.Publish(retry.WithReceives(ctx, receives), groups)
	for i := range all {
		if w := &all[i]; w.err == nil && w.trigger.Delivery == nil {
			w.err = errs[place[w.trigger.Group]]
		}
	}
}

// report returns the disposition of each delivery, and logs the failures. If a delivery is behind a
// failed one, it is retried after the same pause, unless its effect was sent: it would be sent
// again.
func (h *Handler) report(deliveries []queue.Delivery, all []work) []queue.Disposition {
	out := make([]queue.Disposition, len(all))
	pauses := map[string]time.Duration{} // of first-in-first-out groups
	for i, behind := range wire.Behind(deliveries, func(i int) bool { return all[i].err != nil }) {
		w := &all[i]
		failed := w.err != nil || behind && w.trigger.Delivery == nil
		h.observe(w, failed)
		if !failed {
			continue
		}
		pause, known := pauses[w.received.Group]
		if !behind || !known {
			pause = h.pause(w)
			pauses[w.received.Group] = pause
		}
		out[i] = queue.Disposition{Retry: true, Pause: pause}
	}
	return out
}

// pause returns the pause after a failure, and logs it. If the failures are effects to be sent
// later, the earliest of them decides, and each try is logged already.
func (h *Handler) pause(w *work) time.Duration {
	if w.received.Unread != nil {
		h.logFailure(w, queue.UnreadPause)
		return queue.UnreadPause
	}
	at, only := record.NextTry(w.err)
	later := max(at.Sub(h.options.Now()), time.Millisecond)
	if only {
		return later
	}
	pause := h.options.Retry(w.trigger.Group.Stream, w.trigger.To).Pause(w.received.Receives, h.options.Random)
	if !at.IsZero() {
		pause = min(pause, later)
	}
	h.logFailure(w, pause)
	return pause
}

// observe reports the age of a group's pending effects: the time since its trigger was sent, which
// was right after the commit.
//
// On a standard queue triggers are sent before the commit, with a delay, and most of them find
// nothing pending. There only failed triggers count, from when they were first received. Redriven
// effects don't count: an operator chooses their age.
func (h *Handler) observe(w *work, failed bool) {
	since := w.received.Sent
	if !queue.FIFO(w.received.Queue) {
		if !failed {
			return
		}
		since = cmp.Or(w.received.FirstReceived, since)
	}
	if w.trigger == (wire.Trigger{}) || w.trigger.Delivery != nil || since.IsZero() {
		return
	}
	h.options.Observe(record.Event{Name: record.EventPending, Stream: w.trigger.Group.Stream, Count: 1, Age: h.options.Now().Sub(since)})
}

func (h *Handler) logFailure(w *work, pause time.Duration) {
	invalid, _ := errors.AsType[*record.InvalidError](w.err)
	attrs := w.trigger.Group.LogAttrs(h.options.LogKeys)
	tried := append(record.FailureAttrs(w.received.Receives, w.err), slog.Duration("pause", pause))
	ctx, log := context.Background(), h.options.Log
	switch {
	case w.received.Unread != nil:
		log.LogAttrs(ctx, slog.LevelError, "trigger not read", append(tried, slog.String("message_id", w.received.ID))...)
	case invalid != nil && w.trigger == wire.Trigger{}:
		log.LogAttrs(ctx, slog.LevelError, "message is not a trigger", append(tried, slog.String("message_id", w.received.ID))...)
	case w.trigger.Delivery != nil:
		attrs = append(w.trigger.Delivery.LogAttrs(h.options.LogKeys), slog.String("destination", w.trigger.To))
		log.LogAttrs(ctx, slog.LevelWarn, record.LogEffectRetried, append(attrs, tried...)...)
	default:
		log.LogAttrs(ctx, slog.LevelWarn, "group to be published again", append(attrs, tried...)...)
	}
}
