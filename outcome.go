package once

import (
	"net/http"

	"github.com/effectively-once/once/internal/record"
)

// Kind is what became of a message.
type Kind uint8

// The kinds of outcome. All but Retry settle a delivery: it may be acknowledged.
const (
	// Retry: nothing is settled; deliver the message again. Err says why.
	Retry Kind = iota
	// Processed: this call made it real.
	Processed
	// Duplicate: it was done before; Reply is the answer of then.
	Duplicate
	// Held: it waits, durably, for its predecessors.
	Held
	// Rejected: it will not be processed. It belongs on a dead-letter queue, with the reason.
	Rejected
)

// String gives the kind's word.
func (k Kind) String() string {
	switch k {
	case Retry:
		return "retry"
	case Processed:
		return "processed"
	case Duplicate:
		return "duplicate"
	case Held:
		return "held"
	case Rejected:
		return "rejected"
	}
	return "unknown"
}

// An Outcome is the fate of one message.
type Outcome struct {
	Kind Kind
	// Reason is the stable word for why a message was rejected, such as "key-reuse", "unknown", "stale-epoch" or "rejected" (by the handler).
	Reason string
	// Detail says more about it, for people.
	Detail string
	// Reply is what the handler answered, nil where it did not. Of Processed and Duplicate.
	Reply *Reply
	// Err is why a message must be tried again. Of Retry.
	Err error
}

// Settled reports whether the delivery may be acknowledged.
func (o Outcome) Settled() bool { return o.Kind != Retry }

// A Reply is what a handler answered. It is kept with the message's token and given to duplicates byte for byte.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

func outcome(o record.Outcome) Outcome {
	kinds := [...]Kind{record.Retry: Retry, record.Processed: Processed, record.Duplicate: Duplicate, record.HeldBack: Held, record.Rejected: Rejected}
	return Outcome{Kind: kinds[o.Kind], Reason: string(o.Reason), Detail: o.Detail, Reply: reply(o.Reply), Err: o.Err}
}

func reply(r *record.Reply) *Reply {
	if r == nil {
		return nil
	}
	return &Reply{Status: r.Status, Header: r.Header, Body: r.Body}
}
