package process

import (
	"errors"
	"strconv"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// A fate is what becomes of a delivery.
type fate uint8

// The fates.
const (
	settled fate = iota // the queue may forget it
	again               // the queue has to deliver it again
	refused             // it belongs on the dead-letter queue
	ahead               // it is beyond the bounds of what is held: it belongs on the ingress queue, later
	moved               // it is on the queue that it belongs on, and must not stay on this one
)

// delivery is one record of an event on its way through the function.
type delivery struct {
	record   *events.SQSMessage
	message  record.Message
	valid    bool
	receives int
	outcome  record.Outcome
	fate     fate
}

// receives is how often the queue has delivered the message, this time included.
func receives(m *events.SQSMessage) int {
	n, err := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	if err != nil {
		return 1
	}
	return n
}

// unreadable is the outcome of a message that could not be decoded: the dead-letter queue when it is the message's fault.
func unreadable(err error) record.Outcome {
	if invalid, ok := errors.AsType[*record.InvalidError](err); ok {
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonInvalid, Detail: invalid.Error()}
	}
	return record.Outcome{Kind: record.Retry, Err: err}
}

// failure is the error of the delivery's handler, nil where that did not fail.
func failure(d *delivery) *record.HandlerError {
	if d.outcome.Settled() {
		return nil
	}
	failed, _ := errors.AsType[*record.HandlerError](d.outcome.Err)
	return failed
}

// decide gives each delivery the fate that its outcome asks for.
func (h *Handler) decide(b *batch) {
	for i := range b.all {
		d := &b.all[i]
		switch {
		case d.outcome.Kind == record.Rejected, failure(d) != nil && d.receives >= h.options.MaxReceives:
			d.fate = refused
		case d.outcome.Settled():
			d.fate = settled
		case errors.Is(d.outcome.Err, dedup.ErrBounds):
			d.fate = ahead
		default:
			d.fate = again
		}
	}
}

// reason says why a delivery is refused.
func (h *Handler) reason(d *delivery) (record.Reason, string) {
	if failed := failure(d); failed != nil {
		return record.ReasonAttempts, failed.Error()
	}
	return d.outcome.Reason, d.outcome.Detail
}

// set notes that deliveries have moved to another queue, or that they have not.
func set(list []*delivery, err error) {
	for _, d := range list {
		d.fate = moved
		if err != nil {
			d.fate = again
		}
	}
}

// A batch is the deliveries of one event.
type batch struct {
	records []events.SQSMessage
	all     []delivery
}

func (b *batch) behind() []bool {
	return wire.Behind(b.records, func(i int) bool { return b.all[i].fate == again })
}

// free lists deliveries that are not behind a failure. Those that are come again with it: what is done for them now would be done once more each time.
func (b *batch) free(want func(*delivery) bool) []*delivery {
	var out []*delivery
	for i, behind := range b.behind() {
		if d := &b.all[i]; !behind && want(d) {
			out = append(out, d)
		}
	}
	return out
}
