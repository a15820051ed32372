// Package process is the function behind the ingress queues: it runs each batch through the engine
// and returns for each delivery whether the queue deletes it or delivers it again.
package process

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// deadlineMargin is the time before the function's deadline at which its handlers are cancelled, so
// that there is time left to dead-letter, to defer and to answer.
const deadlineMargin = 2 * time.Second

// Engine lists the methods of the engine that the function calls.
type Engine interface {
	ProcessUntil(ctx context.Context, until time.Time, messages []record.Message) []record.Outcome
	Direct(ctx context.Context, until time.Time, m record.Message) (outcome record.Outcome, published bool)
	DirectAll(ctx context.Context, until time.Time, messages []record.Message) []record.Outcome
	Refuse(ctx context.Context, refused []record.Refused) error
}

// Decode decodes a delivery. If the error is a [*record.InvalidError], the decodable parts of the
// message are returned with it.
type Decode func(*queue.Delivery) (record.Message, error)

// Defer puts messages back on a queue for later, under their identities. The queue counts their
// deliveries from 1 again.
type Defer func(ctx context.Context, messages []record.Message) error

// Options are the function's settings. Zero fields take the defaults in their comments.
type Options struct {
	// Starting is how long the handlers of a batch may start, if the context of Handle has no
	// deadline; each then has its time, see Timeout. Defaults to no limit.
	Starting time.Duration
	// Timeout returns the time of an attempt of a stream. Required with Starting.
	Timeout func(stream string) time.Duration
	// Retry returns the policy of a stream. Defaults to [record.MessageRetry] for every stream.
	Retry func(stream string) record.RetryPolicy
	// MinTries is how often a message is tried at least before it becomes a dead letter. Defaults
	// to [record.MinTries].
	MinTries int
	// Random returns a number in [0, n). Defaults to [rand.Int64N].
	Random func(n int64) int64
	// Waiting registers the messages that fail. Defaults to nothing.
	Waiting *system.Waiting
	// Kept says that a queue keeps its messages until they are deleted, as those of SQS do not. A
	// message whose handler can't read the state of its group then never becomes a dead letter.
	Kept bool
	// LogKeys writes the identities and groups of messages to the log, beside their hashes.
	LogKeys bool
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Retry == nil {
		o.Retry = func(string) record.RetryPolicy { return record.MessageRetry() }
	}
	if o.MinTries == 0 {
		o.MinTries = record.MinTries
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

// A Handler serves the process function.
type Handler struct {
	engine  Engine
	decode  Decode
	deferal Defer
	options Options
	tries   *tries
}

// New returns the function's handler.
func New(engine Engine, decode Decode, deferal Defer, options Options) *Handler {
	return &Handler{engine: engine, decode: decode, deferal: deferal, options: options.withDefaults(), tries: &tries{}}
}

// Continue makes the handler go on with the counts of one that it replaces in the same process. It
// must be called before the handler is used.
func (h *Handler) Continue(before *Handler) { h.tries = before.tries }

// Handle processes one batch; it is a [queue.Handler]. In a first-in-first-out group, the
// deliveries after one that is to be retried are retried too.
func (h *Handler) Handle(ctx context.Context, deliveries []queue.Delivery) []queue.Disposition {
	b := h.read(deliveries)
	b.begun = h.options.Now()
	h.run(ctx, b)
	h.refuse(ctx, b)
	h.postpone(ctx, b)
	return h.report(b)
}

func (h *Handler) read(deliveries []queue.Delivery) *batch {
	b := &batch{deliveries: deliveries, all: make([]delivery, len(deliveries))}
	for i := range deliveries {
		d := &b.all[i]
		d.received = &deliveries[i]
		var err error
		if d.message, err = h.decode(d.received); err != nil {
			d.outcome = unreadable(err)
			continue
		}
		d.valid, d.message.Try = true, h.tries.own(d.received.ID, d.received.Receives)
	}
	return b
}

// run processes the messages, until a margin before the deadline. Without a deadline, each attempt
// has its whole time if it starts in the time of the batch.
func (h *Handler) run(ctx context.Context, b *batch) {
	var valid []*delivery
	longest := time.Duration(0)
	for i := range b.all {
		if !b.all[i].valid {
			continue
		}
		if valid = append(valid, &b.all[i]); h.options.Starting > 0 {
			longest = max(longest, h.options.Timeout(b.all[i].message.Stream))
		}
	}
	var until time.Time
	cancel := func() {}
	if deadline, ok := ctx.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-deadlineMargin))
	} else if h.options.Starting > 0 {
		until = b.begun.Add(h.options.Starting)
		ctx, cancel = context.WithTimeout(ctx, h.options.Starting+longest+deadlineMargin)
	}
	defer cancel()
	h.process(ctx, until, valid)
	h.decide(b)
}

func (h *Handler) process(ctx context.Context, until time.Time, list []*delivery) {
	if len(list) == 0 {
		return
	}
	messages := make([]record.Message, len(list))
	for i, d := range list {
		messages[i] = d.message
	}
	for i, o := range h.engine.ProcessUntil(ctx, until, messages) {
		list[i].outcome = o
	}
}

// refuse sends rejected messages, and messages whose handler failed too often, to the dead-letter
// queue. If a message can't be sent there, it stays in its queue.
func (h *Handler) refuse(ctx context.Context, b *batch) {
	list := b.free(func(d *delivery) bool { return d.fate == refused })
	if len(list) == 0 {
		return
	}
	letters := make([]record.Refused, len(list))
	for i, d := range list {
		reason, detail := h.reason(d)
		letters[i] = record.Refused{Message: d.message, Reason: reason, Detail: detail}
		h.logRefused(d, reason, detail)
	}
	err := h.engine.Refuse(ctx, letters)
	if err != nil {
		h.options.Log.Error("refused messages stay in the queue", "count", failures(err, len(list)), "error", err)
	}
	set(list, err)
}

func (h *Handler) logRefused(d *delivery, reason record.Reason, detail string) {
	h.options.Log.LogAttrs(context.Background(), slog.LevelWarn, record.LogRefused, append(d.message.LogAttrs(h.options.LogKeys),
		slog.String("reason", string(reason)), slog.Int("try", d.received.Receives), slog.String("detail", detail))...)
}

// postpone moves messages that are too far ahead to the end of the queue, so that they do not block
// their predecessors.
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
		h.options.Log.Error("messages too far ahead stay in the queue", "count", failures(err, len(list)), "error", err)
	}
	set(list, err)
}

// failures returns how many of n messages have an error.
func failures(err error, n int) (failed int) {
	for _, err := range record.ErrorsOf(err, n) {
		if err != nil {
			failed++
		}
	}
	return failed
}

// report returns the disposition of each delivery. In a first-in-first-out queue, the deliveries
// behind a failed one are retried with it, after the same pause: with another one, they would block
// the group for longer. Deliveries that were moved to another queue are not retried, because they
// would then exist twice.
func (h *Handler) report(b *batch) []queue.Disposition {
	out := make([]queue.Disposition, len(b.all))
	pauses := map[string]time.Duration{} // of first-in-first-out groups
	for i, behind := range b.behind() {
		d := &b.all[i]
		switch {
		case behind && d.fate != moved:
			out[i] = queue.Disposition{Retry: true, Pause: pauses[d.received.Group]}
			h.tries.untried(d.received.ID)
		case !behind && d.fate == again:
			if notRun(d.outcome.Err) {
				h.tries.untried(d.received.ID)
			}
			out[i] = queue.Disposition{Retry: true, Pause: h.pause(d)}
			pauses[d.received.Group] = out[i].Pause
			h.failed(d, out[i].Pause)
		case !behind:
			h.settled(d)
			h.logSettled(d, b.begun)
		}
	}
	return out
}

// logSettled logs a message that is done, was done before, or is held. A refused one is logged
// already.
func (h *Handler) logSettled(d *delivery, begun time.Time) {
	ctx := context.Background()
	if d.fate != settled || !h.options.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	h.options.Log.LogAttrs(ctx, slog.LevelDebug, record.LogSettled, append(d.message.LogAttrs(h.options.LogKeys),
		slog.String("outcome", d.outcome.Kind.String()), slog.Int("try", d.received.Receives), slog.Duration("took", h.options.Now().Sub(begun)))...)
}

// pause returns the pause after a failed try. An effect that is sent with its message, and is to be
// sent later, decides. Deliveries that did not run the message do not count as tries.
func (h *Handler) pause(d *delivery) time.Duration {
	if d.received.Unread != nil {
		return queue.UnreadPause
	}
	if at, only := record.NextTry(d.outcome.Err); only {
		return max(at.Sub(h.options.Now()), time.Millisecond)
	}
	pause := h.options.Retry(d.message.Stream).Pause(h.tries.own(d.received.ID, d.received.Receives), h.options.Random)
	if errors.Is(d.outcome.Err, record.ErrUnreadable) && !h.options.Kept && !d.received.Sent.IsZero() {
		// With the usual pauses, SQS would give the message up for its number of deliveries.
		pause = min(max(pause, h.options.Now().Sub(d.received.Sent)/50), record.MaxPause)
	}
	return pause
}

// failed logs and registers a failed try.
func (h *Handler) failed(d *delivery, pause time.Duration) {
	now, m := h.options.Now(), &d.message
	if _, sending := record.NextTry(d.outcome.Err); !sending { // a failed send is logged by itself
		h.options.Log.LogAttrs(context.Background(), slog.LevelWarn, record.LogRetried, append(
			append(m.LogAttrs(h.options.LogKeys), record.FailureAttrs(d.received.Receives, d.outcome.Err)...), slog.Duration("pause", pause))...)
	}
	if d.valid {
		var reason record.Reason
		if errors.Is(d.outcome.Err, record.ErrUnreadable) {
			reason = record.ReasonUnreadable
		}
		h.options.Waiting.Failed(system.Wait{
			Reason: reason, Group: m.GroupKey(), ID: m.Identity(), Try: d.received.Receives, Error: d.outcome.Err.Error(), Last: now, Next: now.Add(pause),
		})
	}
}

// settled removes a message from the register, and forgets its failures. They are kept if it moved
// to another queue: if the acknowledgement is lost, it comes back, and its tries must not start
// again. A message that was moved because it waits for its parents is registered.
func (h *Handler) settled(d *delivery) {
	if d.fate != moved {
		h.tries.forget(d.received.ID)
	}
	if !d.valid {
		return
	}
	w := system.Wait{Group: d.message.GroupKey(), ID: d.message.Identity()}
	switch {
	case errors.Is(d.outcome.Err, dedup.ErrParents):
		w.Parents, w.Since = d.message.Parents, d.message.Accepted
		h.options.Waiting.Failed(w)
	case d.received.Receives > 1 || len(d.message.Parents) > 0: // it may be registered
		h.options.Waiting.Settled(w)
	}
}
