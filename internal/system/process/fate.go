package process

import (
	"cmp"
	"errors"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// A fate is the result of a delivery.
type fate uint8

// The fates.
const (
	settled fate = iota // the queue may delete it
	again               // the queue has to deliver it again
	refused             // it goes to the dead-letter queue
	ahead               // it waits for others and is not held: it goes back to the ingress queue, with a delay
	moved               // it was sent to its other queue, and must be deleted from this one
)

// A delivery is one delivery of a batch, with its message and its fate.
type delivery struct {
	received *queue.Delivery
	message  record.Message
	valid    bool
	outcome  record.Outcome
	fate     fate
}

// unreadable returns the outcome of a message that could not be decoded: it is rejected if the
// message itself is invalid.
func unreadable(err error) record.Outcome {
	if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonInvalid, Detail: invalid.Error()}
	}
	return record.Outcome{Kind: record.Retry, Err: err}
}

// errUndecided is the error of a message to which the engine did not get, for example because the
// time of its batch was over before the turn of its group.
var errUndecided = errors.New("the batch ended before the message was processed")

// failure returns the error of the delivery's handler, nil if the handler did not fail.
func failure(d *delivery) *record.HandlerError {
	if d.outcome.Settled() {
		return nil
	}
	failed, _ := errors.AsType[*record.HandlerError](d.outcome.Err)
	return failed
}

// decide sets the fate of each delivery from its outcome.
func (h *Handler) decide(b *batch) {
	for i := range b.all {
		d := &b.all[i]
		switch {
		case d.outcome.Kind == record.Rejected && d.outcome.Reply != nil: // its letter is written
			h.logRefused(d, d.outcome.Reason, d.outcome.Detail)
			d.fate = settled
		case d.outcome.Kind == record.Rejected, failure(d) != nil && h.exhausted(d):
			d.fate = refused
		case d.outcome.Settled():
			d.fate = settled
		case dedup.Waits(d.outcome.Err):
			d.fate = ahead
		default:
			d.fate = again
			d.outcome.Err = cmp.Or(d.outcome.Err, errUndecided)
		}
	}
}

// exhausted reports whether the tries of a message whose handler has failed are used up: its time
// is over, and it had the minimum number of tries. A queue counts deliveries, not failures: a
// message behind a failing one, or one that was delivered while the store was away, is not run. So
// the failures that this process has seen count, and the deliveries only at the last chance. A
// handler that is down is not called: that is no failure of the message, nor is a state that can't be
// read. For that, a message is refused only if its queue would lose it.
func (h *Handler) exhausted(d *delivery) bool {
	failures, unreadable := 0, errors.Is(d.outcome.Err, record.ErrUnreadable)
	if !unreadable && !errors.Is(d.outcome.Err, record.ErrUntried) {
		failures = h.tries.failed(d.received.ID)
	}
	if unreadable && h.options.Kept || d.received.Sent.IsZero() || d.received.Receives < h.options.MinTries {
		return false
	}
	now, due := h.options.Now(), d.received.Sent
	if d.message.NotBefore.After(due) { // the queue has delayed the message
		due = d.message.NotBefore
	}
	age := now.Sub(due)
	return now.Sub(d.received.Sent) >= record.LastChance || failures >= h.options.MinTries && age >= h.options.Retry(d.message.Stream).For
}

// reason returns why a delivery is refused.
func (h *Handler) reason(d *delivery) (record.Reason, string) {
	if failed := failure(d); failed != nil {
		if errors.Is(failed, record.ErrUnreadable) {
			return record.ReasonUnreadable, failed.Error()
		}
		return record.ReasonAttempts, failed.Error()
	}
	return d.outcome.Reason, d.outcome.Detail
}

// set sets deliveries to moved, and leaves those to be retried that could not be moved.
func set(list []*delivery, err error) {
	for i, err := range record.ErrorsOf(err, len(list)) {
		d := list[i]
		d.fate = moved
		if err != nil {
			d.fate = again
			if d.outcome.Err == nil {
				d.outcome.Err = err
			}
		}
	}
}

// A batch holds the deliveries of one call.
type batch struct {
	deliveries []queue.Delivery
	all        []delivery
	begun      time.Time
}

func (b *batch) behind() []bool {
	return wire.Behind(b.deliveries, func(i int) bool { return b.all[i].fate == again })
}

// free lists the deliveries that are not behind a failure. A delivery behind a failure is retried
// with it: if it were moved now, it would be moved again with every retry.
func (b *batch) free(want func(*delivery) bool) []*delivery {
	var out []*delivery
	for i, behind := range b.behind() {
		if d := &b.all[i]; !behind && want(d) {
			out = append(out, d)
		}
	}
	return out
}
